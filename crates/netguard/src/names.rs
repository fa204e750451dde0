//! Names of hosts that are none of the internet, whatever they resolve to.

/// Last labels that stand for a local network, or for none.
///
/// Sources: RFC 6761 and its registry of special-use names, RFC 6762 (`local` and the names of
/// appendix G), RFC 8375, RFC 3172 (`arpa` names the network's own parts), ICANN's reservation of `internal`, and the
/// names inside of a Kubernetes cluster.
const LOCAL: [&str; 20] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "intra",
    "private",
    "corp",
    "home",
    "lan",
    "lanhost",
    "arpa",
    "svc",
    "cluster.local",
    "consul",
    "docker",
    "workgroup",
    "onion",
    "alt",
    "invalid",
];

/// Public names of metadata services.
const METADATA: [&str; 5] = [
    "metadata.goog",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.cloud.ibm.com",
    "metadata.tencentyun.com",
];

/// The longest name that the DNS has.
const NAME_MAX: usize = 253;

/// What `name`, in small letters and ASCII, is if it is none of the internet.
pub(crate) fn special(name: &str) -> Option<&'static str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is = |special: &str| {
        name.strip_suffix(special)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if name.is_empty()
        || name.len() > NAME_MAX
        || name
            .split('.')
            .any(|label| label.is_empty() || label.len() > 63)
    {
        Some("not a name: a part of it is empty or too long")
    } else if METADATA.iter().any(|special| is(special)) {
        Some("a cloud's metadata service")
    } else if LOCAL.iter().any(|special| is(special)) {
        Some("a name of a local network")
    } else if !name.contains('.') {
        Some("a name of one word, which only a local network has")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_names_are_told_from_public_ones() {
        for name in [
            "localhost",
            "localhost.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "intranet",
            "metadata.goog",
            "kubernetes.default.svc",
            "a.svc.cluster.local",
            "router.home.arpa",
            "a..b",
            ".",
            "",
            ".example.com",
            "example.com..",
            "1.0.0.127.in-addr.arpa",
            "ipv4only.arpa",
        ] {
            assert!(special(name).is_some(), "{name}");
        }
        for name in [
            "example.com",
            "example.com.",
            "localhost.example.com",
            "mylocal.com",
            "internal.example.com",
            "local.example",
        ] {
            assert_eq!(special(name), None, "{name}");
        }
    }
}
