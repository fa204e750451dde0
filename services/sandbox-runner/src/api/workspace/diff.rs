//! The change that a write would make, as a unified diff. Equal inputs give equal text, always: the
//! plan's digest is over it.

use similar::{Algorithm, TextDiff};

/// Above this many changed lines the change is shown as all old lines out, all new lines in: finding the
/// smallest change costs the square of it.
const SEARCH_LINES: usize = 8_000;

/// The whole change of `path` from `before` to `after`.
pub(super) fn unified(path: &str, before: Option<&[u8]>, after: &str) -> String {
    let Some(old) = before else {
        return lines("", after, "/dev/null", &format!("b/{path}"));
    };
    match std::str::from_utf8(old) {
        Ok(old) if !old.contains('\0') => {
            lines(old, after, &format!("a/{path}"), &format!("b/{path}"))
        }
        _ => format!(
            "The present file is binary ({} bytes) and would be replaced whole by:\n{}",
            old.len(),
            lines("", after, "/dev/null", &format!("b/{path}"))
        ),
    }
}

fn lines(old: &str, new: &str, from: &str, to: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let alike = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let most = a.len().min(b.len()) - alike;
    let alike_end = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take(most)
        .take_while(|(x, y)| x == y)
        .count();
    if a.len() + b.len() - 2 * (alike + alike_end) > SEARCH_LINES {
        return replaced(&a, &b, from, to);
    }
    TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .newline_terminated(true)
        .diff_slices(&a, &b)
        .unified_diff()
        .context_radius(3)
        .header(from, to)
        .to_string()
}

fn replaced(old: &[&str], new: &[&str], from: &str, to: &str) -> String {
    let mut text = format!(
        "--- {from}\n+++ {to}\n@@ -1,{} +1,{} @@\n",
        old.len(),
        new.len()
    );
    for (sign, lines) in [('-', old), ('+', new)] {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_whole() {
        assert_eq!(
            unified("n.txt", Some(b"one\ntwo\n"), "one\nthree"),
            "--- a/n.txt\n+++ b/n.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n"
        );
        assert_eq!(
            unified("n.txt", None, "one\n"),
            "--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+one\n"
        );
        // A lone carriage return is part of its line, not an end of it.
        assert!(unified("n", Some(b"a\n"), "a\rb\n").contains("+a\rb\n"));
    }

    #[test]
    fn a_binary_file_is_named_so() {
        let text = unified("n.bin", Some(b"\xff\x00"), "x\n");
        assert!(text.starts_with("The present file is binary (2 bytes)"));
        assert!(text.ends_with("+x\n"));
    }

    #[test]
    fn a_change_too_large_to_search_still_has_every_line() {
        let old = (0..9_000).fold(String::new(), |text, n| text + &format!("old {n}\n"));
        let new = (0..9_000).fold(String::new(), |text, n| text + &format!("new {n}\n"));
        let text = unified("n", Some(old.as_bytes()), &new);
        assert_eq!(
            text.lines().filter(|l| l.starts_with("-old ")).count(),
            9_000
        );
        assert_eq!(
            text.lines().filter(|l| l.starts_with("+new ")).count(),
            9_000
        );
    }
}
