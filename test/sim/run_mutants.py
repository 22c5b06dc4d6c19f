#!/usr/bin/env python3
"""Plants each fault of src/base/mutants.h and shows that the checker of its invariant finds it.

Each mutant runs over the same seeds twice: with the checker of its own invariant alone, whose
catches count, and with all of them, to say who speaks first. A mutant that its own checker never
catches fails; so does an invariant with fewer than two mutants, and any violation without one.
Needs a simulator built with -Dmutants=true (the code's own assertions are off there).

With --brief a mutant runs until its checker has caught it, first with the seed that
mutant_seeds.txt has for it; who speaks first is not asked. --write-seeds writes that file anew.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

INVARIANTS = 10
LEAST_AN_INVARIANT = 2
LIMIT_S = 600
CHUNK = 6  # seeds at a time with --brief
CLEAN_SEEDS = 40  # without a mutant, with --brief: the simulator's own run has many more
SEEDS_FILE = Path(__file__).resolve().parent / "mutant_seeds.txt"
CAUGHT = re.compile(r"^I(\d+): ")
SEED = re.compile(r"^seed (\d+), step")


def run(sim, seeds, jobs, *more, first=1):
    """The invariants that fired, as (seed, invariant), and whether the process came to its end."""
    command = [sim, "--seeds", f"{first}-{seeds}", "--jobs", str(jobs), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    fired, invariant = [], None
    for line in done.stdout.splitlines():
        if caught := CAUGHT.match(line):
            invariant = int(caught.group(1))
        elif (seed := SEED.match(line)) and invariant is not None:
            fired.append((int(seed.group(1)), invariant))
            invariant = None
    return sorted(fired), re.search(r"^\d+ passed, \d+ failed$", done.stdout, re.M) is not None


def mutants(sim):
    listed = subprocess.run([sim, "--mutant", "list"], capture_output=True, text=True, check=True)
    return [(name, int(number)) for name, number in map(str.split, listed.stdout.splitlines())]


def known_seeds():
    """By mutant, the seed that caught it last; what is missing or not true costs but time."""
    if not SEEDS_FILE.exists():
        return {}
    lines = [line.split() for line in SEEDS_FILE.read_text().splitlines() if line[:1] != "#"]
    return {name: int(seed) for name, seed in lines}


def write_seeds(seeds):
    head = "# A seed that catches each mutant: run_mutants.py SIM --brief --write-seeds\n"
    SEEDS_FILE.write_text(head + "".join(f"{name} {seed}\n" for name, seed in seeds.items()))


def try_briefly(sim, name, invariant, args):
    starts = range(1, args.seeds + 1, CHUNK)
    chunks = [(first, min(first + CHUNK - 1, args.seeds)) for first in starts]
    if name in args.known:
        chunks.insert(0, (args.known[name], args.known[name]))
    for first, last in chunks:
        words = ("--mutant", name, "--only", str(invariant))
        own, _ = run(sim, last, args.jobs, *words, first=first)
        if own:
            args.known[name] = own[0][0]
            print(f"{name:28} I{invariant:<3} {own[0][0]:>6}", flush=True)
            return True
    return False


def try_mutant(sim, name, invariant, args):
    if args.brief:
        return try_briefly(sim, name, invariant, args)
    own, whole = run(sim, args.seeds, args.jobs, "--mutant", name, "--only", str(invariant))
    every, _ = run(sim, args.first_seeds, args.jobs, "--mutant", name)
    first = Counter(number for _, number in every)
    said = " ".join(f"I{number}:{count}" for number, count in sorted(first.items()))
    needed = str(own[0][0]) if own else "-"
    share = f"{len(own):>5}/{args.seeds:<5}"
    print(f"{name:28} I{invariant:<3} {needed:>6} {share} {said}", flush=True)
    if not whole:
        print(f"  some seeds of {name} ended in a crash, which counts as no catch")
    return bool(own)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sim", help="a simulator built with -Dmutants=true")
    parser.add_argument("--seeds", type=int, default=200, help="seeds for each mutant (200)")
    parser.add_argument("--first-seeds", type=int, default=40,
                        help="seeds with all checkers, to see who speaks first (40)")
    parser.add_argument("--brief", action="store_true", help="only until each is caught")
    parser.add_argument("--write-seeds", action="store_true", help="with --brief, see above")
    parser.add_argument("--effort", type=int, metavar="SEEDS",
                        help="of the check that this is a part of: brief below 10,000")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    args = parser.parse_args()
    args.brief = args.brief or (args.effort is not None and args.effort < 10000)
    if not Path(args.sim).exists():
        sys.exit(f"run_mutants: no simulator at {args.sim}: ninja -C BUILD test/sim/sim")
    args.known = {} if args.write_seeds else known_seeds()
    found = mutants(args.sim)
    passed, failed = 0, 0
    print(f"{'mutant':28} {'of':4} {'seed':>6} {'caught':>11} with all checkers, who speaks first")
    for name, invariant in found:
        if try_mutant(args.sim, name, invariant, args):
            passed += 1
        else:
            failed += 1
            print(f"FAILED  {name} survives the checker of I{invariant}")
    clean_seeds = min(args.seeds, CLEAN_SEEDS) if args.brief else args.seeds
    clean, _ = run(args.sim, clean_seeds, args.jobs)
    print(f"without a mutant: {len(clean)} violations in {clean_seeds} seeds")
    if args.write_seeds:
        write_seeds({name: args.known[name] for name, _ in found if name in args.known})
    for invariant in range(1, INVARIANTS + 1):
        if sum(number == invariant for _, number in found) < LEAST_AN_INVARIANT:
            failed += 1
            print(f"FAILED  I{invariant} has fewer than {LEAST_AN_INVARIANT} mutants")
    passed, failed = passed + (not clean), failed + bool(clean)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
