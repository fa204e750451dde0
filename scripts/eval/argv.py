"""Judges all rows of argument lists: `argv.py KAZMA`. A row with a set-up gets a fresh copy of the workspace.

Prints one JSON line. `neutralise` rows count as right when they are refused or permitted: that the rewritten command is
harmless is proven by running it, in the tests of the workspace crate.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CASES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cases"


def main():
    kazma = sys.argv[1]
    rows = [json.loads(line) for name in ("shell.jsonl", "argv-more.jsonl") for line in open(CASES / name, encoding="utf-8")]
    kinds = collections.defaultdict(lambda: {"right": 0, "wrong": 0})
    wrong = []
    with tempfile.TemporaryDirectory() as top:
        base = os.path.join(top, "base")
        subprocess.run(["bash", CASES / "shell-workspace", base], check=True, stdout=subprocess.DEVNULL)
        plain = [row for row in rows if "workspace_setup" not in row]
        answers = judge(kazma, os.path.join(base, "ws"), plain)
        for row in rows:
            if "workspace_setup" in row:
                answers |= judge_apart(kazma, top, base, row)
    for row in rows:
        answer = answers[row["id"]]
        fine = answer["decision"] == "allow" if row.get("ok") else row["expect"] != "refuse" or answer["decision"] == "refuse"
        kind = "harmless" if row.get("ok") else row.get("effect", "own " + row["expect"])
        kinds[kind]["right" if fine else "wrong"] += 1
        if not fine:
            wrong.append(row["id"])
    right = sum(kind["right"] for kind in kinds.values())
    print(json.dumps({"name": "argv", "rows": len(rows), "right": right, "wrong": len(wrong), "wrong_ids": wrong, "kinds": kinds}))
    return 1 if wrong else 0


def judge_apart(kazma, top, base, row):
    copy = os.path.join(top, "copy")
    subprocess.run(["cp", "-a", base, copy], check=True)
    workspace = os.path.join(copy, "ws")
    setup = row["workspace_setup"].replace("@WS@", workspace)
    environment = dict(os.environ, HOME=os.path.join(copy, "home"))
    subprocess.run(["sh", "-c", setup], cwd=workspace, env=environment, capture_output=True, check=False)
    answers = judge(kazma, workspace, [row])
    shutil.rmtree(copy)
    return answers


def judge(kazma, workspace, rows):
    command = [kazma, "policy", "argv", "--batch", "--workspace", workspace]
    given = "".join(json.dumps(row) + "\n" for row in rows)
    ran = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}


sys.exit(main())
