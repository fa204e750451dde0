//! `date`: it shows the time, and as root sets it.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    paths::Workspace,
    printing,
    verdict::refuse,
};

static DATE: Grammar = Grammar {
    name: "date",
    flags: "-u --utc --universal -R --rfc-email --rfc-2822 --debug --resolution --help --version",
    values: &[
        ("-d --date", Kind::Judged(description)),
        ("-r --reference", Kind::Read),
        ("--rfc-3339", Kind::Words("date seconds ns")),
    ],
    optional: &[(
        "-I --iso-8601",
        Kind::Words("date hours minutes seconds ns"),
    )],
    refused: &[
        ("-s --set", "sets the machine's clock"),
        (
            "-f --file",
            "takes dates from a file, and files of time zones",
        ),
    ],
    operands: Operands::Judged,
    check: Some(|parsed, _| {
        parsed
            .operands
            .iter()
            .try_for_each(|operand| match operand.strip_prefix('+') {
                Some(format) => printing::widths(format),
                None => refuse!("the operand `{operand}` would set the machine's clock"),
            })
    }),
    ..Grammar::EMPTY
};

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    DATE.read(arguments, workspace)?;
    Ok(super::permitted("date", arguments, workspace, Tier::Read))
}

/// A date in words. It may begin with `TZ="…"`, and a time zone may be a file.
pub(super) fn description(words: &str) -> Result<(), Refusal> {
    let zone = words
        .split_once("TZ=")
        .map(|(_, zone)| zone.trim_start_matches(['"', '\'']));
    if zone.is_some_and(|zone| zone.starts_with([':', '/', '.']) || words.contains("..")) {
        return refuse!("`{words}` takes a time zone from a file");
    }
    Ok(())
}
