//! One spelling for every path. Another one is not found, before anything is routed.

/// Whether `path` is spelled the one way that routes are: no empty, `.` or `..` segment, nothing encoded
/// that need not be, no backslash.
pub(crate) fn is_canonical(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains("//")
        && path
            .split('/')
            .all(|segment| segment != "." && segment != "..")
        && path
            .bytes()
            .all(|b| b.is_ascii_graphic() && !matches!(b, b'\\' | b'%' | b';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_not_canonical() {
        for path in [
            "/",
            "/api/threads",
            "/threads/thread_00",
            "/assets/app-00.css",
            "/.well-known/x",
        ] {
            assert!(is_canonical(path), "{path}");
        }
        for path in [
            "",
            "//api/threads",
            "/api//threads",
            "/api/./threads",
            "/api/../threads",
            "/api/..",
            "/api/%2e%2e/x",
            "/API/x/..%2f",
            "/api%2fthreads",
            "/api/threads%",
            "/api/%zz",
            "/api\\threads",
            "/api/threads;x=1",
            "*",
            "/%00",
        ] {
            assert!(!is_canonical(path), "{path}");
        }
    }
}
