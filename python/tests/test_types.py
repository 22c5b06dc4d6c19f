"""The stubs, as a program with types uses them: checked by mypy against the installed package."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


@unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy here")
class Types(unittest.TestCase):
    def run_module(self, *arguments):
        # Elsewhere than in the sources: what is installed is looked at.
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [sys.executable, "-m", *map(str, arguments)],
                cwd=scratch,
                capture_output=True,
                text=True,
            )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_stubs_say_what_the_package_has(self):
        self.run_module(
            "mypy.stubtest",
            "slabyard",
            "--allowlist",
            HERE / "stubtest_allowed",
            "--ignore-unused-allowlist",
        )

    def test_strict(self):
        with tempfile.TemporaryDirectory() as cache:  # numpy's stubs are read once
            strict = ("mypy", "--strict", "--cache-dir", cache)
            self.run_module(*strict, "--package", "slabyard")
            self.run_module(*strict, HERE / "typed_use.py")


if __name__ == "__main__":
    unittest.main()
