#!/usr/bin/env python3
"""Runs the suites of scripts/suites and counts what passed and failed.

A suite that is missing, broken, empty or out of time is a failure, never a pass; so is a skip,
unless HACKING.md lists its reason. Use it through scripts/check, which installs what it needs.

Suites run in lanes, two of them where there are two processors: one that keeps all processors busy
by itself has one other beside it that does not, and both have one that mostly waits, two of its
files at a time. What has no deadlines, builds and the like, runs beside all of them, two at a
time, and gives way to them: it takes what processors they leave. No suite may depend on what else
the machine does.
"""

import argparse
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from count_tests import Count, count_output
from run_command import (
    end_all,
    execute,
    folders,
    is_alone,
    names_used,
    remove_folders,
    remove_slabs,
    this_lane,
)

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build-check"
LOGS = OUT / "logs"
TAIL_LINES = 40
RECAP_LINES = 12
FAULT = re.compile(r"FAILED|FAIL:|Failure!|ERROR|Error:|panic|Sanitizer")
COMPILE_FAULT = re.compile(r"\berror:|\bERROR:|\bwarning:|undefined reference|^FAILED")
BUILD_LIMIT_S = 1200
SHARED_DATA = Path(os.environ.get("SLABYARD_DATA") or ROOT.parent / "shared" / "data")


class Suite:
    def __init__(self, word, name, build, limit_s, kind, what):
        self.name, self.build, self.limit_s = name, build, float(limit_s)
        self.kind, self.what, self.long = kind, what, word == "long"
        self.lines = []  # to print above its result

    def is_wide(self):
        """Does it run several things at a time by itself?"""
        return self.kind == "meson" or any("{jobs}" in word for word in self.what)

    def lane(self):
        """Among what is it: what has no deadlines, what waits most of its time, or the rest?"""
        return {"work": "work", "each": "waits"}.get(self.kind, "tests")


def read_suites(path):
    builds, suites = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "build" and len(words) >= 2:
            builds[words[1]] = words[2:]
        elif words[0] in ("suite", "long") and len(words) >= 6 and words[4] in KINDS:
            if words[2] != "-" and words[2] not in builds:
                sys.exit(f"{path}:{number}: no build named {words[2]}")
            suites.append(Suite(*words[:5], words[5:]))
        else:
            sys.exit(f"{path}:{number}: neither a build nor a suite: {line}")
    return builds, suites


def allowed_reasons(hacking):
    """The skip reasons under "Allowed skips" in HACKING.md, one in backquotes a line."""
    text = hacking.read_text() if hacking.exists() else ""
    section = re.search(r"^##+ Allowed skips\n(.*?)(?=^##+ |\Z)", text, re.M | re.S)
    return re.findall(r"^- `([^`]+)`", section.group(1), re.M) if section else []


def skip_allowed(reason, allowed):
    if reason.startswith("no shared data"):
        return not SHARED_DATA.is_dir()
    return any(reason.startswith(known) for known in allowed)


def fixed_addresses():
    """Sanitizers of older compilers cannot work under a wide address randomisation."""
    try_it = ["setarch", "-R", "true"]
    if shutil.which("setarch") and subprocess.run(try_it, capture_output=True).returncode == 0:
        return ["setarch", "-R"]
    return []


class Runner:
    def __init__(self, options, builds):
        self.options, self.builds = options, builds
        self.built = {}
        self.slower = options.lanes + 2 * (options.lanes > 1)  # than alone: for limits
        self.allowed = allowed_reasons(ROOT / "HACKING.md")
        self.fixed = fixed_addresses()

    def environment(self, build=None):
        env = dict(os.environ)
        env.pop("MAKEFLAGS", None)
        env.update(
            SLABYARD_SOURCE=str(ROOT),
            SLABYARD_DATA=str(SHARED_DATA),
            NINJA=self.options.ninja,
            MESON=self.options.meson,
            SLABYARD_SEEDS=str(self.seeds()),
        )
        if build:
            env["SLABYARD_BUILD"] = str(OUT / build)
            env["SLABYARD_SANITIZER"] = build if build in ("asan", "tsan") else ""
        env.setdefault(
            "ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1:detect_stack_use_after_return=1"
        )
        env.setdefault("UBSAN_OPTIONS", "halt_on_error=1:abort_on_error=1:print_stacktrace=1")
        tsan = "halt_on_error=1:abort_on_error=1:second_deadlock_stack=1"
        env.setdefault("TSAN_OPTIONS", f"{tsan}:suppressions={ROOT}/scripts/tsan.supp")
        return env

    def seeds(self):
        return self.options.seeds or (10000 if self.options.long else 1000)

    def build(self, name):
        """Configures and compiles one build, once a run; a warning is a failure."""
        if name not in self.built:
            log = LOGS / f"build-{name}.log"
            log.unlink(missing_ok=True)
            self.built[name] = self.compile(name, log)
        return self.built[name]

    def compile(self, name, log):
        words = self.builds[name]
        variables = dict(w.split("=", 1) for w in words if re.match(r"[A-Z]+=", w))
        options = [w for w in words if not re.match(r"[A-Z]+=", w)]
        directory, stamp = OUT / name, OUT / name / "configured-as"
        targets = variables.pop("TARGETS", "all").split(",")
        env = self.environment(name) | variables
        limit_s = BUILD_LIMIT_S * self.slower
        if not stamp.exists() or stamp.read_text() != " ".join(words):
            shutil.rmtree(directory, ignore_errors=True)
            setup = [self.options.meson, "setup", str(directory), *options]
            status, output = execute(setup, log, limit_s, env)
            if status != 0:
                return Count(failed=1, note="meson setup failed")
            stamp.write_text(" ".join(words))
        ninja = [self.options.ninja, "-C", str(directory), "-k", "0", *targets]
        status, output = execute(ninja, log, limit_s, env)
        if status != 0:
            return Count(failed=1, note="out of time" if status is None else "does not build")
        if re.search(r"\bwarning:", output):
            return Count(failed=1, note="warnings")
        return Count(passed=1)

    def run(self, suite):
        log = LOGS / f"{suite.name}.log"
        log.unlink(missing_ok=True)
        if suite.build != "-" and self.build(suite.build).failed:
            if suite.kind == "meson" or suite.kind == "each":
                return Count(failed=1, note=f"not run: build {suite.build} is broken")
            if any("{build}" in word for word in suite.what):
                return Count(failed=1, note=f"not run: build {suite.build} is broken")
        return KINDS[suite.kind](self, suite, log)

    def run_command(self, suite, log):
        places = {"build": OUT / suite.build, "seeds": self.seeds(), "jobs": os.cpu_count() or 1}
        places["runs"] = 100 * self.seeds()  # of each fuzzer

        def fill(match):
            name, share = match.group(1), match.group(2)
            return str(places[name] // int(share) if share else places[name])

        place = re.compile(r"\{(build|seeds|runs|jobs)(?:/(\d+))?\}")
        words = [place.sub(fill, word) for word in suite.what]
        limit_s = suite.limit_s
        if any("{seeds" in word or "{runs" in word for word in suite.what):
            limit_s *= max(1, self.seeds() / 1000)
        return self.one(suite, words, log, limit_s)

    def one(self, suite, command, log, limit_s=None):
        prefix = self.fixed if suite.build in ("asan", "tsan") else []
        limit_s = (limit_s or suite.limit_s) * self.slower
        status, output = execute(prefix + command, log, limit_s, self.environment(suite.build))
        name = Path(command[-1]).name if suite.kind == "each" else suite.name
        count = count_output(output, status, name)
        if count.failed:
            count.shown = [f"of {name}:", *excerpt(output)]
        return count

    def run_each(self, suite, log):
        found = [f for pattern in suite.what for f in sorted(glob.glob(pattern, root_dir=ROOT))]
        files = list(dict.fromkeys(found))  # in the order of the patterns
        if not files:
            return Count(failed=1, note="no file is named " + " or ".join(suite.what))
        total, cpu_s = Count(), 0
        with ThreadPoolExecutor(min(2, self.options.lanes)) as pool:
            for name, done in zip(files, pool.map(lambda f: self.run_file(suite, f), files)):
                count, took_s, file_cpu_s, part = done
                suite.lines.append(
                    f"         {Path(name).name:<34} {count.passed:5} passed, "
                    f"{count.failed} failed {took_s:6.1f} s"
                )
                total.add(count)
                cpu_s += file_cpu_s
                with open(log, "ab") as whole:
                    whole.write(part.read_bytes())
                part.unlink()
        this_lane.cpu_s += cpu_s
        return total

    def run_file(self, suite, name):
        """One file of a suite of kind each: (count, seconds, processor seconds, its log)."""
        started, this_lane.cpu_s = time.monotonic(), 0
        part = LOGS / f"{suite.name}.{Path(name).name}.log"
        part.unlink(missing_ok=True)
        shell = "python3" if name.endswith(".py") else "bash"
        count = self.one(suite, [shell, name], part)
        return count, time.monotonic() - started, this_lane.cpu_s, part

    def run_meson(self, suite, log):
        directory = OUT / suite.build
        result = directory / "meson-logs" / f"{suite.name}.json"
        result.unlink(missing_ok=True)
        prefix = self.fixed if suite.build in ("asan", "tsan") else []
        command = prefix + [
            self.options.meson,
            "test",
            "-C",
            str(directory),
            "--no-rebuild",
            "--print-errorlogs",
            "--logbase",
            suite.name,
            "--timeout-multiplier",
            str(self.slower),
        ]
        for name in suite.what:
            command += ["--suite", name]
        limit_s = suite.limit_s * self.slower
        status, output = execute(command, log, limit_s, self.environment(suite.build))
        total = Count()
        lines = result.read_text(errors="replace").splitlines() if result.exists() else []
        for line in lines:
            test = json.loads(line)
            text = (test.get("stdout") or "") + (test.get("stderr") or "")
            code = test.get("returncode", 1)
            if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") and code in (0, 77):
                code = 1
            total.add(
                count_output(text, None if test["result"] == "TIMEOUT" else code, test["name"])
            )
        if not lines:
            total.add(Count(failed=1, note="no test of that suite ran"))
        elif status != 0 and total.failed == 0:
            total.add(Count(failed=1, note=f"meson test ended with status {status}"))
        return total

    def settle_skips(self, count):
        """Prints each skip; those with no listed reason become failures."""
        for where, reason in count.skips:
            allowed = skip_allowed(reason, self.allowed)
            print(
                f"skip     {where}: {reason}"
                + ("" if allowed else " (not an allowed reason: failed)")
            )
            if not allowed:
                count.failed += 1


KINDS = {
    "run": Runner.run_command,
    "work": Runner.run_command,
    "each": Runner.run_each,
    "meson": Runner.run_meson,
}


def excerpt(text):
    """What to show of a failing program's output: its end, of unittest what failed."""
    lines = text.splitlines()
    faults = [number for number, line in enumerate(lines) if line == "=" * 70]
    return lines[faults[0] :][: 2 * TAIL_LINES] if faults else lines[-TAIL_LINES:]


def recap(broken):
    """Says at the very end what failed: the middle of a long output is often cut away."""
    for name, log in broken:
        text = log.read_text(errors="replace") if log.exists() else ""
        faults = [line for line in text.splitlines() if FAULT.search(line)]
        print(f"FAILED   {name}")
        for line in faults[:RECAP_LINES]:
            print("  | " + line[:300])


def report(name, count, seconds, cpu_s, log):
    word = "FAILED" if count.failed else "ok"
    counts = f"{count.passed:5} passed, {count.failed} failed {seconds:7.1f} s {cpu_s:7.1f} s cpu"
    note = f" ({count.note})" if count.note else ""
    print(
        f"{word:<8} {name:<18} {counts}{note}",
        flush=True,
    )
    if count.failed and log.exists():
        text = log.read_text(errors="replace")
        faults = [line for line in text.splitlines() if COMPILE_FAULT.search(line)]
        if name.startswith("build-") and faults:
            count.shown = faults[:TAIL_LINES]
        print(f"  out of {log.relative_to(ROOT)}:")
        for line in count.shown or excerpt(text):
            print("  | " + line[:300])
        sys.stdout.flush()


def choose(suites, builds, names, long):
    """The suites asked for, by name or by the first part of it; no name: all, but for the long
    ones, which then need --long, and builds that only those need."""
    if not names:
        chosen = [s for s in suites if long or not s.long]
        idle = {s.build for s in suites} - {s.build for s in chosen}
        return chosen, [name for name in builds if name not in idle]
    chosen, wanted = [], []
    for name in names:
        found = [s for s in suites if s.name == name] or [
            s for s in suites if s.name.startswith(name + "-")
        ]
        if name.removeprefix("build-") in builds and name.startswith("build-"):
            wanted.append(name.removeprefix("build-"))
        elif not found:
            sys.exit(f"scripts/check: no suite named {name}; scripts/check --list names them all")
        chosen += [s for s in found if s not in chosen]
    wanted += [s.build for s in chosen if s.build != "-"]
    return chosen, list(dict.fromkeys(wanted))


class Job:
    """A build or a suite, to be run when what it needs is there and nothing is in its way."""

    def __init__(self, name, run, wide, lane, needs, lines):
        self.name, self.run, self.wide, self.lane = name, run, wide, lane
        self.needs, self.lines = needs, lines


class Lanes:
    """Runs jobs in their order, as many at a time as there are lanes, one wide one at most; beside
    them, if there is more than one lane, one that waits, and as many that are work, wide or
    not."""

    def __init__(self, jobs, lanes, runner):
        self.waiting, self.now, self.done = list(jobs), [], {"-"}
        self.changed = threading.Condition()
        self.lanes, self.runner = lanes, runner
        self.total, self.broken, self.fault = Count(), [], None

    def may_start(self, job):
        beside = [other for other in self.now if other.lane == job.lane or self.lanes == 1]
        room = 1 if job.lane == "waits" else self.lanes
        return (
            job.needs in self.done
            and len(beside) < room
            and (self.gives_way(job) or not any(job.wide and other.wide for other in beside))
        )

    def gives_way(self, job):
        """Does it take what processors the others leave?"""
        return job.lane == "work" and self.lanes > 1

    def next(self):
        """The next job; None: there is none any more."""
        with self.changed:
            while self.waiting and not self.fault:
                for job in self.waiting:
                    if self.may_start(job):
                        self.waiting.remove(job)
                        self.now.append(job)
                        return job
                self.changed.wait()
        return None

    def end(self, job, count, seconds, cpu_s):
        with self.changed:
            for line in job.lines:
                print(line)
            self.runner.settle_skips(count)
            report(job.name, count, seconds, cpu_s, LOGS / f"{job.name}.log")
            self.total.add(count)
            if count.failed:
                self.broken.append((job.name, LOGS / f"{job.name}.log"))
            self.now.remove(job)
            self.done.add(job.name)
            self.changed.notify_all()

    def lane(self):
        try:
            while job := self.next():
                started, this_lane.cpu_s = time.monotonic(), 0
                this_lane.gives_way = self.gives_way(job)
                count = job.run()
                self.end(job, count, time.monotonic() - started, this_lane.cpu_s)
        except BaseException as fault:
            with self.changed:
                self.fault = self.fault or fault
                self.changed.notify_all()

    def run(self):
        most = 2 * self.lanes + 1
        threads = [threading.Thread(target=self.lane, daemon=True) for _ in range(most)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            end_all()
            raise
        if self.fault:
            raise self.fault


def main():
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help="suites to run; all if none is named")
    parser.add_argument("--list", action="store_true", help="list the suites and stop")
    parser.add_argument(
        "--long", action="store_true", help="ten times the seeds and executions; long suites, too"
    )
    parser.add_argument("--seeds", type=int, help="that many simulator seeds")
    parser.add_argument(
        "--lanes", type=int, choices=range(1, 9), default=min(2, os.cpu_count() or 1),
        help="suites at a time, beside several one that mostly waits and what has no deadlines; "
        "left out: as many as there are processors, two at most",
    )  # fmt: skip
    parser.add_argument("--meson", default="meson", help=argparse.SUPPRESS)
    parser.add_argument("--ninja", default="ninja", help=argparse.SUPPRESS)
    options = parser.parse_args()
    builds, suites = read_suites(ROOT / "scripts" / "suites")
    if options.list:
        for name, words in builds.items():
            print(f"build-{name:<13} {shlex.join(words)}")
        for suite in suites:
            build = ("long:" if suite.long else "") + suite.build
            print(f"{suite.name:<19} {build:<13} {suite.kind:<6} {shlex.join(suite.what)}")
        return 0
    chosen, wanted = choose(suites, builds, options.suites, options.long)
    LOGS.mkdir(parents=True, exist_ok=True)
    runner = Runner(options, builds)
    jobs = []
    for name in wanted:
        build = f"build-{name}"
        compiled = lambda name=name: runner.build(name)  # noqa: E731
        jobs.append(Job(build, compiled, True, "work", "-", []))
    for suite in chosen:
        needs = "-" if suite.build == "-" else f"build-{suite.build}"
        jobs.append(
            Job(
                suite.name,
                lambda suite=suite: runner.run(suite),
                suite.is_wide(),
                suite.lane(),
                needs,
                suite.lines,
            )
        )
    lanes = Lanes(jobs, options.lanes, runner)
    started, before = time.time(), folders()
    try:
        lanes.run()
    finally:
        remove_slabs(started)
        if is_alone(used := names_used()):
            remove_folders(before, used)
    total = lanes.total
    recap(lanes.broken)
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
