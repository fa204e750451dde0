//! The exact thing a card asks about, line by line and never cut.

/// What a block of the exact thing is; decides how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Program text, with line numbers.
    Code,
    /// A unified diff: added and removed lines are marked by sign and colour.
    Diff,
    /// A command: one argument a line, numbered from 0 as in `argv`.
    Command,
    /// A plain argument, such as a path or a recipient.
    Field,
}

/// How a line of a block stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Unchanged, or not a diff.
    Same,
    /// Added by the change.
    Added,
    /// Removed by the change.
    Removed,
    /// A place name inside a diff, or a remark of ours; not part of the content.
    Note,
}

/// One line of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number as drawn; empty where a line has none.
    pub number: String,
    /// How it stands.
    pub mark: Mark,
    /// Its text without the line feed.
    pub text: String,
}

impl Line {
    /// Whether the change adds this line.
    pub fn added(&self) -> bool {
        self.mark == Mark::Added
    }

    /// Whether the change removes this line.
    pub fn removed(&self) -> bool {
        self.mark == Mark::Removed
    }

    /// Whether this is a remark rather than content.
    pub fn note(&self) -> bool {
        self.mark == Mark::Note
    }
}

/// One block of the exact thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exact {
    /// What it is, in a word or a path: `code`, `notes/today.md`, `recipient`.
    pub label: String,
    /// How it is drawn.
    pub kind: Kind,
    /// All of its lines.
    pub lines: Vec<Line>,
}

impl Exact {
    /// Program text.
    pub fn code(label: &str, text: &str) -> Self {
        Self {
            label: label.to_owned(),
            kind: Kind::Code,
            lines: numbered(text),
        }
    }

    /// One argument, whatever it is called.
    pub fn field(name: &str, value: &str) -> Self {
        Self {
            label: name.to_owned(),
            kind: Kind::Field,
            lines: drawn(value, value),
        }
    }

    /// The arguments of a command, the program first. One that is empty says so.
    pub fn command<'a>(label: &str, argv: impl IntoIterator<Item = &'a str>) -> Self {
        let lines = argv.into_iter().enumerate().map(|(index, argument)| {
            let (mark, text) = match argument {
                "" => (Mark::Note, "empty"),
                argument => (Mark::Same, argument),
            };
            Line {
                number: index.to_string(),
                mark,
                text: text.to_owned(),
            }
        });
        Self {
            label: label.to_owned(),
            kind: Kind::Command,
            lines: lines.collect(),
        }
    }

    /// A unified diff of one file. File headers are left out, the label names the file; numbers are those of the
    /// line in the new file, or in the old one where the line goes away.
    pub fn diff(path: &str, unified: &str) -> Self {
        let (mut old, mut new) = (1_u64, 1_u64);
        let mut lines = Vec::new();
        let mut in_hunk = false;
        for text in unified.strip_suffix('\n').unwrap_or(unified).split('\n') {
            if let Some((from, to)) = hunk(text) {
                (old, new, in_hunk) = (from, to, true);
                lines.push(Line {
                    number: String::new(),
                    mark: Mark::Note,
                    text: text.to_owned(),
                });
                continue;
            }
            if !in_hunk && (text.starts_with("--- ") || text.starts_with("+++ ")) {
                continue;
            }
            let mut chars = text.chars();
            let (number, mark) = match chars.next() {
                Some('+') => (new, Mark::Added),
                Some('-') => (old, Mark::Removed),
                Some('\\') => (0, Mark::Note),
                _ => (new, Mark::Same),
            };
            new += u64::from(matches!(mark, Mark::Added | Mark::Same));
            old += u64::from(matches!(mark, Mark::Removed | Mark::Same));
            let number = if mark == Mark::Note {
                String::new()
            } else {
                number.to_string()
            };
            lines.push(Line {
                number,
                mark,
                text: chars.as_str().to_owned(),
            });
        }
        Self {
            label: path.to_owned(),
            kind: Kind::Diff,
            lines,
        }
    }

    /// Whether the lines are numbered and set in a block of their own, rather than on one row with the label.
    pub fn is_block(&self) -> bool {
        self.kind != Kind::Field || self.lines.len() > 1
    }

    /// Whether it is a diff.
    pub fn is_diff(&self) -> bool {
        self.kind == Kind::Diff
    }

    /// Whether it is a command, whose arguments are drawn as boxes: a blank at an end shows.
    pub fn is_command(&self) -> bool {
        self.kind == Kind::Command
    }

    /// How long it is, in words: `3 lines`, `2 added, 1 removed`, `4 arguments`.
    pub fn extent(&self) -> String {
        let count = |mark| self.lines.iter().filter(|line| line.mark == mark).count();
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match self.kind {
            Kind::Diff => format!(
                "{} added, {} removed",
                count(Mark::Added),
                count(Mark::Removed)
            ),
            Kind::Command => plural(self.lines.len(), "argument"),
            Kind::Code | Kind::Field => plural(count(Mark::Same), "line"),
        }
    }
}

/// Lines of a text. A missing line feed at the end is not drawn, an empty text says that it is empty.
fn numbered(text: &str) -> Vec<Line> {
    drawn(text, text.strip_suffix('\n').unwrap_or(text))
}

/// Lines of what is `drawn` of a text.
fn drawn(text: &str, drawn: &str) -> Vec<Line> {
    if text.is_empty() {
        return vec![Line {
            number: String::new(),
            mark: Mark::Note,
            text: "empty".to_owned(),
        }];
    }
    drawn
        .split('\n')
        .enumerate()
        .map(|(index, line)| Line {
            number: (index + 1).to_string(),
            mark: Mark::Same,
            text: line.to_owned(),
        })
        .collect()
}

/// The first old and new line number of `@@ -1,3 +1,4 @@`.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let first = |range: &str| range.split(',').next().and_then(|n| n.parse::<u64>().ok());
    Some((first(old)?, first(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_keeps_every_line_and_its_number() {
        let diff = Exact::diff(
            "a.txt",
            "--- a.txt\n+++ a.txt\n@@ -3,3 +3,3 @@\n same\n-old\n+-- new\n tail\n\\ No newline at end of file\n",
        );
        let drawn: Vec<(&str, Mark, &str)> = diff
            .lines
            .iter()
            .map(|line| (line.number.as_str(), line.mark, line.text.as_str()))
            .collect();
        assert_eq!(
            drawn,
            [
                ("", Mark::Note, "@@ -3,3 +3,3 @@"),
                ("3", Mark::Same, "same"),
                ("4", Mark::Removed, "old"),
                ("4", Mark::Added, "-- new"),
                ("5", Mark::Same, "tail"),
                ("", Mark::Note, " No newline at end of file"),
            ]
        );
        assert_eq!(diff.extent(), "1 added, 1 removed");
    }

    #[test]
    fn a_removed_line_that_looks_like_a_header_is_still_shown() {
        let diff = Exact::diff("a", "@@ -1,1 +1,0 @@\n--- secret\n");
        assert_eq!(diff.lines.last().unwrap().text, "-- secret");
        assert!(diff.lines.last().unwrap().removed());
    }

    #[test]
    fn no_line_is_lost() {
        assert_eq!(Exact::code("code", "a\n\n\nb").lines.len(), 4);
        assert_eq!(Exact::code("code", "a\n").extent(), "1 line");
        assert_eq!(Exact::code("code", "").lines[0].text, "empty");
        // A name that ends in a line feed is another name.
        assert_eq!(Exact::field("file", "a\n").lines.len(), 2);
        assert_eq!(Exact::field("file", "a").lines.len(), 1);
        assert_eq!(
            Exact::command("command", ["ls", "-l"]).extent(),
            "2 arguments"
        );
        let empty = Exact::command("command", ["printf", ""]);
        assert_eq!(empty.extent(), "2 arguments");
        assert!(empty.lines[1].note());
    }
}
