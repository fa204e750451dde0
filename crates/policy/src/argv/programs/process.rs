//! `ps`: three styles of options in one program.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    paths::Workspace,
    verdict::refuse,
};

static PS: Grammar = Grammar {
    name: "ps",
    flags: "-A -a -d -e -N --deselect -T -c -f -F -j -l -M -y -Z -H -L -m -w -V --version --help --forest --headers \
            --no-headers --no-heading",
    values: &[
        ("-C", Kind::Text),
        ("-G --Group", Kind::Text),
        ("-g", Kind::Text),
        ("--group", Kind::Text),
        ("-p --pid", Kind::Text),
        ("--ppid", Kind::Text),
        ("-q --quick-pid", Kind::Text),
        ("-s --sid", Kind::Text),
        ("-t --tty", Kind::Text),
        ("-u --user", Kind::Text),
        ("-U --User", Kind::Text),
        ("-o --format", Kind::Judged(columns)),
        ("-O", Kind::Judged(columns)),
        ("--sort -k", Kind::Text),
        ("--cols --columns --width", Kind::Number),
        ("--rows --lines", Kind::Number),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

/// What a person may ask of each process.
const COLUMNS: &str = "pid ppid pgid sid tid lwp nlwp user uid ruser euser group gid comm ucmd ucomm args cmd command stat \
    state s pcpu %cpu c pmem %mem rss rsz vsz vsize sz size etime etimes time cputime cputimes start start_time stime \
    lstart bsdstart bsdtime tty tt tname nice ni pri psr cls sched wchan f flags maj_flt min_flt fname thcount";

/// Letters of the old style, without a dash before them, that take no value.
const LETTERS: &str = "aTrxfhjlmuvwcnsSHgLXZ";
/// Letters of the new style that can stand before an `x` in what is meant in the old one.
const BEFORE_X: &str = "aAcdfFHjlLmMTuwyZ";

pub(super) fn judge_ps(
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    let parsed = PS.read(&old_style(arguments), workspace)?;
    let mut argv = Vec::new();
    let mut operands = parsed.operands.iter();
    while let Some(operand) = operands.next() {
        if operand.chars().all(|c| c.is_ascii_digit() || c == ',') {
            argv.push(operand.clone());
        } else {
            argv.extend(letters(operand, operands.as_slice().first())?);
            if ends_in_value(operand) {
                operands.next();
            }
        }
    }
    let argv = said_plainly(parsed.options).into_iter().chain(argv);
    Ok(super::rewritten(argv.collect(), workspace, Tier::Read))
}

/// `ps -aux` and `ps -ax` are `ps aux` and `ps ax`: `x` is none of the new style, or no user's name, and ps reads all its
/// arguments again in the old one. So does this.
fn old_style(arguments: &[String]) -> Vec<String> {
    let cluster = |it: &str| {
        it.strip_prefix('-')
            .filter(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphabetic()))
            .map(str::to_owned)
    };
    let old = arguments.iter().any(|it| {
        cluster(it)
            .and_then(|it| it.split_once('x').map(|(before, _)| before.to_owned()))
            .is_some_and(|before| before.chars().all(|c| BEFORE_X.contains(c)))
    });
    let again = |it: &String| cluster(it).filter(|_| old).unwrap_or_else(|| it.clone());
    arguments.iter().map(again).collect()
}

/// One word of the old style, said plainly; `next` is the word after it.
fn letters(word: &str, next: Option<&String>) -> Result<Vec<String>, Refusal> {
    let mut plain = String::new();
    let mut said = Vec::new();
    for (at, c) in word.char_indices() {
        let option = match c {
            'o' => "--format",
            'p' => "--pid",
            'U' => "--user",
            't' => "--tty",
            'k' => "--sort",
            _ if LETTERS.contains(c) => {
                plain.push(c);
                continue;
            }
            _ => {
                return refuse!(
                    "ps: `{word}`: of the options without a dash only the letters {LETTERS} and o, p, t, k, U with a value are \
                     taken; `e` would show environments"
                );
            }
        };
        let glued = word.get(at + 1..).filter(|rest| !rest.is_empty());
        let Some(value) = glued.or(next.map(String::as_str)) else {
            return refuse!("ps: `{c}` in `{word}` needs a value");
        };
        if c == 'o' {
            columns(value).map_err(|refusal| Refusal::new(format_args!("ps o: {refusal}")))?;
        }
        said.push(format!("{option}={value}"));
        break;
    }
    if !plain.is_empty() {
        said.insert(0, plain);
    }
    Ok(said)
}

/// Whether the value of a word of the old style is the next word.
fn ends_in_value(word: &str) -> bool {
    word.find(['o', 'p', 'U', 't', 'k'])
        .is_some_and(|at| at + 1 == word.len())
}

/// The same options in a form in which `e` can never be understood as the old style's `e`: ps reads all its arguments
/// again in the old style when one of them cannot be understood in the new one.
fn said_plainly(options: Vec<(&'static str, Option<String>)>) -> Vec<String> {
    let mut argv = vec!["ps".to_owned()];
    for (name, value) in options {
        let value = value.unwrap_or_default();
        argv.push(match name {
            "-e" => "-A".to_owned(),
            "-C" => format!("-C{value}"),
            "-O" => format!("-O{value}"),
            "-G" => format!("--Group={value}"),
            "-g" => format!("--group={value}"),
            "-p" => format!("--pid={value}"),
            "-q" => format!("--quick-pid={value}"),
            "-s" => format!("--sid={value}"),
            "-t" => format!("--tty={value}"),
            "-u" => format!("--user={value}"),
            "-U" => format!("--User={value}"),
            "-o" => format!("--format={value}"),
            "--group" | "--ppid" | "--sort" | "--cols" | "--rows" => format!("{name}={value}"),
            flag => flag.to_owned(),
        });
    }
    argv
}

fn columns(list: &str) -> Result<(), Refusal> {
    for column in list.split([',', ' ']).filter(|it| !it.is_empty()) {
        let (name, heading) = column.split_once('=').unwrap_or((column, ""));
        let name = match name.split_once(':') {
            Some((name, width)) if width.len() <= 3 && width.parse::<u16>().is_ok() => name,
            _ => name,
        };
        if !COLUMNS.split_whitespace().any(|known| known == name) {
            return refuse!("the column `{name}` is not on the list");
        }
        if heading.len() > 100 {
            return refuse!("the heading `{heading}` is too long");
        }
    }
    Ok(())
}
