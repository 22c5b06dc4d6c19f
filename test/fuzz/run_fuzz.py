#!/usr/bin/env python3
"""Runs every fuzz target of a build for a number of executions, several at once.

usage: run_fuzz.py BUILD [--runs N] [--seed S] [--jobs J] [TARGET...]
A crash prints the path of its input and how to run it again. The target whose name ends in
_canary lacks one bounds check: it has to crash, or the fuzzers are of no use. Ends with
`N passed, M failed` over the targets. --keep DIR keeps what the runs found to try.
"""

import argparse
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
MAX_BYTES = 4096
# Sequences: of their full length from the start on, and with no book of what is rare, which
# takes more time than they do.
SEQUENCES = ("fuzz_serve", "fuzz_core_events")
SEQUENCE_BYTES, SHORT_BYTES = 256, 128
FEW_RUNS = 100000  # up to so many, short sequences
INPUT_LIMIT_S = 20
FAULT_LINES = 25
FAULT = re.compile(r"not true|ERROR|SUMMARY|assertion|runtime error|audit:|^ +#\d+ ")


def fixed_addresses():
    """Sanitizers of older compilers cannot work under a wide address randomisation."""
    try_it = ["setarch", "-R", "true"]
    if shutil.which("setarch") and subprocess.run(try_it, capture_output=True).returncode == 0:
        return ["setarch", "-R"]
    return []


def environment():
    env = dict(os.environ)
    env.update(
        ASAN_OPTIONS="detect_leaks=1:abort_on_error=1:allocator_may_return_null=1",
        UBSAN_OPTIONS="halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    )
    return env


class Result:
    def __init__(self, name, ok, runs, seconds, lines):
        self.name, self.ok, self.runs = name, ok, runs
        self.seconds, self.lines = seconds, lines


def length_of(name, runs):
    if name not in SEQUENCES:
        return MAX_BYTES
    return SHORT_BYTES if runs <= FEW_RUNS else SEQUENCE_BYTES


def corpus_of(name):
    return CORPUS / name.removesuffix("_canary")


def fuzz(program, options, seed, work, prefix):
    """One target; what it finds goes to folders of its own, the kept corpus is only read."""
    name = program.name
    found = (Path(options.keep) if options.keep else work) / name
    crashes = options.crashes / name
    for folder in (found, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        *prefix,
        str(program),
        f"-runs={options.runs}",
        f"-seed={seed}",
        f"-max_len={length_of(name, options.runs)}",
        *(["-len_control=0", "-entropic=0"] if name in SEQUENCES else []),
        f"-timeout={INPUT_LIMIT_S}",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
        f"-artifact_prefix={crashes}/",
        str(found),
        str(corpus_of(name)),
    ]
    started = time.monotonic()
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environment()
    )
    seconds = time.monotonic() - started
    output = (ran.stdout + ran.stderr).decode(errors="replace")
    counts = re.findall(r"stat::number_of_executed_units: (\d+)", output)
    return judge(name, ran.returncode, int(counts[-1]) if counts else 0, seconds, output, command)


def judge(name, status, runs, seconds, output, command):
    written = re.findall(r"Test unit written to (\S+)", output)
    if name.endswith("_canary"):
        seen = status != 0 and "AddressSanitizer" in output
        lines = [] if seen else [f"{name}: a missing bounds check was not found"]
        return Result(name, seen, runs, seconds, lines)
    if status == 0 and runs > 0:
        return Result(name, True, runs, seconds, [])
    faults = [line for line in output.splitlines() if FAULT.search(line)]
    lines = faults[:FAULT_LINES] or output.splitlines()[-FAULT_LINES:]
    for path in written:
        again = [word for word in command if not word.startswith("-") or word == "-R"][:-2]
        lines.append(f"input: {path}")
        lines.append(f"again: {' '.join(again)} {path}")
    return Result(name, False, runs, seconds, lines)


def report(result, seed):
    what = "ok" if result.ok else "FAILED"
    if result.ok and result.name.endswith("_canary"):
        what = "found"
    print(
        f"{what:<7} {result.name:<20} {result.runs:9} executions {result.seconds:7.1f} s"
        f"  seed {seed}",
        flush=True,
    )
    for line in result.lines:
        print("  | " + line[:300], flush=True)


def programs(build, names):
    found = sorted(p for p in (Path(build) / "test" / "fuzz").glob("fuzz_*") if p.is_file())
    chosen = [p for p in found if not names or p.name in names]
    if not chosen or len(set(names)) > len(chosen):
        sys.exit(f"{build}: no such fuzz target; there are {[p.name for p in found]}")
    # The slowest first, so that all end together.
    return sorted(chosen, key=lambda p: p.name not in SEQUENCES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="a build directory made with -Dfuzz=true")
    parser.add_argument("targets", nargs="*", help="only these, as fuzz_index")
    parser.add_argument("--runs", type=int, default=100000, help="executions of each")
    parser.add_argument("--seed", type=int, help="of libFuzzer; another each time if left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", help="a folder for the inputs found on the way")
    options = parser.parse_intermixed_args()
    options.crashes = Path(options.build).resolve() / "test" / "fuzz" / "crashes"
    chosen = programs(Path(options.build).resolve(), options.targets)
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    prefix, failed = fixed_addresses(), 0
    with tempfile.TemporaryDirectory(prefix="slabyard-fuzz-") as work:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = [pool.submit(fuzz, p, options, seed, Path(work), prefix) for p in chosen]
            for run in concurrent.futures.as_completed(runs):
                report(run.result(), seed)
                failed += not run.result().ok
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
