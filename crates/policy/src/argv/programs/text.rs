//! Programs that read files and print.

use crate::argv::{
    Refusal,
    grammar::{Grammar, Kind, Operands},
    printing,
    verdict::refuse,
};

const COLOURS: Kind = Kind::Words("always never auto yes no force none tty if-tty");

pub(super) const GRAMMARS: &[Grammar] = &[
    Grammar {
        name: "cat",
        flags: "-A --show-all -b --number-nonblank -e -E --show-ends -n --number -s --squeeze-blank -t -T --show-tabs \
                -u -v --show-nonprinting --help --version",
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "head",
        flags: "-q --quiet --silent -v --verbose -z --zero-terminated --help --version",
        values: &[("-c --bytes", Kind::Number), ("-n --lines", Kind::Number)],
        digits: true,
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "tail",
        flags: "-q --quiet --silent -v --verbose -z --zero-terminated --help --version",
        values: &[("-c --bytes", Kind::Number), ("-n --lines", Kind::Number)],
        refused: &[
            ("-f -F --follow --retry --pid", "waits for ever"),
            (
                "-s --sleep-interval --max-unchanged-stats",
                "only matters to what waits for ever",
            ),
        ],
        digits: true,
        operands: Operands::Read(usize::MAX),
        check: Some(|parsed, _| {
            // The old form of its options: `+5f`, `+5lf`, of which the last letter follows for ever.
            let old = |word: &&String| {
                word.strip_prefix('+')
                    .is_some_and(|it| it.trim_end_matches('f').len() < it.len())
            };
            match parsed.operands.first().filter(old) {
                Some(word) => refuse!("`{word}` waits for ever, by its f"),
                None => Ok(()),
            }
        }),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "wc",
        flags: "-c --bytes -m --chars -l --lines -L --max-line-length -w --words --help --version",
        values: &[("--total", Kind::Words("auto always only never"))],
        refused: &[("--files0-from", "takes the names of files from a file")],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "sort",
        flags: "-b --ignore-leading-blanks -d --dictionary-order -f --ignore-case -g --general-numeric-sort -i \
                --ignore-nonprinting -M --month-sort -h --human-numeric-sort -n --numeric-sort -R --random-sort -r \
                --reverse -V --version-sort -c -C -m --merge -s --stable -u --unique -z --zero-terminated --debug \
                --help --version",
        values: &[
            ("-k --key", Kind::Judged(sort_key)),
            ("-t --field-separator", Kind::Text),
            ("-S --buffer-size", Kind::Number),
            ("--batch-size", Kind::Number),
            ("--parallel", Kind::Number),
            (
                "--sort",
                Kind::Words("general-numeric human-numeric month numeric random version"),
            ),
        ],
        optional: &[("--check", Kind::Words("quiet silent diagnose-first"))],
        refused: &[
            ("-o --output", "writes a file"),
            (
                "-T --temporary-directory",
                "writes files in a folder of the caller's choice",
            ),
            ("--compress-program", "runs a program"),
            ("--files0-from", "takes the names of files from a file"),
            ("--random-source", "reads a file that is no operand"),
        ],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "uniq",
        flags: "-c --count -d --repeated -D -i --ignore-case -u --unique -z --zero-terminated --help --version",
        values: &[
            ("-f --skip-fields", Kind::Number),
            ("-s --skip-chars", Kind::Number),
            ("-w --check-chars", Kind::Number),
        ],
        optional: &[
            ("--all-repeated", Kind::Words("none prepend separate")),
            ("--group", Kind::Words("separate prepend append both")),
        ],
        digits: true,
        operands: Operands::Read(usize::MAX),
        check: Some(|parsed, _| match parsed.operands.get(1) {
            Some(second) => refuse!("the second operand, `{second}`, would be written"),
            None => Ok(()),
        }),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "cut",
        flags: "-n --complement -s --only-delimited -z --zero-terminated --help --version",
        values: &[
            ("-b --bytes", Kind::Text),
            ("-c --characters", Kind::Text),
            ("-d --delimiter", Kind::Text),
            ("-f --fields", Kind::Text),
            ("--output-delimiter", Kind::Text),
        ],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "tr",
        flags: "-c -C --complement -d --delete -s --squeeze-repeats -t --truncate-set1 --help --version",
        permutes: false,
        operands: Operands::Text(2),
        check: Some(|parsed, _| {
            parsed
                .operands
                .iter()
                .try_for_each(|set| printing::tr_set(set))
        }),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "grep",
        flags: "-E --extended-regexp -F --fixed-strings -G --basic-regexp -P --perl-regexp -i -y --ignore-case \
                --no-ignore-case -v --invert-match -w --word-regexp -x --line-regexp -c --count -L \
                --files-without-match -l --files-with-matches -o --only-matching -q --quiet --silent -s \
                --no-messages -b --byte-offset -H --with-filename -h --no-filename -n --line-number -T --initial-tab \
                -U --binary -Z --null -z --null-data -a --text -I -r --recursive --line-buffered \
                --no-group-separator -V --version --help",
        values: &[
            ("-e --regexp", Kind::Text),
            ("-f --file", Kind::Read),
            ("-m --max-count", Kind::Number),
            ("-A --after-context", Kind::Number),
            ("-B --before-context", Kind::Number),
            ("-C --context", Kind::Number),
            ("--label", Kind::Text),
            ("--include", Kind::Text),
            ("--exclude", Kind::Text),
            ("--exclude-dir", Kind::Text),
            ("--exclude-from", Kind::Read),
            ("--group-separator", Kind::Text),
            ("--binary-files", Kind::Words("binary text without-match")),
            ("-d --directories", Kind::Words("read skip recurse")),
            ("-D --devices", Kind::Words("skip")),
        ],
        optional: &[("--color --colour", COLOURS)],
        refused: &[(
            "-R --dereference-recursive",
            "follows links, also out of the workspace",
        )],
        digits: true,
        operands: Operands::PatternThenRead(&["-e", "-f"]),
        ..Grammar::EMPTY
    },
];

/// A key of sort: `F[.C][OPTS][,F[.C][OPTS]]`.
fn sort_key(key: &str) -> Result<(), Refusal> {
    let plain = |c: char| c.is_ascii_digit() || ".,bdfgiMhnRrV".contains(c);
    if key.starts_with(|c: char| c.is_ascii_digit()) && key.chars().all(plain) {
        Ok(())
    } else {
        refuse!("`{key}` is not a key")
    }
}
