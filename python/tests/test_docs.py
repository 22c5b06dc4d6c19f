"""The guide's examples run, and print what stands below them; the API page is up to date."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import PATIENCE_S

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
# A program, what it needs, and the output that may follow it.
EXAMPLE = re.compile(
    r"(?:^<!-- needs: ([\w, ]+) -->\n)?^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?",
    re.M | re.S,
)


def examples():
    """(line, needs, code, output) of each of docs/guide.md."""
    text = (DOCS / "guide.md").read_text()
    for found in EXAMPLE.finditer(text):
        needs = [name.strip() for name in (found[1] or "").split(",") if name.strip()]
        yield text.count("\n", 0, found.start()) + 1, needs, found[2], found[3]


class Guide(unittest.TestCase):
    def run_example(self, code, output):
        with tempfile.TemporaryDirectory() as scratch:
            program = pathlib.Path(scratch) / "example.py"
            program.write_text(code)
            done = subprocess.run(
                [sys.executable, "-W", "ignore", program],
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE_S,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        if output is not None:
            self.assertEqual(done.stdout, output)

    def run_all(self, wanted):
        count = 0
        for line, needs, code, output in examples():
            if wanted(needs):
                count += 1
                with self.subTest(f"guide.md:{line}"):
                    self.run_example(code, output)
        self.assertGreater(count, 0)

    def test_examples(self):
        self.run_all(lambda needs: not needs)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
    def test_examples_with_torch(self):
        self.run_all(lambda needs: needs == ["torch"])

    def test_nothing_is_left_out(self):
        text = (DOCS / "guide.md").read_text()
        self.assertEqual(len(list(examples())), text.count("```python\n"))


class Links(unittest.TestCase):
    def test_files_and_headings(self):
        for page in DOCS.glob("*.md"):
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                with self.subTest(f"{page.name}: {target}"):
                    name, _, heading = target.partition("#")
                    there = (page.parent / name) if name else page
                    if name.startswith("../") and not (DOCS.parent / "meson.build").exists():
                        continue  # a wheel is tried away from the tree
                    self.assertTrue(there.exists())
                    if heading:
                        titles = re.findall(r"^#+ (.*)$", there.read_text(), re.M)
                        self.assertIn(heading, [t.lower().replace(" ", "-") for t in titles])


class Api(unittest.TestCase):
    def test_up_to_date(self):
        with tempfile.TemporaryDirectory() as scratch:
            made = pathlib.Path(scratch) / "api.md"
            subprocess.run([sys.executable, DOCS / "make_api.py", made], check=True, cwd=scratch)
            self.assertEqual(
                made.read_text(),
                (DOCS / "api.md").read_text(),
                "docs/api.md is old: scripts/python run docs/make_api.py",
            )


if __name__ == "__main__":
    unittest.main()
