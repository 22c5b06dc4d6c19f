#!/usr/bin/env python3
"""Checks the models of the protocol (model.pml) and of wake-ups (lane.pml) exhaustively with spin.

usage: run_model.py --arrows arrows.pml [--effort N] [--keep DIR]
--arrows is what test/model/print_arrows printed, --effort from 10000 on takes the larger bounds.
Each scope is one search of all states within its bounds; it counts only if the verifier says that
it left none out and that every claim held. Then every mutant must break the claim that it is
about, with the other claims set aside, and a missing arrow of the table must be missed. Prints a
line for each, and `N passed, M failed`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ["model.pml", "session.pml", "request.pml", "unit.pml", "client.pml"]
CLAIMS = ["I1", "I4", "I5", "I8"]
MEMORY_MB = 8000
DEPTH = 10000
LIMIT_S = 1800

# Bits of `may`, as model.pml numbers them.
PUTS, PUTS_INLINE, RESOLVES, RELEASES, GIVES_UP = (1 << bit for bit in range(5))
LATE_WRITES, SOCKET_ENDS, SAYS_BYE, DIES, REMOTE, GRANTS = (1 << bit for bit in range(5, 11))
ALL = 511
CALLS = PUTS | PUTS_INLINE | RESOLVES | RELEASES | GIVES_UP
NO_INLINE = ALL & ~PUTS_INLINE
# Its sessions end by their lease, and are fenced; reads under pins that expire need time.
WRITER_AFAR = PUTS | GIVES_UP | LATE_WRITES | SOCKET_ENDS | REMOTE

# One put after the other, each into the region that the commit of the last one was granted.
GRANTED = PUTS | GIVES_UP | LATE_WRITES | SOCKET_ENDS | SAYS_BYE | DIES | GRANTS

# Moves that need pins which expire: those of other hosts, which the model leaves out.
NEVER_TAKEN = {"RELEASED-QUARANTINED", "QUARANTINED-FREE"}


@dataclass(frozen=True)
class Scope:
    """Bounds of one search; pairs are for the two clients. arrays: REQUESTS, SESSIONS, NOTICES."""

    name: str
    requests: tuple
    sessions: tuple
    may: tuple
    any_slot: int = 0
    lag: int = 0
    arrays: tuple = (4, 2, 3)

    def environment(self):
        pairs = {"REQUESTS": self.requests, "SESSIONS": self.sessions, "MAY": self.may}
        env = {f"{name}_{i}": pair[i] for name, pair in pairs.items() for i in (0, 1)}
        env |= {"ANY_SLOT": self.any_slot, "LAG": self.lag, "MUTANT": 0, "ARROW_MISSING": 0}
        return env | {f"ASIDE_{claim}": 0 for claim in CLAIMS}


SCOPES = [
    Scope("ends", (2, 1), (2, 1), (ALL, ALL), lag=1),
    Scope("both", (2, 2), (1, 1), (ALL, ALL)),
    Scope("writer", (4, 1), (1, 1), (ALL, CALLS)),
    Scope("sessions", (3, 1), (2, 1), (ALL, RESOLVES)),
    Scope("slots", (4, 1), (1, 1), (NO_INLINE, RESOLVES | RELEASES), any_slot=1),
    Scope("order", (3, 3), (1, 1), (CALLS & ~PUTS, CALLS & ~PUTS)),
    Scope("grants", (4, 1), (2, 1), (GRANTED, PUTS_INLINE | RESOLVES)),
    Scope("remote", (3, 2), (2, 1), (WRITER_AFAR, PUTS | PUTS_INLINE | GIVES_UP)),
]
LARGE_SCOPES = SCOPES + [
    Scope("large-ends", (3, 1), (2, 1), (ALL, ALL), lag=1),
    Scope("large-sessions", (4, 1), (2, 1), (ALL, CALLS & ~PUTS)),
    Scope("large-slots", (4, 1), (1, 1), (ALL, CALLS & ~PUTS), any_slot=1),
    Scope("large-order", (4, 4), (1, 1), (CALLS & ~PUTS, CALLS & ~PUTS)),
]

# A scope in which every mutant shows, and the one claim that each is about.
MUTANT_SCOPE = Scope("mutant", (4, 1), (1, 1), (ALL, CALLS))
# ... but for those of sessions of other hosts.
AFAR_SCOPE = Scope("afar", (2, 1), (1, 1), (WRITER_AFAR, PUTS_INLINE))
AFAR_MUTANTS = {"FREES_UNFENCED"}
GRANTS_SCOPE = Scope("grants-mutant", (4, 1), (2, 1), (GRANTED, PUTS_INLINE))
GRANTS_MUTANTS = {"USES_GRANT_TWICE", "KEEPS_ABORTED_GRANT"}
MUTANTS = [
    ("FREES_IN_FLIGHT", "I1"),
    ("NO_GENERATION", "I5"),
    ("NO_SLOT", "I4"),
    ("NO_SESSION_CHECK", "I5"),
    ("NO_GIVE_UP", "I4"),
    ("CLEARS_LATER", "I8"),
    ("ANSWERS_EARLY", "I8"),
    ("FORGETS_PINS", "I1"),
    ("SOCKET_FREES", "I1"),
    ("BRINGS_OLDEST", "I4"),
    ("LATE_IS_OVER", "I1"),
    ("RESOLVES_TWICE", "I4"),
    ("FREES_UNFENCED", "I1"),
    ("USES_GRANT_TWICE", "I1"),
    ("KEEPS_ABORTED_GRANT", "I4"),
]


class Broken(Exception):
    """A tool failed: what it said."""


def run(command, directory, env=None, limit_s=LIMIT_S):
    """(exit status or None, output, processor seconds of children since)."""
    before = os.times()
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=None if env is None else {**os.environ, **{k: str(v) for k, v in env.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            text=True,
            errors="replace",
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as stop:
        status, output = None, (stop.stdout or b"").decode(errors="replace")
    except OSError as fault:
        raise Broken(f"cannot run {command[0]}: {fault}") from fault
    after = os.times()
    used = after.children_user + after.children_system
    return status, output, used - before.children_user - before.children_system


def build(folder, arrows, arrays):
    """The verifier for arrays of this size, made in a folder of its own."""
    place = folder / "-".join(map(str, arrays))
    if (place / "pan").exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        shutil.copy(HERE / source, place / source)
    shutil.copy(arrows, place / "arrows.pml")
    sizes = [f"-D{name}={n}" for name, n in zip(("REQUESTS", "SESSIONS", "NOTICES"), arrays)]
    status, output, _ = run(["spin", "-a", *sizes, "model.pml"], place)
    if status != 0 or "Error" in output:
        raise Broken(f"spin: {output}")
    flags = ["-O3", "-march=native", "-w", "-DSAFETY", "-DNOREDUCE", "-DNOBOUNDCHECK"]
    flags.append(f"-DMEMLIM={MEMORY_MB}")
    status, output, _ = run(["gcc", *flags, "-o", "pan", "pan.c"], place)
    if status != 0:
        raise Broken(f"gcc: {output}")
    return place


@dataclass
class Verdict:
    output: str
    broken: str  # the claim that broke; empty: none
    fault: str  # why the search counts for nothing; empty: it went to its end
    states: int = 0
    transitions: int = 0
    memory_mb: float = 0
    seconds: float = 0


def number(pattern, output):
    found = re.search(pattern, output, re.M)
    return float(found.group(1)) if found else None


def judge(status, output, seconds):
    """What the verifier's words come to. A search that left anything out is no search."""
    verdict = Verdict(output, "", "", seconds=seconds)
    verdict.states = int(number(r"^\s*([\d.e+]+) states, stored", output) or 0)
    verdict.transitions = int(number(r"^\s*([\d.e+]+) transitions", output) or 0)
    verdict.memory_mb = number(r"^\s*([\d.]+)\s+total actual memory", output) or 0
    errors = number(r"errors: (\d+)", output)
    violation = re.search(r"^pan:\d+: assertion violated \(?(\w+)", output, re.M)
    other = re.search(r"^pan:\d+: (?!assertion violated)(.*)", output, re.M)
    if violation:
        verdict.broken = violation.group(1) if violation.group(1) in CLAIMS + ["TABLE"] else "?"
    elif status is None:
        verdict.fault = "out of time"
    elif errors is None or "Full statespace search for" not in output:
        verdict.fault = f"the verifier did not finish (status {status})"
    elif "max search depth too small" in output:
        verdict.fault = "the search was cut off at its depth"
    elif "Search not completed" in output or "MEMLIM" in output or "out of memory" in output:
        verdict.fault = "the search was not completed"
    elif errors != 0 or other or status != 0:
        verdict.fault = other.group(1) if other else f"{errors:g} errors, status {status}"
    elif verdict.states == 0:
        verdict.fault = "no state was seen"
    return verdict


def search(folder, arrows, scope, depth=DEPTH, **changes):
    place = build(folder, arrows, scope.arrays)
    env = scope.environment() | changes
    status, output, seconds = run(["./pan", f"-m{depth}", "-w24"], place, env)
    return judge(status, output, seconds)


def words(kind, text):
    """What model.pml calls the numbers in the verifier's replay."""
    first = {"op": "NO_OP", "kind": "ABORT", "reply": "NO_REPLY", "state": "NONE"}[kind]
    names = {}
    text = text[text.index(f"#define {first} ") :]
    for name, value in re.findall(r"^#define (\w+) (\d)", text, re.M):
        names.setdefault(value, name)
    return names


def replay(folder, scope, **changes):
    """The steps that led to the fault found last, in words."""
    place = folder / "-".join(map(str, scope.arrays))
    _, output, _ = run(["./pan", "-r", f"-m{DEPTH}"], place, scope.environment() | changes)
    text = (HERE / "model.pml").read_text()
    for line in output.splitlines():
        if re.match(r"\s*(client|unit)\b.*:", line):
            yield re.sub(
                r"(op|kind|reply|state)=(\d)",
                lambda m: words(m.group(1), text).get(m.group(2), m.group()),
                line.strip(),
            )


class Report:
    def __init__(self):
        self.passed = self.failed = 0
        self.counts = {}

    def say(self, good, name, what):
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok' if good else 'FAILED':<8} {name:<28} {what}", flush=True)

    def count(self, output):
        for kind, name, count in re.findall(r"^(arrow|seen) (\S+) (\d+)$", output, re.M):
            self.counts[kind, name] = self.counts.get((kind, name), 0) + int(count)


def try_scopes(report, folder, arrows, scopes):
    for scope in scopes:
        verdict = search(folder, arrows, scope)
        report.count(verdict.output)
        what = (
            f"{verdict.states:>9} states {verdict.transitions:>10} transitions "
            f"{verdict.memory_mb:6.0f} MB {verdict.seconds:6.1f} s  "
        )
        what += verdict.fault or (f"{verdict.broken} broken" if verdict.broken else "all hold")
        report.say(not verdict.broken and not verdict.fault, scope.name, what)
        if verdict.broken:
            for line in replay(folder, scope):
                print("  | " + line)


def try_coverage(report):
    """Everything that the sources count was come by, and every move was made."""
    wanted = set()
    for source in SOURCES:
        wanted |= set(re.findall(r"SEEN\((\w+)\)", (HERE / source).read_text())) - {"what"}
    missed = sorted(n for n in wanted if not report.counts.get(("seen", n)))
    arrows = {n: c for (kind, n), c in report.counts.items() if kind == "arrow"}
    for name, count in arrows.items():
        print(f"         {name:<28} {count:>12} times")
    for (kind, name), count in sorted(report.counts.items()):
        if kind == "seen":
            print(f"         {name:<36} {count:>12} times")
    missed += [n for n, c in arrows.items() if not c and n not in NEVER_TAKEN]
    what = "never: " + " ".join(missed) if missed else "every move and every event came"
    report.say(bool(arrows) and not missed, "coverage", what)


def try_mutants(report, folder, arrows):
    model = (HERE / "model.pml").read_text()
    for name, claim in MUTANTS:
        changes = {f"ASIDE_{other}": 1 for other in CLAIMS if other != claim}
        changes["MUTANT"] = int(re.search(rf"^#define {name} (\d+)", model, re.M).group(1))
        scope = AFAR_SCOPE if name in AFAR_MUTANTS else MUTANT_SCOPE
        scope = GRANTS_SCOPE if name in GRANTS_MUTANTS else scope
        verdict = search(folder, arrows, scope, **changes)
        steps = len(list(replay(folder, scope, **changes))) if verdict.broken else 0
        report.say(
            verdict.broken == claim,
            "mutant " + name,
            f"{verdict.broken or 'nothing'} broken, {claim} was to break; {steps} steps",
        )


def try_missing_arrows(report, folder, arrows):
    names = re.findall(r'^\t\t"([\w-]+)",$', arrows.read_text(), re.M)
    for place, name in enumerate(names, 1):
        if name in NEVER_TAKEN:
            continue
        verdict = search(folder, arrows, MUTANT_SCOPE, ARROW_MISSING=place)
        report.say(
            verdict.broken == "TABLE", "without " + name, f"{verdict.broken or 'nothing'} broken"
        )
    if not names:
        report.say(False, "missing arrows", "the table has none")


def try_lane(report, folder):
    """Wake-ups over a lane: none is missed; and with a look left out one is."""
    text = (HERE / "lane.pml").read_text()
    place = folder / "lane"
    place.mkdir(parents=True, exist_ok=True)
    (place / "lane.pml").write_text(text)
    mutants = re.findall(r"^#define (NO_\w+) (\d+)", text, re.M)
    for name, value in [("", "0")] + mutants:
        for command in (
            ["spin", "-a", f"-DMUTANT={value}", "lane.pml"],
            ["gcc", "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"],
        ):
            status, output, _ = run(command, place)
            if status != 0 or "Error" in output:
                raise Broken(f"{command[0]}: {output}")
        status, output, seconds = run(["./pan", f"-m{DEPTH}"], place)
        verdict = judge(status, output, seconds)
        if name:
            good = "pan:1: invalid end state" in output
            what = "a wake-up is missed" if good else verdict.fault or "nothing is missed"
            report.say(good, "lane mutant " + name, what)
        else:
            what = verdict.fault or f"{verdict.states:>9} states, no wake-up is missed"
            report.say(not verdict.fault, "lane", what)
    if not mutants:
        report.say(False, "lane mutants", "there are none")


def try_cut_off(report, folder, arrows):
    """The judge itself: a search that its depth cuts off, and one that its bounds refuse."""
    verdict = search(folder, arrows, MUTANT_SCOPE, depth=20)
    report.say(bool(verdict.fault), "cut off at depth 20", "refused: " + verdict.fault)
    verdict = search(folder, arrows, MUTANT_SCOPE, REQUESTS_0=7)
    report.say(bool(verdict.fault or verdict.broken), "more requests than arrays", "refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrows", required=True, type=Path)
    parser.add_argument("--effort", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    options = parser.parse_args()
    report, started = Report(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slabyard-model-") as scratch:
        folder = options.keep or Path(scratch)
        try:
            try_scopes(
                report, folder, options.arrows, LARGE_SCOPES if options.effort >= 10000 else SCOPES
            )
            try_coverage(report)
            try_mutants(report, folder, options.arrows)
            try_missing_arrows(report, folder, options.arrows)
            try_cut_off(report, folder, options.arrows)
            try_lane(report, folder)
        except Broken as fault:
            report.say(False, "tools", str(fault)[-2000:])
    print(f"{time.monotonic() - started:.1f} s")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
