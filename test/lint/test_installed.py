"""What `meson install` leaves: a user outside the tree can build the README's code against it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["SLABYARD_BUILD"])
MESON = os.environ.get("MESON") or "meson"


def run(*command, **options):
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        **options,
    )
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def c_blocks(path):
    """The ```c blocks of a text; each is a whole file."""
    return re.findall(r"^```c\n(.*?)^```", path.read_text(), re.M | re.S)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.top)
        run(MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.top)
        cls.pc = cls.one("slabyard.pc")
        cls.library = cls.one("libslabyard.so")
        cls.env = os.environ | {
            "PKG_CONFIG_SYSROOT_DIR": str(cls.top),
            "PKG_CONFIG_PATH": str(cls.pc.parent),
            "LD_LIBRARY_PATH": str(cls.library.parent),
        }

    @classmethod
    def one(cls, name):
        found = [path for path in cls.top.rglob(name) if path.is_file()]
        if len(found) != 1:
            raise AssertionError(f"meson install left {len(found)} files named {name}")
        return found[0]

    def flags(self):
        return run("pkg-config", "--cflags", "--libs", "slabyard", env=self.env).split()

    def compile(self, compiler, source, program):
        """The flags of pkg-config alone must do, outside the tree and with all warnings."""
        kind = ["-x", "c++", "-std=c++17"] if compiler == "g++" else ["-x", "c", "-std=c11"]
        strict = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]
        name = self.top / "example.c"
        name.write_text(source)
        run(
            *(compiler, *kind, *strict, name, "-x", "none", "-o", program, *self.flags()),
            cwd=self.top,
            env=self.env,
        )

    def test_headers_are_all_there(self):
        for header in (SOURCE / "include/slabyard").glob("*.h"):
            self.assertEqual(self.one(header.name).read_text(), header.read_text())

    def test_command_runs(self):
        self.assertIn("demo", run(self.one("slabyard"), "--help", env=self.env))

    def test_soname(self):
        said = run("readelf", "-d", self.library)
        self.assertRegex(said, r"SONAME\).*\[libslabyard\.so\.\d+\]")
        soname = re.search(r"SONAME\).*\[(.*)\]", said).group(1)
        self.assertTrue((self.library.parent / soname).exists(), soname)

    def test_exactly_the_public_functions_are_exported(self):
        said = run("nm", "-D", "--defined-only", "-P", self.library)
        exported = {line.split()[0] for line in said.splitlines()}
        declared = set()
        for header in (SOURCE / "include/slabyard").glob("*.h"):
            declared |= set(re.findall(r"^SY_API[^;]*?\b(sy_\w+)\s*\(", header.read_text(), re.M))
        self.assertEqual(exported - {"_init", "_fini"}, declared)

    def test_readme_code_compiles_as_c_and_as_cxx(self):
        blocks = c_blocks(SOURCE / "README.md")
        self.assertTrue(blocks, "README.md has no ```c block")
        for block in blocks:
            for compiler in ("gcc", "g++"):
                program = self.top / "example"
                self.compile(compiler, block, program)
                self.assertTrue(program.exists())

    def test_every_public_header_suffices_alone(self):
        for header in sorted((SOURCE / "include/slabyard").glob("*.h")):
            source = f"#include <slabyard/{header.name}>\nint main(void) {{ return 0; }}\n"
            for compiler in ("gcc", "g++"):
                self.compile(compiler, source, self.top / "alone")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
