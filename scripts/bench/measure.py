"""Measures: `measure.py FOLDER_OF_THE_BUILD NAME...`. Called by scripts/bench/run, which builds first.

`ratio` is always value / baseline_value. Times are milliseconds and `value` is the median, unless
`unit` says otherwise.
"""

import datetime
import json
import os
import pathlib
import select
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import load

BUILD = pathlib.Path(sys.argv[1])
PYTHON = "/usr/bin/python3"
READY_LIMIT = 30.0
STOP_LIMIT = 10.0
# What the person who measures has set must not change what is measured.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("KAZMA_")}


def say(text):
    print(text, file=sys.stderr, flush=True)


def line(name, value, unit, baseline, baseline_value, runs, **more):
    record = {
        "name": name,
        "value": round(value, 6),
        "unit": unit,
        "baseline": baseline,
        "baseline_value": round(baseline_value, 6),
        "ratio": round(value / baseline_value, 4),
        "runs": runs,
        **more,
    }
    print(json.dumps(record), flush=True)


def example(name, *arguments):
    """The JSON line that an example prints."""
    command = [BUILD / "examples" / name, *map(str, arguments)]
    done = subprocess.run(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True, timeout=100
    )
    return json.loads(done.stdout)


class Folder:
    """A folder of our own that other users may walk through: as root each service is its own user."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="kazma-bench-"))
        self.path.chmod(0o755)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Stack:
    """`kazma up --demo`, ready."""

    def __init__(self, data, *sandbox):
        command = [BUILD / "kazma", "up", "--demo", "--json", "--listen", "127.0.0.1:0"]
        command += sandbox or ["--sandbox", "native"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*command, "--data-dir", data],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        begun = time.monotonic()
        readable, _, _ = select.select([self.process.stdout], [], [], READY_LIMIT)
        told = self.process.stdout.readline() if readable else b""
        self.seen_ms = (time.monotonic() - begun) * 1e3
        if not told:
            self.stop()
            self.log.seek(0)
            sys.exit("kazma did not become ready:\n" + self.log.read().decode()[-3000:])
        self.ready = json.loads(told)

    def ask(self, path, body=None):
        """What the API answers."""
        request = urllib.request.Request(
            self.ready["url"].replace("localhost", "127.0.0.1") + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + self.ready["api_token"], "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def close(self):
        self.stop()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            say("kazma did not end in time and was killed")


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


TIERS = ("native", "runc", "runsc")
ENGINE = os.environ.get("ENGINE", "")
SNIPPET = "print(1)"


def ours(how, seconds):
    """What runs take in each tier, in a fresh workspace."""
    with Folder() as workspace:
        return {
            tier: example("exec_latency", how, tier, workspace, ENGINE, seconds)
            for tier in TIERS
        }


def timed(command, times, seconds, **more):
    """Median and 95th percentile of running a command, in milliseconds."""
    took, begun = [], time.monotonic()
    while len(took) < times and (len(took) < 5 or time.monotonic() - begun < seconds):
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **more)
        took.append((time.monotonic() - start) * 1e3)
    return {"p50": round(statistics.median(took), 2), "p95": round(percentile(took, 95), 2), "runs": len(took)}


def docker_run(workspace):
    """`docker run --rm` with what the broker asks the engine for."""
    return [
        "docker", "--host", f"unix://{ENGINE}", "run", "--rm", "--network", "none", "--memory", "512m",
        "--memory-swap", "512m", "--cpus", "1", "--pids-limit", "64", "--read-only", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--ipc", "none", "--log-driver", "none",
        "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m,nr_inodes=8192", "--user", "65534:65534",
        "--ulimit", "nofile=256", "--ulimit", "core=0", "--workdir", workspace,
        "--mount", f"type=bind,source={workspace},target={workspace},readonly",
        "--entrypoint", PYTHON, "kazma-sandbox", "-I", "-c", SNIPPET,
    ]  # fmt: skip


BWRAP = [
    "bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib",
    "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
    "--cap-drop", "ALL", "--clearenv", "--", PYTHON, "-I", "-c", SNIPPET,
]  # fmt: skip


def others(seconds):
    """The same snippet by other means, in the same minute."""
    with Folder() as workspace:
        return {
            "docker_run": timed(docker_run(str(workspace)), 15, seconds),
            "bwrap": timed(BWRAP, 15, 3),
            "python": timed([PYTHON, "-I", "-c", SNIPPET], 15, 3),
        }


def exec_line(name, how, seconds, **more):
    beside = others(seconds)
    got = ours(how, seconds)
    each = {
        tier: {
            "p50": round(times["exit"]["p50"], 2),
            "p95": round(times["exit"]["p95"], 2),
            "output_p50": round(times["output"]["p50"], 2),
            "runs": times["runs"],
            "failed": times["failed"],
        }
        for tier, times in got.items()
    }
    # Like with like: the boundary of both is a container by runc.
    value, baseline = got["runc"]["exit"]["p50"], beside["docker_run"]["p50"]
    line(
        name, value, "ms", "`docker run --rm` with the same flags", baseline, got["runc"]["runs"],
        p95=each["runc"]["p95"], tiers=each, beside=beside, **more,
    )  # fmt: skip


def story(stack):
    """One call that a person approves, from the first word to the end of the turn."""
    thread = stack.ask("/api/threads", {})["thread_id"]
    stack.ask(f"/api/threads/{thread}/messages", {"text": "run python: " + SNIPPET})
    deadline = time.monotonic() + 20
    decided = False
    while time.monotonic() < deadline:
        view = stack.ask(f"/api/threads/{thread}")
        pending = [gate for gate in view["gates"] if gate.get("state") == "pending"]
        if pending and not decided:
            gate = pending[0]
            decision = {"decision": "approve", "args_digest": gate["args_digest"]}
            stack.ask(f"/api/gates/{gate['gate_id']}/decision", decision)
            decided = True
        elif view["turns"] and view["turns"][-1]["state"] == "done":
            return
        time.sleep(0.02)
    sys.exit("a story did not end")


def full_pool(stack):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if stack.ask("/health/details")["runner"]["pool"] >= 2:
            return
        time.sleep(0.02)
    sys.exit("the pool was never full")


def moments(value, key):
    """Every time under `key`, anywhere in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, str):
                yield datetime.datetime.fromisoformat(inner.replace("Z", "+00:00"))
            yield from moments(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from moments(inner, key)


def whole_path(seconds, *sandbox):
    """From the decision on disk to the outcome on disk, by the registry's own clock: permit minted, collected,
    checked, redeemed, plan made again, code run, outcome settled."""
    took = []
    with Folder() as folder:
        stack = Stack(folder / "data", *sandbox)
        begun = time.monotonic()
        while len(took) < 30 and (len(took) < 5 or time.monotonic() - begun < seconds):
            full_pool(stack)
            story(stack)
            took.append(None)
        stack.stop()
        database = next((folder / "data" / "gate-registry").glob("*.db"))
        rows = sqlite3.connect(database).execute("SELECT body FROM calls WHERE state = 'settled'").fetchall()
    for (body,) in rows:
        times = sorted(moments(json.loads(body), "at"))
        took.remove(None)
        took.append((times[-1] - times[0]).total_seconds() * 1e3)
    return {"p50": round(statistics.median(took), 2), "p95": round(percentile(took, 95), 2), "runs": len(took)}


def exec_warm():
    container = ["--sandbox", "docker", "--docker-host", f"unix://{ENGINE}"]
    path = {"native": whole_path(3), "runc": whole_path(4, *container)}
    exec_line("exec-warm", "warm", 5, whole_path=path)


def exec_cold():
    with Folder() as workspace:
        drained = {
            tier: example("exec_latency", "drained", tier, workspace, ENGINE, 3)["exit"] for tier in ("native", "runc")
        }
    drained = {tier: {share: round(ms, 2) for share, ms in times.items()} for tier, times in drained.items()}
    exec_line("exec-cold", "cold", 5, drained=drained)


def exec_burst():
    exec_line("exec-burst", "burst", 5)


def in_fresh_folder(name, *arguments):
    with Folder() as folder:
        return example(name, folder, *arguments)


def middle(lines, key):
    return statistics.median(each[key] for each in lines)


# A disk that others use is quick one second and slow the next: the two sides take turns.
TURNS = 5


def gate_cycle():
    raw, ours = [], []
    for _ in range(TURNS):
        raw.append(in_fresh_folder("synced_loop", 100))
        ours.append(in_fresh_folder("gate_cycle", 1, 100))
    value, baseline = middle(ours, "value"), middle(raw, "value")
    line(
        "gate-cycle", value, "ms", "four synced SQLite commits", baseline, TURNS * 100,
        per_second=round(1e3 / middle(ours, "ms_per_cycle"), 1), share_of_raw=round(baseline / value, 3),
    )  # fmt: skip


def gate_cycle_64():
    one, many = [], []
    for _ in range(TURNS):
        one.append(in_fresh_folder("gate_cycle", 1, 100))
        many.append(in_fresh_folder("gate_cycle", 64, 640))
    each, shared = middle(one, "ms_per_cycle"), middle(many, "ms_per_cycle")
    line(
        "gate-cycle-64", middle(many, "value"), "ms", "gate-cycle, one caller", middle(one, "value"), TURNS * 640,
        per_second=round(1e3 / shared, 1), baseline_per_second=round(1e3 / each, 1),
        throughput_ratio=round(each / shared, 2),
    )  # fmt: skip


def startup():
    plain = []
    for _ in range(15):
        begun = time.monotonic()
        subprocess.run([PYTHON, "-c", "pass"], check=True)
        plain.append((time.monotonic() - begun) * 1e3)
    told, seen = [], []
    with Folder() as folder:
        first = Stack(folder / "data")
        first.stop()
        say(f"startup: the first start, with keys to make: {first.ready['ready_ms']} ms; not counted")
        for _ in range(7):
            stack = Stack(folder / "data")
            stack.stop()
            told.append(stack.ready["ready_ms"])
            seen.append(stack.seen_ms)
    line(
        "startup", statistics.median(told), "ms", "`python3 -c pass`", statistics.median(plain), len(told),
        slowest=max(told), p50_from_outside=round(statistics.median(seen), 1),
    )  # fmt: skip


def pss(pid):
    """The proportional set size of a process in MiB; 0 for one that is gone."""
    try:
        for entry in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if entry.startswith("Pss:"):
                return int(entry.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def descendants(pid):
    found = []
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                found += [child, *descendants(child)]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def idle_pss():
    idle = subprocess.Popen([PYTHON, "-c", "input()"], stdin=subprocess.PIPE)
    with Folder() as folder:
        stack = Stack(folder / "data")
        time.sleep(5)
        each = {"supervisor": stack.process.pid} | {s["name"]: s["pid"] for s in stack.ready["services"]}
        sizes = {name: pss(pid) for name, pid in each.items()}
        rest = [pid for pid in descendants(stack.process.pid) if pid not in each.values()]
        jails = sum(map(pss, rest))
        baseline = pss(idle.pid)
        stack.stop()
    idle.communicate(b"\n")
    if not all(sizes.values()):
        sys.exit(f"a process could not be read: {sizes}")
    say("idle-pss: " + ", ".join(f"{name} {size:.1f}" for name, size in sizes.items()))
    say(f"idle-pss: apart from them {len(rest)} processes of the pool: {jails:.1f} MiB")
    line(
        "idle-pss", sum(sizes.values()), "MiB", "one idle python3 process", baseline, 1,
        pool=round(jails, 1), pool_processes=len(rest),
    )  # fmt: skip


def decide():
    got = example("decide")
    line(
        "decide", got["p50"] / 1e6, "ms", "hashing the tool's name once", got["hash_p50"] / 1e6, got["runs"],
        p95=round(got["p95"] / 1e6, 6), ns=got["p50"],
    )  # fmt: skip


def fence():
    got = example("throughput")
    line(
        "fence", got["ascii"], "MB/s", "copying the same text", got["copy"], got["runs"],
        arabic=got["arabic"], hostile=got["hostile"],
    )  # fmt: skip


def card_latency():
    watchers = BUILD / "examples" / "watchers"
    took = {}
    for count in (1, load.WATCHERS):
        with Folder() as folder:
            took[count] = load.latencies(watchers, folder, Stack, count)
    one, many = took[1], took[load.WATCHERS]
    line(
        "card-latency", many["p50"], "ms", "one who watches", one["p50"], load.CARDS * load.WATCHERS,
        watchers=load.WATCHERS, cards=load.CARDS, one=one, many=many,
    )  # fmt: skip


def history():
    took = {}
    for settled in (200, load.SETTLED):
        with Folder() as folder:
            took[settled] = load.queries(folder, Stack, story, settled)
    few, many = took[200], took[load.SETTLED]
    line(
        "history", many["settled"], "ms", "the same 200 gates when there are no others", few["settled"], 25,
        gates=load.SETTLED, few=few, many=many,
    )  # fmt: skip


KNOWN = {
    "exec-warm": exec_warm,
    "exec-cold": exec_cold,
    "exec-burst": exec_burst,
    "gate-cycle": gate_cycle,
    "gate-cycle-64": gate_cycle_64,
    "startup": startup,
    "idle-pss": idle_pss,
    "decide": decide,
    "fence": fence,
    "card-latency": card_latency,
    "history": history,
}

for wanted in sys.argv[2:]:
    KNOWN[wanted]()
