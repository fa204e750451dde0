//! `pytest`: it runs code of the workspace whatever it is asked, so only ever in the jail.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options,
    paths::Workspace,
    text,
};

static PYTEST: Grammar = Grammar {
    name: "pytest",
    flags: "-x --exitfirst --markers --strict-config --strict-markers --strict --fixtures --funcargs \
            --fixtures-per-test -s --runxfail -v --verbose --no-header --no-summary --no-fold-skipped \
            --force-short-summary -q --quiet --disable-warnings --disable-pytest-warnings -l --showlocals \
            --no-showlocals --xfail-tb --full-trace --collect-only --co --noconftest --keep-duplicates \
            --collect-in-virtualenv --continue-on-collection-errors --doctest-modules \
            --doctest-ignore-import-errors --doctest-continue-on-failure -V --version -h --help \
            --disable-plugin-autoload --trace-config --setup-only --setup-show --setup-plan",
    values: &[
        ("-k", Kind::Text),
        ("-m", Kind::Text),
        ("--maxfail", Kind::Number),
        ("--capture", Kind::Words("fd sys no tee-sys")),
        ("--durations", Kind::Number),
        ("--durations-min", Kind::Text),
        ("--verbosity", Kind::Number),
        ("-r --report-chars", Kind::Text),
        ("--tb", Kind::Words("auto long short line native no")),
        ("--show-capture", Kind::Words("no stdout stderr log all")),
        ("--color", Kind::Words("yes no auto")),
        ("--code-highlight", Kind::Words("yes no")),
        ("-W --pythonwarnings", Kind::Text),
        ("--max-warnings", Kind::Number),
        ("--ignore", Kind::Read),
        ("--ignore-glob", Kind::Text),
        ("--deselect", Kind::Text),
        ("--import-mode", Kind::Words("prepend append importlib")),
        (
            "--doctest-report",
            Kind::Words("none cdiff ndiff udiff only_first_failure"),
        ),
        ("--doctest-glob", Kind::Text),
        ("--assert", Kind::Words("plain rewrite")),
        ("--log-level", Kind::Text),
        ("--log-format", Kind::Text),
        ("--log-date-format", Kind::Text),
        ("--log-cli-level", Kind::Text),
        ("--log-cli-format", Kind::Text),
        ("--log-cli-date-format", Kind::Text),
        ("--log-disable", Kind::Text),
        ("--timeout", Kind::Number),
        ("-n --numprocesses", Kind::Text),
    ],
    refused: &[
        (
            "-p -c --config-file -o --override-ini",
            "changes what is loaded",
        ),
        (
            "--rootdir --confcutdir --pyargs",
            "looks for code elsewhere",
        ),
        (
            "--junit-xml --junitxml --log-file --debug --report-log --result-log",
            "writes a file",
        ),
        ("--basetemp", "deletes the folder it names"),
        ("--pastebin", "sends results to a public site"),
        ("--pdb --pdbcls --trace", "waits for a person"),
        (
            "--lf --last-failed --ff --failed-first --nf --new-first --cache-show --cache-clear --sw --stepwise \
             --sw-skip --stepwise-skip --sw-reset --stepwise-reset --lfnf --last-failed-no-failures",
            "needs the cache, which is not written here",
        ),
    ],
    operands: Operands::Judged,
    check: Some(|parsed, workspace| {
        parsed.operands.iter().try_for_each(|operand| {
            let path = operand.split("::").next().unwrap_or_default();
            options::read(path, workspace)
        })
    }),
    ..Grammar::EMPTY
};

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    text::no_response_files(arguments)
        .map_err(|refusal| Refusal::new(format_args!("pytest: {refusal}")))?;
    PYTEST.read(arguments, workspace)?;
    let argv = ["pytest", "-p", "no:cacheprovider", "-o", "addopts="]
        .into_iter()
        .map(str::to_owned)
        .chain(arguments.iter().cloned());
    let mut permitted = super::rewritten(argv.collect(), workspace, Tier::SandboxExec);
    let name = "PYTHONDONTWRITEBYTECODE".to_owned();
    permitted.env.insert(name, "1".to_owned());
    Ok(permitted)
}
