# The images of Kazma, a target each: gateway, agent, gate-registry, sandbox-runner and sandbox. Built by
# `docker compose build`, and by any builder that knows cache mounts.
#
# Every base is a public image. Where no registry answers, `scripts/images` makes them from Debian packages
# under the same names.
ARG RUST_IMAGE=rust:1.95-bookworm
ARG NODE_IMAGE=node:22-bookworm-slim
ARG PYTHON_IMAGE=python:3.12-slim-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim
# Where the sandbox gets its programs: `built` here, or `given` with the context (`scripts/images --init`).
ARG SANDBOX_PROGRAMS=built

# What the gateway's pages take from npm.
FROM ${NODE_IMAGE} AS assets
WORKDIR /src
COPY scripts/assets scripts/assets
COPY services/gateway/package.json services/gateway/package-lock.json services/gateway/.npmrc services/gateway/
RUN mkdir services/gateway/assets && scripts/assets

# Every program, compiled once, without a library to load.
FROM ${RUST_IMAGE} AS build
ARG PROFILE=release
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY tests tests
COPY services services
COPY --from=assets /src/services/gateway/assets/vendor services/gateway/assets/vendor
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-gnu" \
 && export CARGO_INCREMENTAL=0 RUSTFLAGS="-C target-feature=+crt-static" \
 && cargo build --locked --profile "$PROFILE" --target "$target" --bins \
      -p kazma-gateway -p kazma-agent -p kazma-gate-registry -p kazma-sandbox-runner \
 && mkdir -p /out/bin /out/crates \
 && for package in kazma-gateway kazma-agent kazma-gate-registry kazma-sandbox-runner; do \
      cp "target/$target/$PROFILE/$package" /out/bin/ \
   && cargo tree --locked --quiet --package "$package" --target "$target" --edges normal --prefix none \
        --format '{p}|{l}' >"/out/crates/$package" || exit 1; \
    done \
 && cp "target/$target/$PROFILE/sandbox-init" /out/bin/

# What each image is made of, in CycloneDX.
FROM ${PYTHON_IMAGE} AS bills
WORKDIR /src
COPY scripts/sbom scripts/sbom
COPY Cargo.toml Cargo.lock ./
COPY services/gateway/package-lock.json services/gateway/
COPY --from=build /out/crates /out/crates
RUN mkdir /bills && for package in gateway agent gate-registry sandbox-runner; do \
      scripts/sbom "$package" "/out/crates/kazma-$package" >"/bills/$package" || exit 1; \
    done

# What lies in each image, with whose it is: a fresh volume takes owner and mode from the folder it covers.
#   10001 gateway · 10002 agent · 10003 gate-registry · 10004 runner-api · 10005 runner-egress
FROM ${DEBIAN_IMAGE} AS roots
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /roots
COPY --from=build /out/bin /bin-built
COPY --from=bills /bills /bills
COPY LICENSE /
RUN for image in gateway agent gate-registry sandbox-runner; do \
      install -d "$image/usr/bin" "$image/usr/share/sbom" "$image/usr/share/licenses/kazma" \
        "$image/etc/ssl/certs" "$image/var/lib" "$image/run/kazma" \
   && install -d -m 1777 "$image/tmp" \
   && install -m 0755 "/bin-built/kazma-$image" "$image/usr/bin/kazma" \
   && install -m 0644 "/bills/$image" "$image/usr/share/sbom/kazma-$image.cdx.json" \
   && install -m 0644 /LICENSE "$image/usr/share/licenses/kazma/LICENSE" \
   && install -m 0644 /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/" || exit 1; \
    done \
 && rm agent/etc/ssl/certs/* gate-registry/etc/ssl/certs/* \
 && install -d -m 0700 -o 10001 -g 10001 gateway/var/lib/kazma \
 && install -d -m 0700 -o 10002 -g 10002 agent/var/lib/kazma \
 && install -d -m 0700 -o 10003 -g 10003 gate-registry/var/lib/kazma \
 && install -d -m 0700 -o 10004 -g 10004 sandbox-runner/var/lib/kazma \
 && install -d -m 0700 -o 10005 -g 10005 sandbox-runner/var/lib/kazma-egress \
 && install -d -m 0700 sandbox-runner/var/lib/kazma-broker \
 && install -d -m 2750 -o 0 -g 10004 sandbox-runner/run/kazma/broker \
 && install -d -m 2750 -o 10004 -g 65534 sandbox-runner/workspace \
    # The registry writes join tokens, one service reads each: the same folder in both images.
 && install -d -m 2750 -o 10003 -g 10001 gateway/run/kazma/join gate-registry/run/kazma/join/gateway \
 && install -d -m 2750 -o 10003 -g 10002 agent/run/kazma/join gate-registry/run/kazma/join/agent \
 && install -d -m 2750 -o 10003 -g 10004 sandbox-runner/run/kazma/join gate-registry/run/kazma/join/runner-api \
 && install -d -m 2750 -o 10003 -g 10005 sandbox-runner/run/kazma/join-egress \
      gate-registry/run/kazma/join/runner-egress

FROM scratch AS gateway
COPY --from=roots /roots/gateway /
LABEL org.opencontainers.image.title="kazma-gateway" \
      org.opencontainers.image.description="Kazma: the pages, the API, sign-in, and the way to the model" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
ENV KAZMA_DATA_DIR=/var/lib/kazma
USER 10001:10001
EXPOSE 9090
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/usr/bin/kazma", "health"]
ENTRYPOINT ["/usr/bin/kazma"]
CMD ["serve"]

FROM scratch AS agent
COPY --from=roots /roots/agent /
LABEL org.opencontainers.image.title="kazma-agent" \
      org.opencontainers.image.description="Kazma: the loop that asks the model and names calls" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
ENV KAZMA_DATA_DIR=/var/lib/kazma
USER 10002:10002
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/usr/bin/kazma", "health"]
ENTRYPOINT ["/usr/bin/kazma"]
CMD ["serve"]

FROM scratch AS gate-registry
COPY --from=roots /roots/gate-registry /
LABEL org.opencontainers.image.title="kazma-gate-registry" \
      org.opencontainers.image.description="Kazma: decides, signs permits, and keeps what happened" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
ENV KAZMA_DATA_DIR=/var/lib/kazma
USER 10003:10003
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/usr/bin/kazma", "health"]
ENTRYPOINT ["/usr/bin/kazma"]
CMD ["serve"]

# `serve api`, `serve egress` (as 10005) and `serve broker` (as 0, without capabilities or a network).
FROM scratch AS sandbox-runner
COPY --from=roots /roots/sandbox-runner /
LABEL org.opencontainers.image.title="kazma-sandbox-runner" \
      org.opencontainers.image.description="Kazma: plans and runs permitted calls, starts sandboxes, fetches and searches" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
ENV KAZMA_DATA_DIR=/var/lib/kazma
USER 10004:10004
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s CMD ["/usr/bin/kazma", "health", "api"]
ENTRYPOINT ["/usr/bin/kazma"]
CMD ["serve", "api"]

# The programs of the sandbox that Debian does not have.
FROM ${PYTHON_IMAGE} AS tools
COPY deploy/sandbox/tools.txt /
RUN python3 -m pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes \
      --target /tools --requirement /tools.txt

FROM scratch AS programs-built
COPY --from=build /out/bin/sandbox-init /sandbox-init
COPY --from=tools /tools/bin/ruff /tools/bin/uv /bin/

FROM scratch AS programs-given
COPY sandbox-init /sandbox-init
COPY bin/ /bin/

# hadolint ignore=DL3006
FROM programs-${SANDBOX_PROGRAMS} AS programs

# What the sandbox needs, with what brings it there.
FROM ${DEBIAN_IMAGE} AS sandbox-root
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      coreutils dash findutils git grep gzip hostname jq mypy procps python3 python3-pytest tar unzip zip
# A snippet needs no package manager, no accounts and nothing that runs as somebody else. What is left out
# is removed by name, so that the list of what is left can be read.
# hadolint ignore=SC2114
RUN dpkg --purge --force-all \
      adduser apt base-passwd bash bsdutils debconf debian-archive-keyring debianutils diffutils e2fsprogs \
      gpgv init-system-helpers login logsave mount passwd perl perl-base perl-modules-5.36 libperl5.36 \
      liberror-perl sysvinit-utils util-linux util-linux-extra >/dev/null 2>&1; \
    mkdir -p /usr/share/sbom \
 && dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' >/usr/share/sbom/debian-packages.txt; \
    rm -rf /var /etc/apt /etc/dpkg /usr/bin/dpkg* /usr/sbin/dpkg* /usr/lib/dpkg /usr/lib/apt /usr/share/dpkg \
      /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/perl* /usr/share/bash-completion \
      /usr/share/lintian /usr/share/zoneinfo/right /root /home /boot /srv /opt /media /mnt /tmp /run \
 && mkdir -m 1777 /tmp \
 && find / -xdev -perm /6000 -type f -exec chmod a-s {} + \
 && rm -f /usr/lib/*/perl*

FROM scratch AS sandbox
# hadolint ignore=DL3067
COPY --from=sandbox-root / /
COPY --from=programs /bin/ /usr/bin/
COPY --from=programs /sandbox-init /usr/lib/kazma/sandbox-init
COPY deploy/sandbox/tools.txt /usr/share/sbom/python-tools.txt
ENV PATH=/usr/bin:/bin HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8
LABEL org.opencontainers.image.title="kazma-sandbox" \
      org.opencontainers.image.description="Kazma: what a permitted program runs in, used once" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="0.1.0"
USER 65534:65534
ENTRYPOINT ["/usr/lib/kazma/sandbox-init"]
