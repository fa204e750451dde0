# The images of Kazma, one target each. Programs are not compiled here: `scripts/images` builds them first
# and hands the folder they lie in to the engine as the build context.
#
# Every base is a public image. Where no registry answers, `scripts/images` makes it from Debian
# packages under the same name.

# What the sandbox needs, with what brings it there.
FROM debian:bookworm-slim AS sandbox-root
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      coreutils dash findutils git grep gzip hostname jq mypy procps python3 python3-pytest tar unzip zip
# A snippet needs no package manager, no accounts and nothing that runs as somebody else. What is left out
# is removed by name, so that the list of what is left can be read.
RUN dpkg --purge --force-all \
      adduser apt base-passwd bash bsdutils debconf debian-archive-keyring debianutils diffutils e2fsprogs \
      gpgv init-system-helpers login logsave mount passwd perl perl-base perl-modules-5.36 libperl5.36 \
      liberror-perl sysvinit-utils util-linux util-linux-extra >/dev/null 2>&1; \
    rm -rf /var /etc/apt /etc/dpkg /usr/bin/dpkg* /usr/sbin/dpkg* /usr/lib/dpkg /usr/lib/apt /usr/share/dpkg \
      /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/perl* /usr/share/bash-completion \
      /usr/share/lintian /usr/share/zoneinfo/right /root /home /boot /srv /opt /media /mnt /tmp /run \
 && mkdir -m 1777 /tmp \
 && find / -xdev -perm /6000 -type f -exec chmod a-s {} + \
 && rm -f /usr/lib/*/perl*

FROM scratch AS sandbox
COPY --from=sandbox-root / /
COPY bin/ /usr/bin/
COPY sandbox-init /usr/lib/kazma/sandbox-init
ENV PATH=/usr/bin:/bin HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8
USER 65534:65534
ENTRYPOINT ["/usr/lib/kazma/sandbox-init"]
