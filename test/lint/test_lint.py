"""Lint itself: a small clean tree passes, and each planted fault is found in its place."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LINT = Path(__file__).resolve().parent / "lint.py"

PUBLIC = """/* Adding. */
#ifndef SLABYARD_ADD_H
#define SLABYARD_ADD_H

#ifdef __cplusplus
extern "C" {
#endif

#define SY_API __attribute__((visibility("default")))

/* The sum. */
SY_API int sy_add(int a, int b);

#ifdef __cplusplus
}
#endif
#endif
"""


def header(what, guard, text):
    return f"/* {what}. */\n#ifndef SY_{guard}_H\n#define SY_{guard}_H\n\n{text}\n\n#endif\n"


CLEAN = {
    "meson.build": "project('x', 'c')\nadd_project_arguments('-Wvla', language: 'c')\n",
    "include/slabyard/add.h": PUBLIC,
    "src/base/sum.h": header("Sums", "SUM", "int sy_sum(int a, int b);"),
    "src/base/sum.c": '#include "sum.h"\n\nint sy_sum(int a, int b)\n{\n\treturn a + b;\n}\n',
    "src/base/meson.build": "static_library('sy_base', 'sum.c')\n",
    "src/core/grow.h": header(
        "Growth", "GROW", "#include <stdint.h>\n\nstruct sy_grow {\n\tuint64_t grown_bytes;\n};"
    ),
    "src/core/grow.c": '#include "grow.h"\n#include "sum.h"\n\n#include <string.h>\n\n'
    "int sy_grow_by(int n);\n\nint sy_grow_by(int n)\n{\n\treturn sy_sum(n, n);\n}\n",
    "src/core/meson.build": "static_library('sy_core', 'grow.c')\n",
    "src/io/clock.h": header("Time", "CLOCK", "#include <time.h>"),
    "test/unit/test_sum.c": '#include "sum.h"\n\nint main(void)\n{\n\treturn sy_sum(0, 0);\n}\n',
    "test/unit/meson.build": "unit_tests = {\n\t'sum': [base_lib],\n}\n",
    "README.md": "A text whose lines may be long." * 9 + "\n",
}


class Lint(unittest.TestCase):
    def setUp(self):
        self.tree = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.tree)
        for name, text in CLEAN.items():
            self.write(name, text)

    def write(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)

    def append(self, name, text):
        self.write(name, (self.tree / name).read_text() + text)

    def change(self, name, old, new):
        text = (self.tree / name).read_text()
        self.assertIn(old, text)
        self.write(name, text.replace(old, new))

    def lint(self, *words):
        command = [sys.executable, str(LINT), "--root", str(self.tree), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def found(self, rule, place):
        """The rule finds the fault at `file:line:` and fails."""
        status, text = self.lint(rule)
        self.assertEqual(status, 1, text)
        self.assertIn(f"{place}:", text)
        self.assertTrue(text.endswith("0 passed, 1 failed\n"), text)

    def build(self):
        for folder, source in (("base", "sum"), ("core", "grow")):
            out = self.tree / "build" / "src" / folder
            out.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["gcc", "-c", "-Isrc/base", "-o", out / f"{source}.o", f"src/{folder}/{source}.c"],
                cwd=self.tree,
                check=True,
            )
            subprocess.run(["ar", "rcT", f"libsy_{folder}.a", f"{source}.o"], cwd=out, check=True)

    def test_clean_tree_passes(self):
        self.build()
        status, text = self.lint("--build", str(self.tree / "build"))
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"\n[1-9][0-9]* passed, 0 failed\n$")

    def test_empty_folder_fails(self):
        with tempfile.TemporaryDirectory() as empty:
            command = [sys.executable, str(LINT), "--root", empty]
            self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)

    def test_lengths(self):
        self.append("src/base/sum.h", "/* */\n" * 600)
        self.found("file_length", "src/base/sum.h:607")
        self.append("src/base/sum.c", "\t" + "/*" + "x" * 94 + "*/\n")
        self.found("line_length", "src/base/sum.c:7")
        self.append("src/core/grow.c", "\nstatic void f(void)\n{\n" + "\t;\n" * 69 + "}\n")
        self.found("function_length", "src/core/grow.c:14")
        self.write("test/long.py", "def f():\n" + "    pass\n" * 70)
        self.found("function_length", "test/long.py:1")

    def test_function_of_the_longest_kind_passes(self):
        self.append("src/core/grow.c", "\nstatic void f(void)\n{\n" + "\t;\n" * 68 + "}\n")
        self.assertEqual(self.lint("function_length")[0], 0)

    def test_skips(self):
        self.write("test/unit/test_more.c", "void f(void)\n{\n\tskip(); /* why */\n}\n")
        self.found("skips", "test/unit/test_more.c:3")
        self.write(
            "test/unit/test_more.c",
            'void f(void)\n{\n\tprint_message("skip: why\\n");\n\tskip();\n}\n',
        )
        self.assertEqual(self.lint("skips")[0], 0)

    def test_layout(self):
        self.append("src/base/sum.c", "int x; \n")
        self.found("blanks", "src/base/sum.c:7")
        self.write("src/base/sum.c", "int x;")
        self.found("blanks", "src/base/sum.c:1")
        self.write("src/base/sum.c", "static int f(void) {\n\treturn 1;\n}\n")
        self.found("function_brace", "src/base/sum.c:1")

    def test_words(self):
        for rule, word in (
            ("later_words", "TO" + "DO"),
            ("later_words", "FIX" + "ME"),
            ("tree_words", "/wo" + "rk/x"),
            ("tree_words", "/ro" + "ot/x"),
            ("tree_words", "/home" + "/x/y"),
            ("tree_words", "/tmp/sl" + "ab/x"),
            ("tree_words", "iss" + "ue 12"),
            ("tree_words", "py" + "pi.python.org"),
            ("tree_words", "Co-auth" + "ored-by: X"),
        ):
            self.write("README.md", f"one\n{word}\n")
            self.found(rule, "README.md:2")

    def test_unregistered(self):
        self.write("test/unit/test_other.c", "int main(void)\n{\n\treturn 0;\n}\n")
        self.found("tests_registered", "test/unit/test_other.c:1")
        self.write("src/core/dead.c", "int x;\n")
        self.found("sources_built", "src/core/dead.c:1")

    def test_bans(self):
        for call in ("strcpy", "strcat", "sprintf", "strtok", "atoi", "gets", "alloca"):
            self.write(
                "src/io/use.c", f"/* strcpy(a) */\nint f(char *a)\n{{\n\treturn {call}(a);\n}}\n"
            )
            self.found("banned_calls", "src/io/use.c:4")
        self.write("src/io/use.c", '/* strcpy(a) */\nconst char *f = "atoi(x)";\n')
        self.assertEqual(self.lint("banned_calls")[0], 0)
        self.write("src/io/use.c", '#pragma GCC diagnostic ignored "-Wvla"\n')
        self.found("vla_pragma", "src/io/use.c:1")
        self.write("meson.build", "project('x', 'c')\n")
        self.found("vla_pragma", "meson.build:1")

    def test_typedefs(self):
        for text in (
            "typedef int x_t;", "typedef struct x {\n\tint a;\n} x_t;", "typedef int (*x_t)(int);",
            "typedef int x_t[4];", "struct sy_x_t {\n\tint a;\n};",
        ):  # fmt: skip
            self.write("src/io/use.c", text + "\n")
            self.found("typedef_names", "src/io/use.c:1")

    def test_layers(self):
        cases = (
            ("src/base/sum.c", '#include "grow.h"\n'),
            ("src/core/grow.c", '#include "clock.h"\n'),
            ("src/base/sum.c", '#include "base/sum.h"\n'),
            ("src/base/sum.c", "#include <sum.h>\n"),
            ("src/base/sum.c", '#include "add.h"\n'),
            ("src/base/sum.c", '#include "nowhere.h"\n'),
            ("include/slabyard/add.h", '#include "sum.h"\n'),
        )
        for path, line in cases:
            self.write(path, line + CLEAN[path])
            self.found("layers", f"{path}:1")
            self.write(path, CLEAN[path])
        self.assertEqual(self.lint("layers")[0], 0)

    def test_sans_io(self):
        for line in (
            "#include <stdio.h>", "#include <time.h>", "#include <sys/socket.h>",
            "int a = malloc(1);", "int a = clock_gettime(0, 0);", "int a = pthread_create(0);",
            "int a = printf(0);", "int a = open(0, 0);", "int a = socket(0, 0, 0);",
        ):  # fmt: skip
            self.append("src/core/grow.c", line + "\n")
            self.found("sans_io", "src/core/grow.c:12")
            self.write("src/core/grow.c", CLEAN["src/core/grow.c"])
        self.write(
            "src/wire/coder.c", "#include <stdlib.h>\nvoid *f(void) { return malloc(1); }\n"
        )
        self.assertEqual(self.lint("sans_io")[0], 0)

    def test_headers(self):
        self.write("src/io/sum.h", CLEAN["src/base/sum.h"])
        self.found("header_names", "src/io/sum.h:1")
        self.write("src/io/errno.h", CLEAN["src/io/clock.h"])
        self.found("header_names", "src/io/errno.h:1")
        self.write("src/io/clock.h", "#ifndef A\n#define A\n#endif\n")
        self.found("header_shape", "src/io/clock.h:1")
        self.write("src/io/clock.h", "/* Time. */\n#pragma once\n")
        self.found("header_shape", "src/io/clock.h:1")

    def test_header_alone(self):
        self.change("src/core/grow.h", "#include <stdint.h>\n", "")
        self.found("header_alone", "src/core/grow.h:1")
        self.write("src/core/grow.h", CLEAN["src/core/grow.h"])
        self.change("src/base/sum.h", "int sy_sum", '#include "grow.h"\nint sy_sum')
        self.found("header_alone", "src/base/sum.h:1")
        self.write("src/base/sum.h", CLEAN["src/base/sum.h"])
        self.change("include/slabyard/add.h", "int a, int b", "int class, int b")
        self.found("header_alone", "include/slabyard/add.h:1")

    def test_public_comments(self):
        self.change("include/slabyard/add.h", "/* The sum. */\n", "")
        self.found("public_comments", "include/slabyard/add.h:11")

    def test_formats(self):
        def write(text):
            self.write(
                "src/io/use.c", f"int f(int x)\n{{\n\treturn sy_fail(0, 1, 0, {text}, x);\n}}\n"
            )

        for conversion in ("%f", "%08g", "%hd", "%p", "%jd"):
            write(f'"x (%u)"\n" {conversion}"')
            self.found("formats", "src/io/use.c:3")
        write('"%-8s %.*s %" PRIu64 " %08llx%%"')
        self.assertEqual(self.lint("formats")[0], 0)

    def test_mutants(self):
        row = "/* */\n#define SY_MUTANT_LIST(X) X(1, a, 1, core) X(2, b, 1, core)\n"
        self.write("src/base/mutants.h", row)
        self.append("src/core/grow.c", "int a = SY_MUTANT(1), b = SY_MUTANT(2);\n")
        self.assertEqual(self.lint("mutants")[0], 0)
        self.append("src/core/grow.c", "int a = SY_MUTANT(3);\n")
        self.found("mutants", "src/core/grow.c:1")
        self.write("src/core/grow.c", "int b = SY_MUTANT(2);\n")
        self.found("mutants", "src/base/mutants.h:1")
        self.write("src/base/mutants.h", row.replace("X(1, a, 1, core) ", ""))
        self.found("mutants", "src/base/mutants.h:1")

    def test_fault_table(self):
        head = "| kind | seen | lost | test |\n|---|---|---|---|\n"
        row = "| odd sum | nothing | nothing | `test/unit/test_odd.c:test_odd` |\n"
        test = "/* Kind: odd\n * sum. */\nstatic void test_odd(void **state)\n{\n}\n"
        self.write("test/unit/test_odd.c", test)
        self.write("docs/faults.md", head + row)
        self.assertEqual(self.lint("fault_table")[0], 0)
        self.write("docs/faults.md", head + row.replace("test_odd`", "test_even`"))
        self.found("fault_table", "docs/faults.md:3")
        self.write("docs/faults.md", head + row.replace("| nothing | `", "| a row | `"))
        self.found("fault_table", "docs/faults.md:3")
        self.write("docs/faults.md", head + row.replace("odd sum", "even sum"))
        self.found("fault_table", "docs/faults.md:3")
        self.found("fault_table", "test/unit/test_odd.c:1")
        self.write("docs/faults.md", head + "| half a row |\n")
        self.found("fault_table", "docs/faults.md:3")

    def test_failpoints(self):
        rows = 'X(CLIENT_A, "a", "here") X(UNIT_EFFECT_GO, "u", "there") X(UNIT_B, "b", "b", 2)'
        self.write("src/base/failpoints.h", f"/* */\n#define LIST(X) {rows}\n")
        kinds = "enum sy_effect_kind {\n\tSY_EFFECT_GO = 1,\n};\n"
        self.write("src/core/core.h", kinds)
        self.write("src/client/a.c", "SY_FAILPOINT(CLIENT_A);\n")
        self.write("src/unit/b.c", "SY_FAILPOINT(UNIT_EFFECT_GO);\n")
        self.append("src/unit/b.c", "SY_FAILPOINT_OP(UNIT_B, 1); SY_FAILPOINT_OP(UNIT_B, 2);\n")
        self.assertEqual(self.lint("failpoints")[0], 0)
        self.append("src/client/a.c", "SY_FAILPOINT(CLIENT_A);\n")
        self.found("failpoints", "src/base/failpoints.h:1")
        self.write("src/client/a.c", "SY_FAILPOINT(CLIENT_A);\nSY_FAILPOINT(CLIENT_C);\n")
        self.found("failpoints", "src/client/a.c:1")
        self.write("src/client/a.c", "SY_FAILPOINT(CLIENT_A);\n")
        self.write("src/core/core.h", kinds.replace("1,", "1,\n\tSY_EFFECT_STAY,"))
        self.found("failpoints", "src/core/core.h:1")

    def test_symbols(self):
        self.change(
            "src/core/grow.c",
            "\treturn",
            '\textern int puts(const char *);\n\tputs("");\n\treturn',
        )
        self.build()
        status, text = self.lint("library_symbols", "--build", str(self.tree / "build"))
        self.assertEqual(status, 1, text)
        self.assertIn("src/core/grow:1: needs puts", text)
        self.found("library_symbols", "test/lint/lint.py:1")
        (self.tree / "build/src/core/libsy_core.a").unlink()
        status, text = self.lint("library_symbols", "--build", str(self.tree / "build"))
        self.assertEqual(status, 1, text)

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_git_ignored_files_are_not_read(self):
        subprocess.run(["git", "init", "-q", str(self.tree)], check=True)
        self.write(".gitignore", "made/\n")
        self.write("made/x.c", "int x; \n")
        self.assertEqual(self.lint("blanks")[0], 0)
        self.write("new.c", "int x; \n")
        self.found("blanks", "new.c:1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
