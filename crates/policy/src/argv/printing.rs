//! Small languages that say how to print: what could make a short argument print without end.

use super::{Refusal, verdict::refuse};

/// The widest field.
const WIDEST: u64 = 1000;

/// Refuses a format (of printf, date or find) that has a field wider than a screen can be.
pub(super) fn widths(format: &str) -> Result<(), Refusal> {
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\\' {
            rest.next();
            continue;
        }
        if c != '%' {
            continue;
        }
        let mut number = 0_u64;
        while let Some(c) = rest.peek().copied() {
            match c.to_digit(10) {
                Some(digit) => {
                    number = number.saturating_mul(10).saturating_add(u64::from(digit));
                    if number > WIDEST {
                        return refuse!("a field in `{format}` is wider than {WIDEST}");
                    }
                }
                None if matches!(
                    c,
                    '.' | '$' | '-' | '+' | ' ' | '#' | '0' | '\'' | '_' | '^' | ':'
                ) =>
                {
                    number = 0;
                }
                None => break,
            }
            rest.next();
        }
        if rest.peek() == Some(&'*') {
            return refuse!("a field in `{format}` takes its width from an operand");
        }
        rest.next();
    }
    Ok(())
}

/// Refuses a set of tr whose repetition is longer than any set.
pub(super) fn tr_set(set: &str) -> Result<(), Refusal> {
    let mut rest = set;
    while let Some((_, after)) = rest.split_once('*') {
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() - digits.len() > 6 && digits.starts_with(']') {
            return refuse!("a repetition in `{set}` is too long");
        }
        rest = digits;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wide_fields_are_refused() {
        for good in [
            "%s\\n",
            "%5.2f",
            "%-20s|",
            "100%",
            "%%",
            "%08d",
            "+%Y-%m-%d",
            "%3$s",
            "\\%99999d",
        ] {
            assert!(widths(good).is_ok(), "{good}");
        }
        for bad in [
            "%2000000000d",
            "%.99999d",
            "%*d",
            "%-9999s",
            "+%_9999999Y",
            "a%%%99999s",
        ] {
            assert!(widths(bad).is_err(), "{bad}");
        }
        assert!(tr_set("[a*10]").is_ok() && tr_set("[a*99999999999]").is_err());
    }
}
