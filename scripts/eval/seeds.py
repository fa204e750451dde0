"""Writes the rows of tests/cases as the inputs that a fuzz target begins with: `seeds.py NAME FOLDER`.

Called by scripts/fuzz.
"""

import hashlib
import json
import pathlib
import sys

CASES = pathlib.Path(__file__).parents[2] / "tests" / "cases"


def rows(*files):
    for file in files:
        for line in (CASES / file).read_text(encoding="utf-8").split("\n"):
            if line:
                yield json.loads(line)


def argv():
    for row in rows("shell.jsonl", "argv-more.jsonl"):
        yield "\n".join(row["argv"])


def code():
    for row in rows("python-refused.jsonl"):
        yield row["code"]
    for path in sorted((CASES / "python-ordinary").iterdir()):
        yield path.read_text(encoding="utf-8")


def fence():
    for row in rows("fence.jsonl", "fence-more.jsonl"):
        yield row["text"]


def sql():
    for row in rows("sql.jsonl"):
        yield row["query"]


def url():
    for row in rows("ssrf.jsonl", "ssrf-more.jsonl"):
        first = next(iter(row.get("redirects") or []), {})
        yield f"{row['url']}\n{first.get('location') or ''}" + "\x0a\x00\x00\x01" * 4


# The others begin with what lies in fuzz/seeds alone.
KNOWN = {"argv": argv, "code": code, "fence": fence, "sql": sql, "url": url}

name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
for seed in KNOWN.get(name, list)():
    data = seed.encode("utf-8", "surrogatepass")
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
