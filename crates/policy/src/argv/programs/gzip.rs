//! `gzip`: only where it keeps what it packs or unpacks.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options,
    paths::{Entry, Workspace},
    verdict::refuse,
};

static GZIP: Grammar = Grammar {
    name: "gzip",
    flags: "-c --stdout --to-stdout -d --decompress --uncompress -f --force -k --keep -l --list -n --no-name -q --quiet \
            -t --test -v --verbose --fast --best --rsyncable --synchronous -h --help -V --version -L --license",
    values: &[("-S --suffix", Kind::Judged(suffix))],
    refused: &[
        (
            "-N --name",
            "writes under the name that stands in the packed file",
        ),
        ("-r --recursive", "replaces all files of a folder"),
    ],
    digits: true,
    operands: Operands::Read(usize::MAX),
    ..Grammar::EMPTY
};

pub(super) fn judge(
    name: &str,
    arguments: &[String],
    workspace: &Workspace<'_>,
) -> Result<Permitted, Refusal> {
    if name == "gunzip" {
        return refuse!("gunzip is a shell script; `gzip -dc FILE` does the same");
    }
    let parsed = GZIP.read(arguments, workspace)?;
    for operand in parsed.operands.iter().filter(|it| *it != "-") {
        // It would look for names with an ending of its own.
        if workspace.follow(operand)?.entry == Entry::Missing {
            return refuse!("gzip: `{operand}` is not there");
        }
    }
    let prints = parsed.has(&[
        "-c",
        "--stdout",
        "--to-stdout",
        "-l",
        "--list",
        "-t",
        "--test",
        "-h",
        "--help",
        "-V",
        "--version",
        "-L",
        "--license",
    ]);
    if prints || parsed.operands.iter().all(|operand| operand == "-") {
        return Ok(super::permitted(name, arguments, workspace, Tier::Read));
    }
    if !parsed.has(&["-k", "--keep"]) {
        return refuse!("gzip replaces its operands; -k keeps them, -c prints");
    }
    for operand in &parsed.operands {
        options::write(operand, workspace)?;
        // Beside the operand, so in the same folder, which has just been judged: under its name with an ending, or
        // without one. Any ending can be asked for.
        let name = operand.rsplit('/').next().unwrap_or_default();
        let git = name
            .get(..4)
            .is_some_and(|it| it.eq_ignore_ascii_case(".git"));
        if git && parsed.has(&["-d", "--decompress", "--uncompress"]) {
            return refuse!(
                "gzip: what is in `{operand}` could be unpacked to .git, which steers git"
            );
        }
    }
    Ok(super::permitted(name, arguments, workspace, Tier::Write))
}

fn suffix(suffix: &str) -> Result<(), Refusal> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if suffix.is_empty() || !suffix.chars().all(plain) {
        return refuse!("`{suffix}` is not the end of a file name");
    }
    Ok(())
}
