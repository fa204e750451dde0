//! Programs that tell about the machine, or wait.

use crate::argv::{
    Refusal,
    grammar::{Grammar, Kind, Operands},
    options::Parsed,
    paths::Workspace,
    printing, text,
    verdict::refuse,
};

/// The longest wait, in seconds.
const LONGEST_SLEEP: f64 = 300.0;

pub(super) const GRAMMARS: &[Grammar] = &[
    Grammar {
        name: "whoami",
        flags: "--help --version",
        ..Grammar::EMPTY
    },
    Grammar {
        name: "pwd",
        flags: "-L --logical -P --physical --help --version",
        ..Grammar::EMPTY
    },
    Grammar {
        name: "uname",
        flags: "-a --all -s --kernel-name -n --nodename -r --kernel-release -v --kernel-version -m --machine -p \
                --processor -i --hardware-platform -o --operating-system --help --version",
        ..Grammar::EMPTY
    },
    Grammar {
        name: "uptime",
        flags: "-p --pretty -s --since -h --help -V --version",
        ..Grammar::EMPTY
    },
    Grammar {
        name: "free",
        flags: "-b --bytes --kilo --mega --giga --tera --peta -k --kibi -m --mebi -g --gibi --tebi --pebi -h --human \
                --si -l --lohi -L --line -t --total -v --committed -w --wide --help -V --version",
        refused: &[("-s --seconds -c --count", "repeats itself")],
        ..Grammar::EMPTY
    },
    Grammar {
        name: "hostname",
        flags: "-d --domain -f --fqdn --long -i --ip-address -I --all-ip-addresses -s --short -h --help -V --version",
        refused: &[
            ("-F --file", "reads a file and sets the machine's name"),
            ("-b --boot", "sets the machine's name"),
            ("-a --alias -A --all-fqdns", "asks name servers"),
            ("-y --yp --nis", "asks a directory"),
        ],
        check: Some(|parsed, _| match parsed.operands.first() {
            Some(name) => refuse!("the operand `{name}` would set the machine's name"),
            None => Ok(()),
        }),
        operands: Operands::Judged,
        ..Grammar::EMPTY
    },
    Grammar {
        name: "sleep",
        flags: "--help --version",
        operands: Operands::Judged,
        check: Some(sleep),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "kazma",
        flags: "-h --help -V --version",
        operands: Operands::Judged,
        check: Some(|parsed, _| match parsed.operands.first() {
            Some(_) => refuse!("only --version and --help: the agent does not operate Kazma"),
            None => Ok(()),
        }),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "pgrep",
        flags: "-l --list-name -v --inverse -w --lightweight -c --count -f --full -i --ignore-case -n --newest -o \
                --oldest -x --exact -A --ignore-ancestors -h --help -V --version",
        values: &[
            ("-d --delimiter", Kind::Text),
            ("-g --pgroup", Kind::Text),
            ("-G --group", Kind::Text),
            ("-O --older", Kind::Number),
            ("-P --parent", Kind::Text),
            ("-s --session", Kind::Text),
            ("-t --terminal", Kind::Text),
            ("-u --euid", Kind::Text),
            ("-U --uid", Kind::Text),
            ("-r --runstates", Kind::Text),
        ],
        refused: &[
            (
                "-a --list-full",
                "prints command lines, and secrets stand in those",
            ),
            ("-F --pidfile -L --logpidfile", "reads a file"),
            ("--ns --nslist --cgroup", "looks into other namespaces"),
        ],
        operands: Operands::Text(1),
        ..Grammar::EMPTY
    },
];

/// Durations as sleep adds them up, in plain decimals.
fn sleep(parsed: &Parsed, _: &Workspace<'_>) -> Result<(), Refusal> {
    let mut sum = 0.0;
    for operand in &parsed.operands {
        let (digits, unit) = match operand.strip_suffix(['s', 'm', 'h', 'd']) {
            Some(digits) => (digits, operand.strip_prefix(digits).unwrap_or_default()),
            None => (operand.as_str(), ""),
        };
        let plain = digits.len() <= 12
            && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let Some(number) = digits.parse::<f64>().ok().filter(|_| plain) else {
            return refuse!("`{operand}` is not a plain number of seconds");
        };
        sum += number
            * match unit {
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => 1.0,
            };
    }
    if sum > LONGEST_SLEEP {
        return refuse!("it would wait for more than {LONGEST_SLEEP} seconds");
    }
    Ok(())
}

/// A format whose fields are no wider than a screen, and operands that are only printed. It has no options but
/// `--help` and `--version`.
pub(super) fn printf(arguments: &[String]) -> Result<(), Refusal> {
    let operands = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => arguments,
    };
    let Some((format, operands)) = operands.split_first() else {
        return Ok(());
    };
    let option_like = format.starts_with('-') && !format.contains(['%', '\\', ' ']);
    if option_like
        && operands.len() + 1 == arguments.len()
        && !matches!(format.as_str(), "-" | "--help" | "--version")
    {
        return refuse!("printf: `{format}` looks like an option; put -- before it");
    }
    printing::widths(format)?;
    printed(operands)
}

/// Words that are only printed, but not as if there were a shell.
pub(super) fn printed(words: &[String]) -> Result<(), Refusal> {
    match words.iter().find(|word| text::is_operator(word)) {
        Some(operator) => refuse!(
            "`{operator}` as a word of its own: there is no shell here, so it would only be printed; quote it with \
             the words around it"
        ),
        None => Ok(()),
    }
}
