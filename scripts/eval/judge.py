"""Evaluates: `judge.py KAZMA NAME...`. Called by scripts/eval/run, which builds first.

Each evaluation runs rows of tests/cases through a `--batch` command and prints one JSON line: how many
rows came out right and wrong, by kind.
"""

import collections
import json
import pathlib
import subprocess
import sys

KAZMA = sys.argv[1]
CASES = pathlib.Path(__file__).parents[2] / "tests" / "cases"
# Any nonce: rows name the live fence's own markers, so it must be the same in two runs.
NONCE = "5c" * 16


def rows(*files):
    for file in files:
        # Not `splitlines`, which takes other characters for line ends too.
        for line in (CASES / file).read_text(encoding="utf-8").split("\n"):
            if line:
                yield json.loads(line)


def batch(arguments, questions):
    text = "".join(json.dumps(each) + "\n" for each in questions)
    done = subprocess.run([KAZMA, *arguments, "--batch"], input=text, capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        sys.exit(f"kazma {' '.join(arguments)}: {done.returncode} {done.stderr}")
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    if len(answers) != len(questions):
        sys.exit(f"kazma {' '.join(arguments)}: {len(questions)} rows, {len(answers)} answers")
    return answers


def report(name, judged):
    """`judged`: the kind of each row, whether it is right, and what to say of it if it is not."""
    kinds = collections.defaultdict(lambda: {"right": 0, "wrong": 0})
    for kind, right, words in judged:
        kinds[kind]["right" if right else "wrong"] += 1
        if not right:
            print(f"{name}: {words}", file=sys.stderr)
    right = sum(each["right"] for each in kinds.values())
    wrong = sum(each["wrong"] for each in kinds.values())
    line = {"name": name, "rows": right + wrong, "right": right, "wrong": wrong, "kinds": dict(sorted(kinds.items()))}
    print(json.dumps(line), flush=True)
    return wrong


def decided(name, arguments, kind, *files):
    """For judges that answer with a decision."""
    all_rows = list(rows(*files))
    answers = batch(arguments, all_rows)
    return report(
        name,
        [
            (kind(row), answer["decision"] == row["expect"], f"{row['id']}: {answer['decision']}: {answer['reason']}")
            for row, answer in zip(all_rows, answers)
        ],
    )


def url():
    def kind(row):
        parts = [part for part in ("redirects", "dns_sequence", "peer", "env", "dns") if part in row]
        return f"{row['expect']}: {parts[0] if parts else 'spelling'}"

    return decided("url", ["policy", "url"], kind, "ssrf.jsonl", "ssrf-more.jsonl")


def sql():
    def kind(row):
        return f"{row['expect']}: {row['kind']}"

    return decided("sql", ["policy", "sql"], kind, "sql.jsonl")


def fence():
    empty = batch(["fence", "--nonce", NONCE], [{"id": 0, "text": "", "source": "web"}])[0]
    spaced = "".join(c + "\u200b" for c in empty["close"])

    def filled(text):
        for name, marker in (
            ("{{OPEN}}", empty["open"]),
            ("{{CLOSE_WITH_ZWSP}}", spaced),
            ("{{CLOSE_MINUS_LAST_CHAR}}", empty["close"][:-1]),
            ("{{CLOSE}}", empty["close"]),
            ("{{NONCE}}", empty["nonce"]),
        ):
            text = text.replace(name, marker)
        return text

    all_rows = list(rows("fence.jsonl", "fence-more.jsonl"))
    questions = [{"id": row["id"], "text": filled(row["text"]), "source": "web"} for row in all_rows]
    answers = batch(["fence", "--nonce", NONCE], questions)
    again = batch(["fence", "--nonce", NONCE], [{"id": a["id"], "text": a["inner"]} for a in answers])
    judged = []
    for row, answer, twice in zip(all_rows, answers, again):
        inner = answer["inner"]
        faults = [gone for gone in row.get("forbidden_after_fencing", []) if filled(gone) in inner]
        faults += [kept for kept in row.get("must_survive", []) if filled(kept) not in inner]
        if twice["inner"] != inner:
            faults.append("fencing again changes it")
        for marker in (answer["open"], answer["close"]):
            if answer["fenced"].count(marker) != 1:
                faults.append(f"{marker!r} is there {answer['fenced'].count(marker)} times")
        judged.append((f"{row['kind']}: {row['cls'].split(':')[0]}", not faults, f"{row['id']}: {faults}"))
    return report("fence", judged)


KNOWN = {"sql": sql, "url": url, "fence": fence}

sys.exit(min(1, sum([KNOWN[wanted]() for wanted in sys.argv[2:]])))
