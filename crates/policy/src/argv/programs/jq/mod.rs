//! `jq`: options, and a programming language.

mod language;

use crate::argv::{
    Permitted, Refusal, Tier, options,
    paths::{Entry, Workspace},
    verdict::refuse,
};

/// Letters that may stand in a cluster, none with a value.
const LETTERS: &str = "nrjascCMSeRhV";
/// Long options without a value.
const FLAGS: &str = "--null-input --raw-output --join-output --ascii-output --slurp --compact-output --color-output \
    --monochrome-output --sort-keys --exit-status --raw-input --raw-output0 --tab --seq --stream --stream-errors \
    --unbuffered --help --version --build-configuration";
/// The longest program in a file, in bytes.
const PROGRAM: usize = 256 * 1024;

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let argv = read(arguments, workspace)
        .map_err(|refusal| Refusal::new(format_args!("jq: {refusal}")))?;
    Ok(super::rewritten(argv, workspace, Tier::Read))
}

/// Reads arguments as jq does, and puts a program from a file in their place, as it is now.
fn read(arguments: &[String], workspace: &Workspace<'_>) -> Result<Vec<String>, Refusal> {
    let mut argv = vec!["jq".to_owned()];
    let mut rest = arguments.iter();
    let mut operands = Vec::new();
    let (mut from_file, mut words, mut plain) = (false, false, false);
    while let Some(argument) = rest.next() {
        if plain || argument == "-" || !argument.starts_with('-') {
            operands.push((argument.clone(), words));
            continue;
        }
        let mut next = || {
            rest.next()
                .cloned()
                .ok_or_else(|| Refusal::new(format_args!("{argument} needs more values")))
        };
        match argument.as_str() {
            "--" => plain = true,
            "--args" | "--jsonargs" => {
                words = true;
                operands.push((argument.clone(), true));
            }
            "-f" | "--from-file" => from_file = true,
            "--arg" | "--argjson" => argv.extend([argument.clone(), variable(next()?)?, next()?]),
            "--slurpfile" | "--rawfile" | "--argfile" => {
                let (name, file) = (variable(next()?)?, next()?);
                options::read(&file, workspace)?;
                argv.extend([argument.clone(), name, file]);
            }
            "--indent" => {
                let width = next()?;
                if !matches!(width.as_bytes(), [b'0'..=b'7']) {
                    return refuse!("--indent takes 0 to 7, not `{width}`");
                }
                argv.extend([argument.clone(), width]);
            }
            "-L" | "--library-path" => {
                return refuse!("{argument} is refused: it loads programs from a folder");
            }
            long if FLAGS.split_whitespace().any(|flag| flag == long) => {
                argv.push(argument.clone());
            }
            long if long.starts_with("--") => {
                return refuse!("the option `{}` is not known", long.escape_debug());
            }
            cluster => {
                let letters: String = cluster.chars().skip(1).filter(|c| *c != 'f').collect();
                if letters.len() + 1 < cluster.len() {
                    from_file = true;
                }
                if let Some(bad) = letters.chars().find(|c| !LETTERS.contains(*c)) {
                    return refuse!(
                        "the option `-{}` is not known or refused",
                        bad.escape_debug()
                    );
                }
                if !letters.is_empty() {
                    argv.push(format!("-{letters}"));
                }
            }
        }
    }
    finish(argv, operands, from_file, plain, workspace)
}

/// The name of a variable that an option sets.
fn variable(name: String) -> Result<String, Refusal> {
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Ok(name);
    }
    refuse!("`{name}` is not the name of a variable")
}

/// The program, and what is read.
fn finish(
    mut argv: Vec<String>,
    operands: Vec<(String, bool)>,
    from_file: bool,
    plain: bool,
    workspace: &Workspace<'_>,
) -> Result<Vec<String>, Refusal> {
    let mut program = None;
    let mut files = Vec::new();
    for (operand, words) in operands {
        if matches!(operand.as_str(), "--args" | "--jsonargs") {
            files.push(operand);
        } else if program.is_none() {
            program = Some(operand);
        } else {
            if !words {
                options::read(&operand, workspace)?;
            }
            files.push(operand);
        }
    }
    let Some(mut program) = program else {
        return Ok(argv);
    };
    if from_file {
        program = from(&program, workspace)?;
    }
    language::judge(&program)?;
    if program.starts_with('-') && !plain {
        return refuse!("the program `{program}` begins with a dash");
    }
    argv.push(program);
    if plain {
        argv.push("--".to_owned());
    }
    argv.extend(files);
    Ok(argv)
}

fn from(path: &str, workspace: &Workspace<'_>) -> Result<String, Refusal> {
    let place = workspace.readable(path)?;
    if place.entry != Entry::File {
        return refuse!("`{path}` is not a file in the workspace");
    }
    let bytes = workspace.tree.read(&place.path, PROGRAM);
    match bytes.map(String::from_utf8) {
        Some(Ok(text)) if !text.contains('\0') => Ok(text),
        _ => refuse!("the program in `{path}` cannot be read"),
    }
}
