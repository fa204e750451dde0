"""Judges all snippets of Python: `code.py KAZMA`. Prints one JSON line."""

import json
import pathlib
import subprocess
import sys

CASES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cases"


def main():
    rows = [
        {"id": path.stem, "code": path.read_text(encoding="utf-8"), "kind": "ordinary", "want": "allow"}
        for path in sorted((CASES / "python-ordinary").glob("*.py"))
    ]
    for number, line in enumerate(open(CASES / "python-refused.jsonl", encoding="utf-8"), 1):
        row = json.loads(line)
        rows.append({"id": f"refused-{number}", "code": row["code"], "kind": "refused", "want": "refuse"})
    given = "".join(json.dumps(row) + "\n" for row in rows)
    ran = subprocess.run([sys.argv[1], "policy", "code", "--batch"], input=given, capture_output=True, text=True, check=True)
    kinds = {kind: {"right": 0, "wrong": 0} for kind in ("ordinary", "refused")}
    wrong = []
    for row, line in zip(rows, ran.stdout.splitlines(), strict=True):
        fine = json.loads(line)["decision"] == row["want"]
        kinds[row["kind"]]["right" if fine else "wrong"] += 1
        if not fine:
            wrong.append(row["id"])
    right = sum(kind["right"] for kind in kinds.values())
    print(json.dumps({"name": "code", "rows": len(rows), "right": right, "wrong": len(wrong), "wrong_ids": wrong, "kinds": kinds}))
    return 1 if wrong else 0


sys.exit(main())
