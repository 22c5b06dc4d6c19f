"""Runs slabyard beside memcpy, redis, memcached and others and prints one table.

Every contender does the same work on the same random keys, in turns, with client and server on
the same two CPUs, persistence off, each in its default and in its best-known settings (-tuned);
the first round warms up. Every figure is worth something only beside the others of its run:
`ours/theirs` is slabyard's time over the other's, the median over the rounds; below 1 slabyard is
faster. Bytes are compared outside the timed regions, and a wrong one fails the run. The rows of a
batch (mput, mget, cput, cget, grpo) were put by one call before, and go together again.

messages and wake-ups (client+units) are of slabyard, an operation. Many units are one process
(`slabyard unit --count`), beside as many processes, and the waking alone of so many: of units-N
ours/theirs is their time over one unit's, of processes and wake that of one unit over theirs. The
disk tier runs beside plain writes and reads past the system's cache (odirect) of the same files.

mooncake (its store, without CUDA) and nixl (transfers alone: no keys, no allocation) come as
Python packages into build-bench/venv. They take their turns in the plain puts and gets up to
64 MiB, on random rows of their own (nixl stands still between them: its threads never sleep), and
are left out with a word where they do not install or run.
TransferQueue's own storage and Mooncake behind it are measured through its API, in turns as well,
by the suite transferqueue, whose Ray comes into build/venv-tq, where it installs.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import plan
import plot
import table
from options import ALONE, SINGLE, groups, names, parse, wanted
from servers import Servers

ALONE_LIMIT_S = 3600
# Every record has these; null: not known.
FIELDS = ("case", "who", "p50_us", "p99_us", "gb_s", "client_cpu_s_per_gib",
          "server_cpu_s_per_gib", "runs")  # fmt: skip


def available_bytes():
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def say(words):
    print(words, file=sys.stderr, flush=True)


def records_of(lines):
    for line in lines:
        record = json.loads(line)
        if record["who"].startswith("units-"):  # clusters of several sizes took turns
            record["case"], record["who"] = record["who"], "slabyard"
            if record.get("ours_over_theirs"):  # the driver's first is one unit
                record["ours_over_theirs"] = 1 / record["ours_over_theirs"]
        elif record["who"].startswith(("processes-", "wake-")):
            who, count = record["who"].split("-")
            record["case"], record["who"] = f"units-{count}", who
        yield record


def run_driver(options, group, servers):
    words = [os.path.join(options.build, "bench", "driver"), "--rows", str(group.rows)]
    words += ["--bytes", str(group.value_bytes)] if group.value_bytes else ["--grpo"]
    words += ["--rounds", str(options.rounds), "--threads", str(group.threads)]
    words += ["--processes", str(group.processes)]
    for peer in servers.peers:
        words += ["--peer", peer]
    for case in group.cases:
        words += case.words(options.quick)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=3600)
    return list(records_of(done.stdout.splitlines())), done.returncode == 0


def scratch(where="/tmp"):
    """A folder that is gone afterwards, also if what made files in it was killed."""
    return tempfile.TemporaryDirectory(
        prefix="slabyard-bench-", dir=where, ignore_cleanup_errors=True
    )


def run_group(options, group):
    need, memory = group.memory_bytes(options.peers), available_bytes()
    if need > memory:
        return [], True, [f"{group.name}: left out, it takes {need >> 30} GiB of memory"]
    say(f"bench: {group.name}: {', '.join(c.name for c in group.cases)}")
    try:
        with Servers(options, group, memory - need) as servers:
            records, ok = run_driver(options, group, servers)
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as fault:
        return [], False, [f"{group.name}: not measured: {fault}"]
    return records, ok, servers.notes


def run_resolve(options):
    records, ok = [], True
    for name, keys in plan.RESOLVE_KEYS.items():
        if not wanted(options, f"resolve-{name}", "resolve"):
            continue
        if keys * 400 > available_bytes():
            say(f"bench: resolve-{name}: left out for lack of memory")
            continue
        say(f"bench: resolve-{name}")
        steps = 50 if options.quick else 500
        done = subprocess.run(
            [os.path.join(options.build, "bench", "bench_resolve"), "--rounds",
             str(options.rounds), "--steps", str(steps), str(keys)],
            stdout=subprocess.PIPE, text=True, timeout=3600,
        )  # fmt: skip
        records += [json.loads(line) for line in done.stdout.splitlines()]
        ok = ok and done.returncode == 0
    return records, ok


def run_tier(options):
    records, ok = [], True
    for value_bytes in plan.TIER_BLOBS:
        names = plan.tier_cases(value_bytes)
        if not any(wanted(options, name, "tier") for name in names):
            continue
        say(f"bench: {', '.join(names)}")
        with scratch(options.ssd_dir or options.build) as folder, scratch() as run_dirs:
            done = subprocess.run(
                [os.path.join(options.build, "bench", "bench_tier"), "--dir", folder,
                 "--rounds", str(options.rounds), str(value_bytes)],
                stdout=subprocess.PIPE, text=True, timeout=3600,
                env={**os.environ, "TEST_RUN_DIRS": run_dirs},
            )  # fmt: skip
        found = [json.loads(line) for line in done.stdout.splitlines()]
        records += [r for r in found if wanted(options, r["case"], "tier")]
        ok = ok and done.returncode == 0
    return records, ok


def run_single(options):
    records, ok = [], True
    for name in SINGLE:
        if not wanted(options, name, name):
            continue
        say(f"bench: {name}")
        words = [os.path.join(options.build, "bench", f"bench_{name}")]
        words += ["--rounds", str(options.rounds)] if name == "untouched" else []
        with scratch() as folder:
            done = subprocess.run(
                words, stdout=subprocess.PIPE, text=True, timeout=ALONE_LIMIT_S,
                env={**os.environ, "TEST_RUN_DIRS": folder},
            )  # fmt: skip
        records += [json.loads(line) for line in done.stdout.splitlines()]
        ok = ok and done.returncode == 0
    return records, ok


def pin(options):
    cpus = options.cpus or sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cpus)
    say(f"bench: CPUs {', '.join(map(str, cpus))}")


def show(records, notes):
    if records:
        print(table.table(records))
    for r in records:
        if "ns_per_row" in r:
            print(
                f"{r['case']}: {r['ns_per_row']:.0f} ns a key, {r['bytes_per_key']:.0f} bytes a "
                f"key in use, {r['arena_bytes_per_key']:.0f} of arena"
            )
        if "cpu_us_per_op" in r:
            print(f"{r['case']} over {r['who']}: {r['cpu_us_per_op']:.1f} us of CPU time of both")
    goals = table.goals(records, len(os.sched_getaffinity(0)))
    if goals:
        print("\ngoals\n" + goals)
    for note in notes:
        print(note)


def run_alone(options, name):
    """A suite with a table of its own; its records, where it has some."""
    here = os.path.dirname(__file__)
    words = [sys.executable, os.path.join(here, "ucx.py"), "--build", options.build]
    if name == "transferqueue":
        words = [os.path.join(here, "..", "scripts", "python"), name, "run"]
        say("bench: TransferQueue and Ray are installed into build/venv-tq, if they are not")
        if subprocess.run([*words, "-c", ""], timeout=ALONE_LIMIT_S).returncode != 0:
            print("transferqueue: left out, it does not install here")
            return [], True
        words.append(os.path.join(here, "transferqueue.py"))
    print(flush=True)
    with scratch() as folder:
        made = os.path.join(folder, "records")
        words += ["--json", made, "--rounds", str(options.rounds)]
        env = {**os.environ, "TEST_RUN_DIRS": folder}
        done = subprocess.run(words, env=env, timeout=ALONE_LIMIT_S)
        if not os.path.exists(made):
            return [], False
        with open(made) as file:
            return json.load(file), done.returncode == 0


def main():
    options = parse(__doc__)
    if options.list:
        print("\n".join(names(options)))
        return 0
    pin(options)
    records, start = [], time.monotonic()
    try:
        ok = measure(options, records)
    finally:  # what was measured is there, however it ended
        write(options, records)
    say(f"bench: {time.monotonic() - start:.0f} s")
    return 0 if ok else 1


def measure(options, records):
    """Appends to the records as they come. False: something failed."""
    notes, all_ok = [], True
    try:
        for group in groups(options):
            found, ok, said = run_group(options, group)
            records += found
            notes, all_ok = notes + said, all_ok and ok
        for name, run in (("resolve", run_resolve), ("tier", run_tier), ("single", run_single)):
            run = functools.partial(run, options)
            all_ok = attempt(name, records, notes, run) and all_ok
    finally:
        show(records, sorted(set(notes)))
    for suite, cases in ALONE.items():
        if any(wanted(options, case, suite) for case in cases):
            said = []
            run = functools.partial(run_alone, options, suite)
            all_ok = attempt(suite, records, said, run) and all_ok
            for line in said:
                print(line)
    return all_ok


def attempt(name, records, notes, run):
    """A suite that cannot be measured takes nothing from the others."""
    try:
        found, ok = run()
    except (OSError, ValueError, subprocess.SubprocessError) as fault:
        notes.append(f"{name}: not measured: {fault}")
        return False
    records += found
    return ok


def write(options, records):
    if options.json:
        with open(options.json, "w") as file:
            json.dump([dict.fromkeys(FIELDS) | record for record in records], file, indent=1)
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(plot.svg(records))


def interrupt(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # not what nohup ignores
            signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("bench: interrupted; what it started has ended")
        sys.exit(130)
