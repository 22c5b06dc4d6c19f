#!/usr/bin/env python3
"""Counts the instructions of fixed work under callgrind and compares them with expected.json.

  run_count.py BUILD [--update]

Each function count_* of count_unit and count_client is a case. A case fails that takes over 15
percent more than expected (room for another compiler); one that takes over 15 percent less only
asks for --update, which writes what was counted. The client's cases talk to a real unit, whose own
work is not counted; how often they wait for it makes a difference of a few thousand instructions.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXPECTED = os.path.join(HERE, "expected.json")
TOLERANCE = 0.15
PATIENCE_S = 120


def one_processor():
    """Where there is one alone no other thread takes a share of a copy, which would not count."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def counted(program, words, out):
    """The instructions of each case of one program."""
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--toggle-collect=count_*", "--collect-atstart=no",
         f"--callgrind-out-file={out}", program, *words],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE_S,
        preexec_fn=one_processor,
    )  # fmt: skip
    table = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
        check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S,
    ).stdout  # fmt: skip
    line = re.compile(r"^ *([0-9,]+) .*:count_([a-z_]+)")
    found = [line.match(text) for text in table.splitlines()]
    prefix = os.path.basename(program).removeprefix("count_")
    return {f"{prefix}_{m[2]}": int(m[1].replace(",", "")) for m in found if m}


def count_client(build, top):
    run_dir = os.path.join(top, "run")
    command = os.path.join(build, "slabyard")
    up = [command, "up", "-d", "--run-dir", run_dir, "--units", "1", "--slab-bytes", "64MiB"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    try:
        return counted(os.path.join(build, "test/count/count_client"), [run_dir],
                       os.path.join(top, "client.out"))  # fmt: skip
    finally:
        subprocess.run([command, "down", "--run-dir", run_dir],
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)  # fmt: skip


def judge(name, count, expected):
    """A line to print, and whether it is a failure."""
    if expected is None:
        return f"FAILED  {name}: {count:,}; none is expected: --update", True
    more = count / expected - 1
    words = f"{name:24} {count:12,} instructions, {more:+.1%}"
    if more > TOLERANCE:
        return f"FAILED  {words}: expected are {expected:,}", True
    if more < -TOLERANCE:
        return f"ok      {words}; --update writes down that it got better", False
    return f"ok      {words}", False


def main():
    parser = argparse.ArgumentParser(
        prog="run_count.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("build")
    parser.add_argument("--update", action="store_true", help="write expected.json")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind is not installed: scripts/deps check")
        return 1
    with tempfile.TemporaryDirectory(prefix="slabyard-count-", dir="/tmp") as top:
        counts = counted(os.path.join(options.build, "test/count/count_unit"), [],
                         os.path.join(top, "unit.out"))  # fmt: skip
        counts |= count_client(options.build, top)
    if options.update:
        with open(EXPECTED, "w") as file:
            json.dump(dict(sorted(counts.items())), file, indent=1)
            file.write("\n")
    with open(EXPECTED) as file:
        expected = json.load(file)
    verdicts = [judge(name, counts[name], expected.get(name)) for name in sorted(counts)]
    verdicts += [(f"FAILED  {name}: not counted", True) for name in expected.keys() - counts]
    for words, _ in verdicts:
        print(words)
    failed = sum(bad for _, bad in verdicts)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
