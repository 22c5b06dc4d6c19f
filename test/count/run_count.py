#!/usr/bin/env python3
"""Counts the instructions of fixed work under callgrind and compares them with expected.json.

  run_count.py BUILD [--update]
  run_count.py BUILD --profile CASE...

Each function count_* of count_unit, count_parked and count_client is a case. A case fails that
takes over 15 percent more than expected (room for another compiler); one that takes 15 percent
less only asks for --update, which writes what was counted. The client's cases talk to a real unit,
whose own work is not counted; how often they wait for it makes a difference of a few thousand
instructions. A unit's steps must take as many with 1,000 parked requests as with two.

--profile prints instead which functions the instructions of each CASE are in.
"""

import argparse
import collections
import contextlib
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
PROFILE_LINES = 12
PATIENCE_S = 120


def expected_counts():
    with open(EXPECTED) as file:
        return json.load(file)


def one_processor():
    """Where there is one alone no other thread takes a share of a copy, which would not count."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def annotated(program, words, out, cases, *options):
    """What callgrind says of these cases of one program, together."""
    subprocess.run(
        ["valgrind", "--tool=callgrind", f"--toggle-collect=count_{cases}*",
         "--collect-atstart=no", f"--callgrind-out-file={out}", program, *words],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE_S,
        preexec_fn=one_processor,
    )  # fmt: skip
    return subprocess.run(
        ["callgrind_annotate", "--threshold=100", *options, out],
        check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S,
    ).stdout  # fmt: skip


def counted(program, words, out):
    """The instructions of each case of one program."""
    line = re.compile(r"^ *([0-9,]+) .*:count_([a-z_]+)")
    table = annotated(program, words, out, "", "--inclusive=yes")
    found = [line.match(text) for text in table.splitlines()]
    prefix = os.path.basename(program).removeprefix("count_")
    return {f"{prefix}_{m[2]}": int(m[1].replace(",", "")) for m in found if m}


def profiled(program, words, out, case):
    """The functions of one case that take most, as lines to print."""
    line = re.compile(r"^ *([0-9,]+) \([^)]*\) +[^ ]*:([^ ]+)")
    found = collections.Counter()  # a function has a line for each file of what it inlines
    for text in annotated(program, words, out, case).splitlines():
        match = line.match(text)
        if match:
            found[match[2]] += int(match[1].replace(",", ""))
    total = found.total()
    yield f"{os.path.basename(program).removeprefix('count_')}_{case}: {total:,} instructions"
    for name, count in found.most_common(PROFILE_LINES):
        yield f"  {count / total:6.1%}  {name}"


@contextlib.contextmanager
def a_unit(build, top):
    """The run directory of one that serves."""
    run_dir = os.path.join(top, "run")
    command = os.path.join(build, "slabyard")
    up = [command, "up", "-d", "--run-dir", run_dir, "--units", "1", "--slab-bytes", "64MiB"]
    subprocess.run(up, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
    try:
        yield run_dir
    finally:
        subprocess.run([command, "down", "--run-dir", run_dir],
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)  # fmt: skip


def run_all(build, top, cases):
    """All counts, or, where there are cases, what to print of each."""
    with a_unit(build, top) as run_dir:
        for name, words in (("unit", []), ("parked", []), ("client", [run_dir])):
            program = os.path.join(build, f"test/count/count_{name}")
            out = os.path.join(top, f"{name}.out")
            if not cases:
                yield from counted(program, words, out).items()
            for case in cases:
                if case.startswith(f"{name}_"):
                    yield from profiled(program, words, out, case.removeprefix(f"{name}_"))


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
    parser.add_argument("--profile", metavar="CASE", nargs="+", choices=sorted(expected_counts()),
                        help="of those in expected.json")  # fmt: skip
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        print("valgrind is not installed: scripts/deps check")
        return 1
    with tempfile.TemporaryDirectory(prefix="slabyard-count-", dir="/tmp") as top:
        found = list(run_all(options.build, top, options.profile or []))
    if options.profile:
        print("\n".join(found))
        return 0
    counts = dict(found)
    if options.update:
        with open(EXPECTED, "w") as file:
            json.dump(dict(sorted(counts.items())), file, indent=1)
            file.write("\n")
    expected = expected_counts()
    verdicts = [judge(name, counts[name], expected.get(name)) for name in sorted(counts)]
    if "parked_one" in counts and "parked_many" in counts:
        verdicts.append(judge("many beside one", counts["parked_many"], counts["parked_one"]))
    verdicts += [(f"FAILED  {name}: not counted", True) for name in expected.keys() - counts]
    for words, _ in verdicts:
        print(words)
    failed = sum(bad for _, bad in verdicts)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
