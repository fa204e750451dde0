"""Many at once and much that was: what `scripts/bench/run card-latency` and `history` measure."""

import contextlib
import datetime
import json
import sqlite3
import statistics
import subprocess
import time
import urllib.parse
import urllib.request
import uuid

WATCHERS = 1_000
# What one person may have open.
STREAMS = 16
CARDS = 30
SETTLED = 100_000
THREADS = 1_000


def spread(values):
    ordered = sorted(values)
    at = lambda share: round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 3)
    return {"p50": at(50), "p95": at(95), "p99": at(99), "slowest": round(ordered[-1], 3)}


def base(stack):
    return stack.ready["url"].replace("localhost", "127.0.0.1")


def cookie(stack, code):
    """Signs in, and what says so from then on."""
    request = urllib.request.Request(
        base(stack) + "/api/auth/login",
        data=json.dumps({"secret": code}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers["Set-Cookie"].split(";")[0]


def people(stack, count):
    """Signs in as many people as so many streams take."""
    cookies = []
    for number in range((count + STREAMS - 1) // STREAMS):
        added = stack.ask("/api/users", {"name": f"Watcher {number}", "role": "viewer"})
        code = urllib.parse.urlsplit(added["login_url"]).fragment.removeprefix("token=")
        cookies.append(cookie(stack, code))
    return cookies


def micros(text):
    at = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) / datetime.timedelta(microseconds=1)


def asked(stack, number):
    """Has the agent propose one call; the gate that came of it."""
    thread = stack.ask("/api/threads", {})["thread_id"]
    stack.ask(f"/api/threads/{thread}/messages", {"text": f"run python: print({number})"})
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pending = [gate for gate in stack.ask(f"/api/threads/{thread}")["gates"] if gate["state"] == "pending"]
        if pending:
            return pending[0]
        time.sleep(0.05)
    raise SystemExit("a card did not come")


def latencies(watchers, folder, stack_of, count):
    """How long after a proposal each of `count` streams had its card, in milliseconds."""
    with contextlib.closing(stack_of(folder / "data")) as stack:
        watching = subprocess.Popen(
            [watchers, urllib.parse.urlsplit(base(stack)).netloc, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        watching.stdin.write("\n".join(people(stack, count)) + "\n\n")
        watching.stdin.flush()
        if watching.stdout.readline().strip() != "ready":
            raise SystemExit("the watchers could not watch")
        gates = [asked(stack, number) for number in range(CARDS)]
        time.sleep(0.5)
        heard = json.loads(watching.communicate(timeout=60)[0])
    took = []
    for gate in gates:
        times = heard.get(gate["gate_id"], [])
        if len(times) != count:
            raise SystemExit(f"{len(times)} of {count} heard of a card")
        took += [(at - micros(gate["asked_at"])) / 1e3 for at in times]
    return spread(took)


def fill(database, settled):
    """Copies the one settled gate of a registry that is stopped until there are `settled`, in many threads."""
    db = sqlite3.connect(database, isolation_level=None)
    db.row_factory = sqlite3.Row
    one = {name: dict(db.execute(f"SELECT * FROM {name}").fetchone()) for name in ("threads", "turns", "gates", "calls")}
    entries = [dict(row) for row in db.execute("SELECT * FROM entries ORDER BY seq")]
    side = {name: dict(db.execute(f"SELECT * FROM {name}").fetchone()) for name in ("plans", "outputs")}

    def put(table, row, **other):
        row = row | other
        names = ", ".join(row)
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))

    def new():
        return uuid.uuid4().bytes

    db.execute("BEGIN")
    start = one["gates"]["asked_at"] - settled * 1_000_000
    threads = [new() for _ in range(min(THREADS, settled))]
    for n, thread in enumerate(threads):
        put("threads", one["threads"], id=thread, changed_at=start + n)
    for n in range(settled - 1):
        thread, turn, gate, call, at = threads[n % len(threads)], new(), new(), new(), start + n * 1_000_000
        put("turns", one["turns"], id=turn, thread=thread, opened_at=at)
        for entry in entries:
            told = {name: value for name, value in entry.items() if name != "seq"}
            put("entries", told, id=new(), thread=thread, turn=turn, at=at)
        put("gates", one["gates"], id=gate, thread=thread, turn=turn, asked_at=at)
        put("calls", one["calls"], id=call, gate=gate, thread=thread, turn=turn, filed_at=at)
        for name, row in side.items():
            put(name, row, call=call)
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


QUERIES = {
    "settled": "/api/gates?state=settled",
    "pending": "/api/gates?state=pending",
    "threads": "/api/threads",
    "inbox": "/api/pending-approvals",
}


def queries(folder, stack_of, story, settled):
    """What history costs with so many settled gates, in milliseconds."""
    with contextlib.closing(stack_of(folder / "data")) as stack:
        story(stack)
    fill(next((folder / "data" / "gate-registry").glob("*.db")), settled)
    took = {}
    with contextlib.closing(stack_of(folder / "data")) as stack:
        took["ready"] = stack.ready["ready_ms"]
        thread = stack.ask("/api/threads")["threads"][-1]["thread_id"]
        for name, path in (QUERIES | {"thread": f"/api/threads/{thread}"}).items():
            times = []
            for _ in range(25):
                begun = time.monotonic()
                stack.ask(path)
                times.append((time.monotonic() - begun) * 1e3)
            took[name] = round(statistics.median(times), 2)
        begun = time.monotonic()
        story(stack)
        took["story"] = round((time.monotonic() - begun) * 1e3, 1)
    return took
