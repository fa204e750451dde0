//! `tar`: packs what is in the workspace, unpacks to where nothing leads out, and never over what is there.

use crate::argv::{
    Permitted, Refusal, Tier,
    grammar::{Grammar, Kind, Operands},
    options::{self, Parsed},
    paths::{Entry, Place, Workspace},
    text,
    verdict::refuse,
};

/// What is put before the arguments when it unpacks: no member of a name that steers git, and no link to one, through
/// which a later member, or a later command, could write there. Names in links are compared whatever is before them, so
/// that none is overlooked behind another one.
const UNPACKS: [&str; 3] = [
    "--no-same-owner",
    "--exclude=.[gG][iI][tT]",
    r"--transform=s,\.[gG][iI][tT]\(/\|$\),.git_\1,gRsh",
];
/// The same where nothing says yet what becomes of files that are there.
const UNPACKS_AND_KEEPS: [&str; 4] = [UNPACKS[0], UNPACKS[1], UNPACKS[2], "--keep-old-files"];

/// Links are looked for in this many entries of a folder that is unpacked to.
pub(super) const LOOKED_AT: usize = 20_000;

const RUNS: &str = "runs a program";
const ELSEWHERE: &str = "reads or writes a file that is neither archive nor member";
const OVERWRITES: &str = "takes away what is there";
const VOLUMES: &str = "changes volumes, which runs programs or waits for a person";

static TAR: Grammar = Grammar {
    name: "tar",
    flags: "-c --create -t --list -x --extract --get -r --append -u --update -d --diff --compare --test-label \
            --hole-detection --ignore-failed-read --no-seek -n --seek -S --sparse --exclude-backups --exclude-caches \
            --exclude-caches-all --exclude-caches-under --exclude-vcs --exclude-vcs-ignores --no-null --no-recursion \
            --no-unquote --null --recursion --unquote --anchored --ignore-case --no-anchored --no-ignore-case \
            --no-wildcards --no-wildcards-match-slash --wildcards --wildcards-match-slash --keep-newer-files -k \
            --keep-old-files --no-overwrite-dir --skip-old-files --ignore-command-error --no-ignore-command-error -O \
            --to-stdout --clamp-mtime --delay-directory-restore -m --touch --no-delay-directory-restore \
            --no-same-owner --no-same-permissions --numeric-owner -p --preserve-permissions --same-permissions \
            -s --preserve-order --same-order --no-acls --no-selinux --no-xattrs --force-local -B \
            --read-full-records -i --ignore-zeros --old-archive --portability --posix -a --auto-compress -j --bzip2 \
            -J --xz --lzip --lzma --lzop --no-auto-compress --zstd -z --gzip --gunzip --ungzip -Z --compress \
            --uncompress --hard-dereference --one-file-system --full-time -l --check-links -R --block-number \
            --show-defaults --show-omitted-dirs --show-transformed-names --show-stored-names --utc -v --verbose -o \
            --help --usage --version --restrict -W --verify",
    values: &[
        ("-f --file", Kind::Text),
        ("-C --directory", Kind::Text),
        ("--add-file", Kind::Text),
        ("--exclude", Kind::Text),
        ("-X --exclude-from", Kind::Read),
        ("--exclude-tag", Kind::Judged(bare)),
        ("--exclude-tag-all", Kind::Judged(bare)),
        ("--exclude-tag-under", Kind::Judged(bare)),
        ("--exclude-ignore", Kind::Judged(bare)),
        ("--exclude-ignore-recursive", Kind::Judged(bare)),
        ("--group", Kind::Text),
        ("--owner", Kind::Text),
        ("--mode", Kind::Judged(mode)),
        ("--mtime", Kind::Judged(date)),
        ("-N --newer --after-date", Kind::Judged(date)),
        ("--newer-mtime", Kind::Judged(date)),
        ("--sort", Kind::Words("none name inode")),
        ("-b --blocking-factor", Kind::Number),
        ("--record-size", Kind::Number),
        ("-H --format", Kind::Words("gnu oldgnu pax posix ustar v7")),
        ("-V --label", Kind::Text),
        ("-K --starting-file", Kind::Text),
        ("--strip-components", Kind::Number),
        ("--transform --xform", Kind::Text),
        ("--quoting-style", Kind::Text),
        ("--quote-chars", Kind::Text),
        ("--no-quote-chars", Kind::Text),
        ("--warning", Kind::Text),
    ],
    optional: &[
        ("--occurrence", Kind::Number),
        ("--checkpoint", Kind::Number),
        (
            "--totals",
            Kind::Words("SIGHUP SIGQUIT SIGINT SIGUSR1 SIGUSR2"),
        ),
        ("--one-top-level", Kind::Write),
        ("--atime-preserve", Kind::Words("system")),
    ],
    refused: &[
        (
            "-I --use-compress-program --to-command --checkpoint-action",
            RUNS,
        ),
        ("--rsh-command --rmt-command", RUNS),
        (
            "-F --info-script --new-volume-script -M --multi-volume -L --tape-length",
            VOLUMES,
        ),
        (
            "--volno-file --index-file -g --listed-incremental -G --incremental",
            ELSEWHERE,
        ),
        ("--owner-map --group-map", ELSEWHERE),
        ("-T --files-from", "takes names, and options, from a file"),
        (
            "-P --absolute-names",
            "keeps names that lead out of the workspace",
        ),
        (
            "-h --dereference",
            "follows links, also out of the workspace",
        ),
        ("--keep-directory-symlink", "unpacks through links"),
        (
            "--overwrite --overwrite-dir --recursive-unlink -U --unlink-first --remove-files",
            OVERWRITES,
        ),
        ("--backup --suffix", "renames what is there"),
        (
            "--delete -A --catenate --concatenate",
            "changes an archive in place",
        ),
        (
            "--acls --selinux --xattrs --xattrs-include --xattrs-exclude",
            "sets more than permission bits",
        ),
        ("--pax-option", "names extra headers"),
        (
            "-w --interactive --confirmation",
            "asks somebody who is not there",
        ),
    ],
    operands: Operands::Judged,
    ..Grammar::EMPTY
};

pub(super) fn judge(arguments: &[String], workspace: &Workspace<'_>) -> Result<Permitted, Refusal> {
    let arguments = dashed(arguments)?;
    let parsed = TAR.read(&arguments, workspace)?;
    let (tier, more) = check(&parsed, workspace)
        .map_err(|refusal| Refusal::new(format_args!("tar: {refusal}")))?;
    let argv = ["tar".to_owned()]
        .into_iter()
        .chain(more.iter().map(|it| (*it).to_owned()))
        .chain(arguments);
    Ok(super::rewritten(argv.collect(), workspace, tier))
}

/// Writes keys without a dash (`tar xzf a.tgz`) as options: their values follow in the order of the letters.
fn dashed(arguments: &[String]) -> Result<Vec<String>, Refusal> {
    let Some((keys, rest)) = arguments.split_first() else {
        return refuse!("tar: nothing is asked for");
    };
    if keys.starts_with('-') {
        return Ok(arguments.to_vec());
    }
    let mut values = rest.iter();
    let mut dashed = Vec::new();
    for key in keys.chars() {
        let name = format!("-{key}");
        dashed.push(name.clone());
        let takes = |(names, _): &(&str, Kind)| names.split(' ').any(|known| known == name);
        if TAR.values.iter().any(takes) {
            match values.next() {
                Some(value) => dashed.push(value.clone()),
                None => return refuse!("tar: {name} needs a value"),
            }
        }
    }
    dashed.extend(values.cloned());
    Ok(dashed)
}

/// What is done, and with what it must be done besides.
fn check(
    parsed: &Parsed,
    workspace: &Workspace<'_>,
) -> Result<(Tier, &'static [&'static str]), Refusal> {
    const MODES: [&[&str]; 6] = [
        &["-c", "--create"],
        &["-t", "--list"],
        &["-x", "--extract", "--get"],
        &["-r", "--append"],
        &["-u", "--update"],
        &["-d", "--diff", "--compare"],
    ];
    if parsed.has(&["--help", "--usage", "--version", "--show-defaults"]) {
        return Ok((Tier::Read, &[]));
    }
    let mut asked = MODES
        .iter()
        .enumerate()
        .filter(|(_, names)| parsed.has(names));
    let (Some((mode, _)), None) = (asked.next(), asked.next()) else {
        return refuse!("it must do exactly one of -c, -t, -x, -r, -u and -d");
    };
    let creates = matches!(mode, 0 | 3 | 4);
    let extracts = mode == 2 && !parsed.has(&["-O", "--to-stdout"]);
    for archive in parsed.values("-f") {
        archive_place(archive, creates, workspace)?;
    }
    if !creates && parsed.has(&["--transform"]) {
        return refuse!("--transform is only taken when packing: it could unpack to any name");
    }
    // `-C` moves from then on, also between operands; unpacking goes to each of these folders.
    let mut at = workspace.clone();
    let mut targets = vec![at.clone()];
    walk(parsed, &mut |step| match step {
        Step::Enter(folder) => {
            text::no_expansion(folder)?;
            at = at.within(folder)?;
            targets.push(at.clone());
            Ok(())
        }
        Step::Member(path) if creates || mode == 5 => {
            text::no_expansion(path)?;
            at.follow_parents(path).map(|_| ())
        }
        Step::Member(_) => Ok(()),
    })?;
    if !extracts {
        let to_file = creates && parsed.values("-f").any(|archive| archive != "-");
        return Ok((if to_file { Tier::Write } else { Tier::Read }, &[]));
    }
    // The first folder is only unpacked to where no option moves away before the first member.
    let moved = parsed.has(&["-C"])
        && parsed
            .placed
            .first()
            .is_none_or(|placed| moves_before(parsed, *placed));
    for target in targets.iter().skip(usize::from(moved)) {
        unpacks_to(parsed, target)?;
    }
    if parsed.has(&[
        "--skip-old-files",
        "--keep-newer-files",
        "-k",
        "--keep-old-files",
    ]) {
        return Ok((Tier::Write, &UNPACKS));
    }
    Ok((Tier::Write, &UNPACKS_AND_KEEPS))
}

/// Whether one of the first `count` options moves to another folder.
fn moves_before(parsed: &Parsed, count: usize) -> bool {
    parsed
        .options
        .iter()
        .take(count)
        .any(|(name, _)| *name == "-C")
}

/// Refuses to unpack to where a link would carry members out of the workspace, or into what steers git.
fn unpacks_to(parsed: &Parsed, at: &Workspace<'_>) -> Result<(), Refusal> {
    let target = match parsed.values("--one-top-level").last() {
        Some(folder) => at.writable(folder)?,
        None if parsed.has(&["--one-top-level"]) => return named_after_archives(parsed, at),
        None => at.writable(".")?,
    };
    keeps_inside(&target, at)
}

/// Without a value, `--one-top-level` is the name of the archive without its endings: whatever they are to tar.
fn named_after_archives(parsed: &Parsed, at: &Workspace<'_>) -> Result<(), Refusal> {
    for archive in parsed.values("-f") {
        let name = archive.rsplit('/').next().unwrap_or_default();
        let ends = name.match_indices('.').map(|(end, _)| end);
        for end in ends.skip_while(|end| *end == 0).chain([name.len()]) {
            let folder = name.get(..end).unwrap_or_default();
            keeps_inside(&at.writable(&format!("./{folder}"))?, at)?;
        }
    }
    Ok(())
}

fn keeps_inside(target: &Place, at: &Workspace<'_>) -> Result<(), Refusal> {
    if target.entry == Entry::Folder && !at.keeps_inside(&target.path, LOOKED_AT) {
        return refuse!(
            "it would unpack into a folder with links that lead out of the workspace or into .git, or with too much in \
             it; unpack into a new folder with -C"
        );
    }
    Ok(())
}

/// Where the archive is. A colon would make it one on another machine.
fn archive_place(archive: &str, writes: bool, workspace: &Workspace<'_>) -> Result<(), Refusal> {
    if archive.starts_with('-') && archive != "-" {
        return refuse!("the archive `{archive}` would begin with a dash; write ./{archive}");
    }
    if archive.contains(':') {
        return refuse!("the archive `{archive}` is on another machine, by its colon");
    }
    if writes && archive != "-" {
        options::write(archive, workspace)
    } else {
        options::read(archive, workspace)
    }
}

/// An operand, or a change of folder before the next ones.
enum Step<'a> {
    Enter(&'a str),
    Member(&'a str),
}

/// Goes through folders and operands in the order in which tar does.
fn walk(
    parsed: &Parsed,
    see: &mut dyn FnMut(Step<'_>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut members = parsed.operands.iter().zip(&parsed.placed).peekable();
    for (index, (name, value)) in parsed.options.iter().enumerate() {
        while let Some((member, _)) = members.next_if(|(_, placed)| **placed <= index) {
            see(Step::Member(member))?;
        }
        match (*name, value) {
            ("-C", Some(folder)) => see(Step::Enter(folder))?,
            ("--add-file", Some(member)) => see(Step::Member(member))?,
            _ => {}
        }
    }
    members.try_for_each(|(member, _)| see(Step::Member(member)))
}

/// A date in words, not a file whose date is taken.
fn date(words: &str) -> Result<(), Refusal> {
    if words.starts_with(['/', '.']) {
        return refuse!("`{words}` is a file");
    }
    super::date::description(words)
}

/// A name without a folder.
fn bare(name: &str) -> Result<(), Refusal> {
    if name.contains('/') || name == ".." {
        return refuse!("`{name}` is not a bare name");
    }
    Ok(())
}

/// Permission bits of packed files: no set-user-id, set-group-id or sticky bit.
fn mode(mode: &str) -> Result<(), Refusal> {
    if mode.chars().all(|c| "ugoa=+-rwxX,01234567".contains(c))
        && mode.len() < 40
        && !(mode.len() > 3 && mode.starts_with(|c: char| ('1'..='7').contains(&c)))
    {
        return Ok(());
    }
    refuse!("`{mode}` is more than plain permission bits")
}
