//! Label values that come from elsewhere.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// What stands for a value that is not told apart.
const OTHER: &str = "other";
/// Bytes of a value.
const NAME_MAX: usize = 48;

/// A bounded set of label values: what is not spelled as names are, or comes when the set is full, is
/// `other`.
#[derive(Debug)]
pub struct Names {
    known: Mutex<BTreeSet<String>>,
    max: usize,
}

impl Names {
    /// A set of at most `max` values.
    pub const fn new(max: usize) -> Self {
        Self {
            known: Mutex::new(BTreeSet::new()),
            max,
        }
    }

    /// The value itself, or `other`.
    pub fn known<'a>(&self, text: &'a str) -> &'a str {
        let spelled = !text.is_empty()
            && text.len() <= NAME_MAX
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
        if !spelled {
            return OTHER;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(text) {
            return text;
        }
        if known.len() >= self.max {
            return OTHER;
        }
        known.insert(text.to_owned());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_values_than_were_allowed_and_none_that_are_no_names() {
        let names = Names::new(2);
        assert_eq!(names.known("tier-read"), "tier-read");
        for odd in ["", "Two words", "a\nb", "a\"", &"x".repeat(49)] {
            assert_eq!(names.known(odd), "other");
        }
        assert_eq!(names.known("always-asked"), "always-asked");
        assert_eq!(names.known("third"), "other");
        assert_eq!(names.known("tier-read"), "tier-read");
    }
}
