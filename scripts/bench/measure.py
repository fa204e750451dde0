"""Measures: `measure.py FOLDER_OF_THE_BUILD NAME...`. Called by scripts/bench/run, which builds first.

`ratio` is always value / baseline_value. Times are milliseconds and `value` is the median, unless
`unit` says otherwise.
"""

import json
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

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
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, check=True, timeout=50
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

    def __init__(self, data):
        command = [BUILD / "kazma", "up", "--demo", "--json", "--listen", "127.0.0.1:0", "--sandbox", "native"]
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


def exec_warm():
    with Folder() as workspace:
        got = example("warm_latency", "--json", workspace)
    say("exec-warm: the baseline `docker run --rm` comes with the container tier; what is measured is a run")
    say("over the broker's socket (no permit, no mesh): from the request to the exit code")
    line(
        "exec-warm", got["exit"]["p50"], "ms", "plain `python3 -I -c`", got["plain"]["p50"], got["runs"],
        p95=got["exit"]["p95"], output_p50=got["output"]["p50"], baseline_p95=got["plain"]["p95"],
    )  # fmt: skip


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


KNOWN = {
    "exec-warm": exec_warm,
    "gate-cycle": gate_cycle,
    "gate-cycle-64": gate_cycle_64,
    "startup": startup,
    "idle-pss": idle_pss,
    "decide": decide,
    "fence": fence,
}

for wanted in sys.argv[2:]:
    KNOWN[wanted]()
