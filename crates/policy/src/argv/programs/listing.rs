//! Programs that list files.

use crate::argv::grammar::{Grammar, Kind, Operands};

pub(super) const GRAMMARS: &[Grammar] = &[
    Grammar {
        name: "ls",
        flags: "-a --all -A --almost-all --author -b --escape -B --ignore-backups -c -C -d --directory -D --dired -f \
                -F --file-type --full-time -g --group-directories-first -G --no-group -h --human-readable --si -H \
                --dereference-command-line --dereference-command-line-symlink-to-dir -i --inode -k --kibibytes -l -m \
                -n --numeric-uid-gid -N --literal -o -p -q --hide-control-chars --show-control-chars -Q --quote-name \
                -r --reverse -R --recursive -s --size -S -t -u -U -v -x -X -Z --context -1 --zero --help --version",
        values: &[
            ("-I --ignore", Kind::Text),
            ("--hide", Kind::Text),
            ("-T --tabsize", Kind::Number),
            ("-w --width", Kind::Number),
            ("--block-size", Kind::Number),
            (
                "--format",
                Kind::Words("across commas horizontal long single-column verbose vertical"),
            ),
            (
                "--sort",
                Kind::Words("none size time version extension width"),
            ),
            (
                "--time",
                Kind::Words("atime access use ctime status birth creation mtime modification"),
            ),
            ("--time-style", Kind::Judged(crate::argv::printing::widths)),
            (
                "--indicator-style",
                Kind::Words("none slash file-type classify"),
            ),
            (
                "--quoting-style",
                Kind::Words(
                    "literal locale shell shell-always shell-escape shell-escape-always c escape",
                ),
            ),
        ],
        optional: &[
            (
                "--color",
                Kind::Words("always never auto yes no force none tty if-tty"),
            ),
            (
                "--hyperlink",
                Kind::Words("always never auto yes no force none tty if-tty"),
            ),
            (
                "--classify",
                Kind::Words("always never auto yes no force none tty if-tty"),
            ),
        ],
        refused: &[(
            "-L --dereference",
            "follows links, also out of the workspace",
        )],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "du",
        flags: "-0 --null -a --all --apparent-size -b --bytes -c --total -D --dereference-args -H -h --human-readable \
                --inodes -k -l --count-links -m -P --no-dereference -S --separate-dirs --si -s --summarize -x \
                --one-file-system --help --version",
        values: &[
            ("-B --block-size", Kind::Number),
            ("-d --max-depth", Kind::Number),
            ("-t --threshold", Kind::Number),
            ("--exclude", Kind::Text),
            ("-X --exclude-from", Kind::Read),
            ("--time-style", Kind::Judged(crate::argv::printing::widths)),
        ],
        optional: &[("--time", Kind::Words("atime access use ctime status mtime"))],
        refused: &[
            (
                "-L --dereference",
                "follows links, also out of the workspace",
            ),
            ("--files0-from", "takes the names of files from a file"),
        ],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
    Grammar {
        name: "df",
        flags: "-a --all -h --human-readable -H --si -i --inodes -k -l --local -m --no-sync -P --portability --total -T \
                --print-type -v --help --version",
        values: &[
            ("-B --block-size", Kind::Number),
            ("-t --type", Kind::Text),
            ("-x --exclude-type", Kind::Text),
        ],
        optional: &[(
            "--output",
            Kind::Words(
                "source fstype itotal iused iavail ipcent size used avail pcent file target",
            ),
        )],
        refused: &[("--sync", "makes the whole machine write to its disks")],
        operands: Operands::Read(usize::MAX),
        ..Grammar::EMPTY
    },
];
