#!/usr/bin/env python3
"""Runs unit tests, integration tests and the simulator in a build that counts lines and branches,
and prints what of core, wire and client they reach. Fails where core or wire fall below their
share. Use it through scripts/check: `scripts/check coverage`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Least share of (lines, branches) in percent; the client's is printed alone.
LEAST = {"core": (95.0, 85.0), "wire": (95.0, 85.0), "client": (0.0, 0.0)}
# An assertion's other branch is the end of the program: no test may take it.
ASSERTION = r".*SY_ASSERT.*"


def run(command, **more):
    print("+ " + " ".join(map(str, command)), flush=True)
    return subprocess.run(command, cwd=ROOT, check=False, **more).returncode


def exercise(build, seeds):
    """Runs everything; returns what failed. Counters of earlier runs are dropped first."""
    for old in build.rglob("*.gcda"):
        old.unlink()
    meson = [os.environ.get("MESON", "meson"), "test", "-C", build, "--no-rebuild"]
    meson += ["--timeout-multiplier", "8"]  # counting, and not optimised
    runs = {
        "unit tests": [*meson, "--suite", "unit"],
        "integration tests": [*meson, "--suite", "integration"],
        "simulator": [build / "test/sim/sim", "--seeds", f"1-{seeds}", "--few"],
    }
    return [name for name, command in runs.items() if run(command) != 0]


def measure(build, folder):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        status = run(
            ["gcovr", "--root", ROOT, "--object-directory", build, build]
            + ["--filter", f"{ROOT}/src/{folder}/", "--json-summary", file.name]
            + ["--exclude-lines-by-pattern", ASSERTION, "--exclude-throw-branches"],
            stdout=subprocess.DEVNULL,
        )
        return None if status else json.loads(Path(file.name).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a build with -Db_coverage=true")
    parser.add_argument("--seeds", type=int, default=100, help="seeds of the simulator")
    options = parser.parse_args()
    build = options.build.resolve()
    failed = exercise(build, options.seeds)
    passed = 3 - len(failed)
    for folder, least in LEAST.items():
        summary = measure(build, folder)
        if summary is None:
            failed.append(f"coverage of {folder}")
            continue
        for file in sorted(summary["files"], key=lambda f: f["filename"]):
            print(
                f"  {file['filename']:<40} lines {file['line_percent'] or 0:5.1f} %  "
                f"branches {file['branch_percent'] or 0:5.1f} %"
            )
        for what, share in zip(("line", "branch"), least):
            value = summary[f"{what}_percent"]
            print(f"{folder:<7} {what:<7} {value:5.1f} % (at least {share:.0f})")
            if value < share:
                failed.append(f"{what} coverage of {folder}")
            else:
                passed += 1
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
