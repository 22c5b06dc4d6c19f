"""The arguments of scripts/bench, told if they are wrong, and the cases that they choose."""

import argparse
import fnmatch
import os

import plan
import ucx

PEERS = ["memcpy", "redis", "memcached", *plan.OUTSIDE]
# Suites of one program each.
SINGLE = ["roundtrip", "untouched"]
# Suites that print a table of their own, and what --case knows them by.
ALONE = {
    "ucx": ucx.names(),
    "transferqueue": [f"transferqueue-{step}" for step in ("put", "get", "clear")],
}
ROUNDS_MAX = 64  # as bench_tier has it


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 on")
    return int(text)


def rounds(text):
    count = positive(text)
    if count > ROUNDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is over {ROUNDS_MAX}")
    return count


def cpus(text):
    allowed = os.sched_getaffinity(0)
    words = text.split(",")
    if not all(word.isdecimal() and int(word) in allowed for word in words):
        known = ",".join(map(str, sorted(allowed)))
        raise argparse.ArgumentTypeError(f"{text} are not all of the CPUs allowed, {known}")
    return [int(word) for word in words]


def peers(text):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer {name}; there are {', '.join(PEERS)}")
    return names


def new_file(path):
    """It is written at the very end, which is late to learn that it cannot be."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written")
    return path


def folder(path):
    if not os.path.isdir(path) or not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} is no directory that can be written to")
    return path


def parse(description):
    width = max(map(len, plan.SUITES))
    suites = "\n".join(f"  {name:<{width}}  {words}" for name, words in plan.SUITES.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=description,
        epilog=f"suites:\n{suites}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--build", default="build-bench", help=argparse.SUPPRESS)
    add("--suite", action="append", metavar="NAME", choices=plan.SUITES,
        help="only this suite; may be given several times")  # fmt: skip
    add("--case", metavar="PATTERN", help="only cases whose name matches, as 'put-*'")
    add("--json", metavar="FILE", type=new_file, help="write the records there, a list of objects")
    add("--svg", metavar="FILE", type=new_file, help="draw the table there")
    add("--rounds", type=rounds, default=5, metavar="N", help="after the warm-up; default: 5")
    add("--quick", action="store_true", help="a tenth of the operations a round")
    add("--cpus", type=cpus, metavar="A,B",
        help="the CPUs of everything; default: the first two allowed")  # fmt: skip
    add("--peers", type=peers, default=PEERS, metavar="NAMES",
        help=f"default: {','.join(PEERS)}")  # fmt: skip
    add("--ssd-dir", type=folder, metavar="DIR",
        help="of suite tier, 1 GiB; default: the build's folder")  # fmt: skip
    add("--units-max", type=positive, default=256, metavar="N",
        help="of the suite units; default: 256")  # fmt: skip
    add("--list", action="store_true", help="only name the cases")
    options = parser.parse_args()
    if not names(options):
        parser.error("no case is of that suite and name; --list names them")
    return options


def wanted(options, name, suite):
    if suite not in (options.suite or plan.SUITES):
        return False
    return not options.case or fnmatch.fnmatch(name, options.case)


def groups(options):
    """With only the cases asked for. Of units a case is all their counts, which take turns."""
    for group in plan.groups():
        group.unit_counts = [n for n in group.unit_counts if n <= options.units_max]
        group.cases = [
            c for c in group.cases if any(wanted(options, n, c.suite) for n in group.names(c))
        ]
        if group.cases:
            yield group


def names(options):
    found = [(n, c.suite) for g in groups(options) for c in g.cases for n in g.names(c)]
    found += [(f"resolve-{n}", "resolve") for n in plan.RESOLVE_KEYS]
    found += [(name, "tier") for size in plan.TIER_BLOBS for name in plan.tier_cases(size)]
    found += [(name, name) for name in SINGLE]
    found += [(name, suite) for suite, cases in ALONE.items() for name in cases]
    return [name for name, suite in found if wanted(options, name, suite)]
