"""Checks of files as text: lengths, layout, words."""

import ast
import re

import ctext
import rules


def file_length(tree):
    for path in tree.code():
        lines = tree.lines(path)
        if len(lines) > rules.FILE_LINES:
            yield path, len(lines), f"{len(lines)} lines; at most {rules.FILE_LINES}"


def line_length(tree):
    for path in tree.code():
        if str(path) in rules.WIDE_FILES:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            columns = len(line.expandtabs(rules.TAB_COLUMNS))
            if columns > rules.LINE_COLUMNS:
                yield path, number, f"{columns} columns; at most {rules.LINE_COLUMNS}"


def blanks(tree):
    for path in tree.texts():
        text = tree.text(path)
        for number, line in enumerate(tree.lines(path), 1):
            if line != line.rstrip():
                yield path, number, "blanks at the end of the line"
        if text and not text.endswith("\n"):
            yield path, len(tree.lines(path)), "no newline at the end of the file"
        elif text.endswith("\n\n"):
            yield path, len(tree.lines(path)), "an empty line at the end of the file"


def too_long(name, lines):
    return f"{name} has {lines} lines; at most {rules.FUNCTION_LINES}"


def function_length(tree):
    for path in tree.c_files():
        text = tree.text(path)
        for name, begin, end in ctext.functions(text):
            first, last = ctext.line_of(text, begin), ctext.line_of(text, end)
            if last - first + 1 > rules.FUNCTION_LINES:
                yield path, first, too_long(name, last - first + 1)
    for path in tree.named(".py"):
        for node in ast.walk(ast.parse(tree.text(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > rules.FUNCTION_LINES:
                    yield path, node.lineno, too_long(node.name, lines)


def function_brace(tree):
    for path in tree.c_files():
        text = tree.text(path)
        code = ctext.code_only(text)
        for name, begin, end in ctext.functions(text):
            before = code[code.rfind("\n", 0, begin) + 1 : begin]
            if before.strip() and "\n" in text[begin:end]:
                yield path, ctext.line_of(
                    text, begin
                ), f"the brace of {name} stands on a line of its own"


def later_words(tree):
    for path in tree.texts():
        for number, line in enumerate(tree.lines(path), 1):
            match = rules.LATER_WORDS.search(line)
            if match:
                yield path, number, f"{match.group()}: do it now or file it"


def tree_words(tree):
    for path in tree.texts():
        for number, line in enumerate(tree.lines(path), 1):
            for pattern, what in rules.TREE_WORDS:
                match = pattern.search(line)
                if match:
                    yield path, number, f"{what}: {match.group()}"


def tests_registered(tree):
    for path in tree.files:
        match = re.fullmatch(r"test/unit/test_(\w+)\.c", path)
        if match and not re.search(
            rf"'(test_)?{match.group(1)}(\.c)?'", tree.text("test/unit/meson.build")
        ):
            yield path, 1, "not named in test/unit/meson.build: it never runs"


def sources_built(tree):
    builds = tree.named("meson.build")
    for path in tree.named(".c"):
        folder, _, name = path.rpartition("/")
        above = [b for b in builds if (folder + "/").startswith(b.removesuffix("meson.build"))]
        # By its file name, or by what a loop there makes it of.
        word = re.escape(name[:-2])
        made = re.escape(name[:-2].removeprefix("test_"))
        named = re.compile(rf"['/]{word}\.c'|'{word}'|'{made}'")
        if not any(named.search(tree.text(build)) for build in above):
            yield path, 1, "no meson.build names it: it is never built"


def fault_table(tree):
    """docs/faults.md: each test it names is there, a test says its kind, and rows are lost only
    where a unit dies or is declared dead, or its disk tier cannot give back what it alone had."""
    path = "docs/faults.md"
    if path not in tree.files:
        return
    kinds, told = False, set()
    for number, line in enumerate(tree.lines(path), 1):
        kinds = line.startswith("| kind ") or (kinds and line.startswith("|"))
        row = re.fullmatch(r"\| (.+?) \| (.+?) \| (.+?) \| `([^`:]+):(\w+)` \|", line)
        if row is None:
            if line.startswith("|") and not re.match(r"\| (fault|kind) |\|-", line):
                yield path, number, "not a row of fault, sight, loss and `file:test`"
            continue
        fault, _, lost, file, name = row.groups()
        text = tree.text(file) if file in tree.files else ""
        if not re.search(rf"^(static void|\s+def) {name}\(", text, re.M):
            yield path, number, f"{file} has no test {name}"
        if lost != "nothing" and not re.fullmatch(
            r"the rows of the units? (that (was|were) killed|whose leases? ran out)|"
            r"the rows of the unit that dies of it|what the disk alone had",
            lost,
        ):
            yield path, number, f"lost: {lost}; what lives loses nothing"
        if kinds:
            told.add(fault)
            if f"Kind: {fault}." not in re.sub(r"\s*\n\s*\*? *", " ", text):
                yield path, number, f"{file} does not say `Kind: {fault}.`"
    for file in tree.named(".c", ".py"):
        if not file.startswith("test/lint/"):
            for kind in re.findall(r"Kind: ([^.]+)\.", tree.text(file)):
                if re.sub(r"\s*\n\s*\*? *", " ", kind) not in told:
                    yield file, 1, f"a kind that {path} does not tell: {kind}"


CHECKS = [
    fault_table,
    file_length,
    line_length,
    blanks,
    function_length,
    function_brace,
    later_words,
    tree_words,
    tests_registered,
    sources_built,
]
