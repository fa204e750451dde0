//! `ps`: three styles of options in one program.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options::Parsed,
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

pub(super) fn judge_ps(
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    let parsed = PS.read(arguments, workspace)?;
    for operand in &parsed.operands {
        let numbers = operand.chars().all(|c| c.is_ascii_digit() || c == ',');
        if !numbers && !operand.chars().all(|c| "aTrxfhjlmuvwcnSHg".contains(c)) {
            return refuse!(
                "ps: `{operand}`: of the options without a dash only the letters aTrxfhjlmuvwcnSHg are taken; `e` would \
                 show environments"
            );
        }
    }
    Ok(super::rewritten(
        said_plainly(parsed),
        workspace,
        Tier::Read,
    ))
}

/// The same options in a form in which `e` can never be understood as the old style's `e`: ps reads all its arguments
/// again in the old style when one of them cannot be understood in the new one.
fn said_plainly(parsed: Parsed) -> Vec<String> {
    let mut argv = vec!["ps".to_owned()];
    for (name, value) in parsed.options {
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
    argv.extend(parsed.operands);
    argv
}

fn columns(list: &str) -> Result<(), Refusal> {
    for column in list.split([',', ' ']).filter(|it| !it.is_empty()) {
        let (name, heading) = column.split_once('=').unwrap_or((column, ""));
        if !COLUMNS.split_whitespace().any(|known| known == name) {
            return refuse!("the column `{name}` is not on the list");
        }
        if heading.len() > 100 {
            return refuse!("the heading `{heading}` is too long");
        }
    }
    Ok(())
}
