#!/usr/bin/env python3
"""Checks what STYLE.md says that a program can check.

usage: lint.py [--root DIR] [--build DIR] [RULE...]
Prints `file:line: message` for each fault, one line a rule, and `N passed, M failed` over the
rules; exits 1 on any fault. --build names the build whose libraries it looks into; without it
the rule on their symbols is left out, unless it is asked for.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import build_checks
import c_checks
import text_checks

CHECKS = text_checks.CHECKS + c_checks.CHECKS + build_checks.CHECKS
NOT_CODE = (".md", ".json", ".jsonl", ".txt", ".pc", ".in")


class Tree:
    """The files of one tree, read once. Paths are relative to its root, with slashes."""

    def __init__(self, root, build):
        self.root, self.build = Path(root).resolve(), Path(build).resolve() if build else None
        self.files = sorted(f for f in self.listed() if (self.root / f).is_file())
        self.texts_read = {}

    def listed(self):
        """What git tracks or would; without git, all but build directories."""
        git = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard"],
            capture_output=True,
            text=True,
        )
        if git.returncode == 0 and git.stdout and (self.root / ".git").exists():
            return git.stdout.splitlines()
        found = []
        for folder, names, files in os.walk(self.root):
            names[:] = [
                n
                for n in names
                if n not in (".git", "__pycache__") and n != "build" and not n.startswith("build-")
            ]
            found += [(Path(folder) / f).relative_to(self.root).as_posix() for f in files]
        return found

    def text(self, path):
        if path not in self.texts_read:
            try:
                self.texts_read[path] = (self.root / path).read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                self.texts_read[path] = ""
        return self.texts_read[path]

    def lines(self, path):
        return (
            self.text(path).split("\n")[:-1]
            if self.text(path).endswith("\n")
            else self.text(path).split("\n")
        )

    def texts(self):
        """All but what is kept byte by byte: licences, and inputs of fuzzers."""
        return [f for f in self.files if not f.startswith(("LICENSE", "test/fuzz/corpus/"))]

    def code(self):
        return [f for f in self.texts() if not f.endswith(NOT_CODE)]

    def named(self, *ends):
        return [f for f in self.files if f.endswith(ends)]

    def c_files(self):
        return self.named(".c", ".h")

    def headers(self):
        return self.named(".h")

    def folder(self, path):
        """`core` for src/core/x.c, `include` for a public header, otherwise the top folder."""
        parts = path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]

    def header_owners(self):
        owners = {}
        for path in self.headers():
            folder = self.folder(path)
            owners[path.rpartition("/")[2]] = folder
            if folder == "include":
                owners[path.removeprefix("include/")] = folder
        return owners

    def has_folder(self, folder):
        return any(f.startswith(folder + "/") and f.endswith(".c") for f in self.files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=Path(__file__).resolve().parents[2])
    parser.add_argument("--build", help="a build directory, for the rules on libraries")
    parser.add_argument("rules", nargs="*", help="only these rules")
    options = parser.parse_args()
    names = [check.__name__ for check in CHECKS]
    for name in options.rules:
        if name not in names:
            parser.error(f"no rule {name}; there are {', '.join(names)}")
    tree = Tree(options.root, options.build)
    chosen = [check for check in CHECKS if check.__name__ in (options.rules or names)]
    if not options.rules and not options.build:
        chosen.remove(build_checks.library_symbols)
    failed = 0
    for check in chosen:
        faults = list(check(tree))
        for path, line, message in faults:
            print(f"{path}:{line}: {message}")
        failed += bool(faults)
        print(
            f"{'FAILED' if faults else 'ok':<7} {check.__name__}"
            + (f" ({len(faults)} faults)" if faults else ""),
            flush=True,
        )
    if not tree.c_files():
        print(f"{options.root}: no C file found there: wrong folder?")
        failed = len(chosen)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
