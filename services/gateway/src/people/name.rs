//! Names of people and tokens. They stand on cards as who decided, so they must not pretend.

/// The name cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has 1 to 64 letters, digits, spaces or . _ - @ ', and is none of the page's own words"
)]
pub(crate) struct NotAName;

/// Words with which the pages speak of others.
const OWN_WORDS: [&str; 8] = [
    "you",
    "agent",
    "the agent",
    "kazma",
    "nobody",
    "system",
    "policy",
    "a rule",
];

/// `name` without spaces around it, if it can be used.
pub(super) fn checked(name: &str) -> Result<String, NotAName> {
    let name = name.trim();
    let letters = name.chars().count();
    let fits = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | '_' | '-' | '@' | '\'');
    let first = name.chars().next().is_some_and(char::is_alphanumeric);
    if !(1..=64).contains(&letters)
        || !first
        || !name.chars().all(fits)
        || name.contains("  ")
        || OWN_WORDS.contains(&name.to_lowercase().as_str())
    {
        return Err(NotAName);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_pretend() {
        for name in ["Lea", "lea.müller@example.org", "ليلى", "O'Neill 2"] {
            assert_eq!(checked(name).as_deref(), Ok(name));
        }
        let long = "x".repeat(65);
        for name in [
            "",
            " ",
            "You",
            "kazma",
            "a\u{200B}b",
            "<b>",
            "a\nb",
            ".x",
            "two  spaces",
            "\u{202E}ael",
            &long,
        ] {
            assert_eq!(checked(name), Err(NotAName), "{name:?}");
        }
    }
}
