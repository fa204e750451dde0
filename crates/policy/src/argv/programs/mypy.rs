//! `mypy`: it reads code, and runs what its configuration names as a plug-in.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options,
    paths::Workspace,
    text,
    verdict::refuse,
};

use super::{settings, sources};

const REPORTS: &str = "writes reports";
const RUNS: &str = "runs a program";
const ELSEWHERE: &str = "takes other files for those that are named";

static MYPY: Grammar = Grammar {
    name: "mypy",
    flags: "--no-native-parser -h --help -v --verbose -V --version --warn-unused-configs --no-warn-unused-configs \
            --no-namespace-packages --namespace-packages --ignore-missing-imports --follow-untyped-imports \
            --no-site-packages --no-silence-site-packages --disallow-any-expr --disallow-any-decorated \
            --disallow-any-explicit --disallow-any-generics --allow-any-generics --disallow-any-unimported \
            --disallow-subclassing-any --allow-subclassing-any --disallow-untyped-calls --allow-untyped-calls \
            --disallow-untyped-defs --allow-untyped-defs --disallow-incomplete-defs --allow-incomplete-defs \
            --check-untyped-defs --no-check-untyped-defs --disallow-untyped-decorators --allow-untyped-decorators \
            --implicit-optional --no-implicit-optional --no-strict-optional --strict-optional --warn-redundant-casts \
            --no-warn-redundant-casts --warn-unused-ignores --no-warn-unused-ignores --no-warn-no-return \
            --warn-no-return --warn-return-any --no-warn-return-any --warn-unreachable --no-warn-unreachable \
            --report-deprecated-as-note --allow-untyped-globals --allow-redefinition --allow-redefinition-old \
            --allow-redefinition-new --no-implicit-reexport --implicit-reexport --strict-equality \
            --no-strict-equality --strict-equality-for-none --no-strict-bytes --strict-bytes --extra-checks \
            --no-extra-checks --strict --show-error-context --hide-error-context --show-column-numbers \
            --hide-column-numbers --show-error-end --hide-error-codes --show-error-codes --show-error-code-links \
            --hide-error-code-links --pretty --no-pretty --no-color-output --color-output --no-error-summary \
            --error-summary --show-absolute-path --hide-absolute-path --no-incremental --incremental \
            --show-traceback --tb --warn-incomplete-stub --scripts-are-modules --explicit-package-bases \
            --no-explicit-package-bases --exclude-gitignore --fast-module-lookup --local-partial-types --no-local-partial-types",
    values: &[
        ("--enable-incomplete-feature", Kind::Text),
        ("-O --output", Kind::Words("json")),
        ("--config-file", Kind::Read),
        ("--follow-imports", Kind::Words("normal silent skip error")),
        ("--python-version", Kind::Text),
        ("--platform", Kind::Text),
        ("--always-true", Kind::Text),
        ("--always-false", Kind::Text),
        ("--untyped-calls-exclude", Kind::Text),
        ("--deprecated-calls-exclude", Kind::Text),
        ("--disable-error-code", Kind::Text),
        ("--enable-error-code", Kind::Text),
        ("--exclude", Kind::Text),
        ("-m --module", Kind::Text),
        ("-p --package", Kind::Text),
        ("-c --command", Kind::Text),
    ],
    refused: &[
        (
            "--python-executable --install-types --non-interactive",
            RUNS,
        ),
        ("--pdb --raise-exceptions", "waits for a person"),
        (
            "--shadow-file --custom-typeshed-dir --custom-typing-module --package-root",
            ELSEWHERE,
        ),
        (
            "--any-exprs-report --cobertura-xml-report --html-report --linecount-report --linecoverage-report \
             --lineprecision-report --txt-report --xml-report --xslt-html-report --xslt-txt-report --junit-xml \
             --junit-format --memory-xml-report --timing-stats --line-checking-stats",
            REPORTS,
        ),
        (
            "--cache-dir --sqlite-cache --cache-fine-grained --cache-map --skip-version-check \
             --skip-cache-mtime-checks --no-fixed-format-cache",
            "is about the cache, which is not written here",
        ),
        ("--find-occurrences -n --num-workers", "is not needed here"),
    ],
    operands: Operands::Judged,
    check: Some(|parsed, workspace| {
        parsed
            .operands
            .iter()
            .try_for_each(|operand| options::read(operand, workspace))
    }),
    ..Grammar::EMPTY
};

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    text::no_response_files(arguments)
        .map_err(|refusal| Refusal::new(format_args!("mypy: {refusal}")))?;
    let parsed = MYPY.read(arguments, workspace)?;
    let mut tier = Tier::Read;
    let mut folder = workspace.cwd.clone();
    let named = parsed.values("--config-file").last();
    if let Some(named) = named {
        let place = workspace.readable(named)?;
        let (folder, name) = place.path.rsplit_once('/').unwrap_or_default();
        tier = tier.max(configured(folder, name, workspace)?);
    }
    loop {
        for name in ["mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg"] {
            tier = tier.max(configured(&folder, name, workspace)?);
        }
        if folder == workspace.tree.root() {
            break;
        }
        folder.truncate(folder.rfind('/').unwrap_or_default());
    }
    let mut excluded = Vec::new();
    for operand in &parsed.operands {
        let links = sources::links_out(operand, workspace)
            .map_err(|refusal| Refusal::new(format_args!("mypy: {refusal}")))?;
        let links = links.iter().map(|link| sources::only(link, workspace));
        excluded.extend(links.map(|link| format!("--exclude={link}")));
    }
    let argv = ["mypy", "--cache-dir=/dev/null"]
        .into_iter()
        .map(str::to_owned)
        .chain(excluded)
        .chain(arguments.iter().cloned());
    let mut permitted = super::rewritten(argv.collect(), workspace, tier);
    if tier == Tier::SandboxExec {
        "its configuration names plug-ins, which are code, so only in the jail"
            .clone_into(&mut permitted.reason);
    }
    Ok(permitted)
}

/// What the configuration would make mypy do.
fn configured(folder: &str, name: &str, workspace: &Workspace<'_>) -> Result<Tier, Refusal> {
    let Some(text) = settings::file(folder, name, workspace)? else {
        return Ok(Tier::Read);
    };
    if name.rsplit('.').next() == Some("toml") && settings::has_escaped_key(&text) {
        return refuse!("mypy: {name} has keys with escapes");
    }
    if !text.to_ascii_lowercase().contains("mypy") {
        return Ok(Tier::Read);
    }
    for key in [
        "python_executable",
        "junit_xml",
        "custom_typeshed_dir",
        "custom_typing_module",
        "shadow_file",
        "any_exprs_report",
        "cobertura_xml_report",
        "html_report",
        "linecount_report",
        "linecoverage_report",
        "lineprecision_report",
        "txt_report",
        "xml_report",
        "xslt_html_report",
        "xslt_txt_report",
        "pdb",
        "install_types",
        "non_interactive",
        "package_root",
        "quickstart_file",
    ] {
        if !settings::assigned(&text, key).is_empty() {
            return refuse!(
                "mypy: {name} sets {key}, which runs or writes more than was asked for"
            );
        }
    }
    for key in ["mypy_path", "files"] {
        if settings::assigned(&text, key)
            .into_iter()
            .any(settings::leads_out)
        {
            return refuse!("mypy: {name} sets {key} to what may lie out of the workspace");
        }
    }
    let plugins = settings::assigned(&text, "plugins");
    if plugins.is_empty() {
        return Ok(Tier::Read);
    }
    if plugins.into_iter().any(settings::leads_out) {
        return refuse!("mypy: {name} names a plug-in that may lie out of the workspace");
    }
    Ok(Tier::SandboxExec)
}
