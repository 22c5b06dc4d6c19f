"""Checks of C sources as text: bans, layers, names, headers, comments."""

import re
from fnmatch import fnmatch

import ctext
import rules


def matches(path, patterns):
    return any(fnmatch(path, pattern) for pattern in patterns)


def banned_calls(tree):
    for path in tree.c_files():
        for line, name, _ in ctext.calls(tree.text(path), rules.BANNED_CALLS):
            yield path, line, f"{name} is not used: {rules.BANNED_CALLS[name]}"


def skips(tree):
    """cmocka says no reason of a skip, and one that is not known counts as failed."""
    for path in tree.c_files():
        before = ""
        for number, line in enumerate(tree.lines(path), 1):
            if line.strip().startswith("skip();") and 'print_message("skip: ' not in before:
                yield path, number, 'skip() stands after a line print_message("skip: REASON\\n")'
            before = line


def vla_pragma(tree):
    """The compiler finds the arrays themselves (-Wvla); here that nobody silences it."""
    if "-Wvla" not in tree.text("meson.build"):
        yield "meson.build", 1, "-Wvla is gone: nothing finds variable-length arrays"
    for path in tree.c_files():
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(r'pragma\s+(GCC|clang)\s+diagnostic\s+ignored\s+"-Wvla', line):
                yield path, number, "variable-length arrays are not used"


def typedef_names(tree):
    for path in tree.c_files():
        text = tree.text(path)
        code = ctext.code_only(text)
        for match in re.finditer(r"\btypedef\b", code):
            depth, end = 0, len(code)
            for offset in range(match.end(), len(code)):
                depth += (code[offset] == "{") - (code[offset] == "}")
                if code[offset] == ";" and depth == 0:
                    end = offset
                    break
            body = code[match.end() : end]
            name = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", body) or re.search(
                r"(\w+)\s*(\[[^]]*\])?\s*$", body
            )
            if name and name.group(1).endswith("_t"):
                yield path, ctext.line_of(
                    text, match.start()
                ), f"{name.group(1)}: names ending in _t are the system's"
        for match in re.finditer(r"\b(struct|union|enum)\s+(sy_\w+_t)\b", code):
            yield path, ctext.line_of(
                text, match.start()
            ), f"{match.group(2)}: names ending in _t are the system's"


def layers(tree):
    owner = tree.header_owners()
    for path in tree.c_files():
        folder = tree.folder(path)
        for line, name, quoted in ctext.includes(tree.text(path)):
            if "/" in name and quoted:
                yield path, line, f'"{name}": named without its folder, or as <slabyard/...>'
            elif not quoted and name in owner and not name.startswith("slabyard/"):
                yield path, line, f'<{name}> is ours: "{name}"'
            elif quoted and name not in owner:
                yield path, line, f'"{name}" is no header of this tree'
            elif quoted and owner[name] == "include":
                yield path, line, f'"{name}" is public: <slabyard/{name}>'
            elif quoted and folder in rules.FOLDERS:
                if owner[name] not in [folder, *rules.FOLDERS[folder]]:
                    yield path, line, f'{folder} may not include "{name}" of {owner[name]}'
            elif quoted and folder == "include":
                yield path, line, f'a public header may not include "{name}"'


def sans_io(tree):
    for path in tree.c_files():
        if not matches(path, rules.SANS_IO):
            continue
        strict = matches(path, rules.NO_LIBC)
        text = tree.text(path)
        for line, name, quoted in ctext.includes(text):
            if quoted or name.startswith("slabyard/"):
                continue
            if rules.SANS_IO_BANNED_HEADERS.search(name) or (
                strict and name not in rules.NO_LIBC_HEADERS
            ):
                yield path, line, f"<{name}> has no place in a sans-I/O file"
        for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", ctext.code_only(text)):
            name = match.group(1)
            if (
                name in rules.IO_CALLS
                or rules.IO_CALL_PREFIXES.match(name)
                or (strict and name in rules.ALLOCATION)
            ):
                yield path, ctext.line_of(
                    text, match.start()
                ), f"{name} has no place in a sans-I/O file"
    if tree.has_folder("src/client"):
        for pattern in rules.SANS_IO:
            if not any(fnmatch(path, pattern) for path in tree.files):
                yield "test/lint/rules.py", 1, f"SANS_IO names {pattern}, which is no file"


def header_names(tree):
    seen = {}
    for path in tree.headers():
        name = path.rpartition("/")[2]
        if name in seen:
            yield path, 1, f"{seen[name]} has that name too: a header's name is unique"
        seen[name] = path
        if name[:-2] in rules.SYSTEM_HEADERS:
            yield path, 1, f"{name} is a name of the system's"


def header_shape(tree):
    for path in tree.headers():
        text = tree.text(path)
        if not text.lstrip().startswith(("/*", "//")):
            yield path, 1, "a header opens with a comment that says what it is for"
        guard = re.search(r"^#ifndef (\w+)\n#define (\w+)\s*$", ctext.without_comments(text), re.M)
        if not guard or guard.group(1) != guard.group(2):
            yield path, 1, "no include guard"


def public_comments(tree):
    for path in tree.headers():
        if tree.folder(path) != "include":
            continue
        lines = tree.lines(path)
        for number, line in enumerate(lines):
            if not re.match(r"(SY_API|static inline)\b", line) or re.search(r"/[*/]", line):
                continue
            above = number - 1
            while (
                above >= 0
                and lines[above].strip()
                and "*/" not in lines[above]
                and "//" not in lines[above]
            ):
                above -= 1
            if above < 0 or not lines[above].strip():
                yield path, number + 1, "a public function without a comment"


def formats(tree):
    """sy_fail and its kin have a formatter of their own that knows few conversions."""
    for path in tree.c_files():
        for line, name, args in ctext.calls(tree.text(path), rules.FORMAT_CALLS):
            place = rules.FORMAT_CALLS[name]
            if len(args) <= place or '"' not in args[place]:
                continue
            text = re.sub(
                r"\b(PRI[a-z]+\d+)\b",
                lambda m: '"' + rules.FORMAT_MACROS.get(m.group(1), m.group(1)) + '"',
                args[place],
            )
            text = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text))
            for match in rules.FORMAT_CONVERSION.finditer(text):
                verb = (match.group(4) or "") + match.group(5)
                if verb not in rules.FORMAT_KNOWN:
                    yield path, line, f"{name} does not know {match.group()}, see fail.h"


def mutants(tree):
    """Each planted fault of mutants.h stands in its folder, and no other does."""
    path = "src/base/mutants.h"
    if path not in tree.files:
        return
    rows = re.findall(r"X\((\d+), (\w+), (\d+), (\w+)\)", tree.text(path))
    planted = {}
    for one in tree.c_files():
        for match in re.finditer(r"\bSY_MUTANT\((\d+)\)", ctext.code_only(tree.text(one))):
            planted.setdefault(match.group(1), []).append(one)
    for number, name, invariant, folder in rows:
        places = planted.pop(number, [])
        if not any(tree.folder(place) == folder for place in places):
            yield path, 1, f"mutant {number}, {name}, stands nowhere in src/{folder}"
    for number, places in planted.items():
        yield places[0], 1, f"mutant {number} is not in mutants.h"
    for invariant in {row[2] for row in rows}:
        count = sum(row[2] == invariant for row in rows)
        if count < rules.MUTANTS_AN_INVARIANT:
            yield path, 1, f"invariant I{invariant} has {count} mutants"


def failpoints(tree):
    """Each row of failpoints.h stands in its folder as often as it says, and nothing else does;
    each kind of effect has a row. Ops and notices have theirs by the lists of proto.h."""
    path = "src/base/failpoints.h"
    if path not in tree.files:
        return
    text = tree.text(path)
    rows = dict(re.findall(r'X\((\w+), "\w+", "[^"]+"(?:, (\d+))?\)', text))
    used = {}
    for one in tree.c_files():
        if one == path:
            continue
        for match in re.finditer(
            r"\bSY_FAILPOINT(?:_OP|_NOTICES)?\((\w+)", ctext.code_only(tree.text(one))
        ):
            used.setdefault(match.group(1), []).append(one)
    for name, wanted in rows.items():
        folder = rules.FAILPOINT_FOLDERS[name.partition("_")[0]]
        places = [one for one in used.pop(name, []) if tree.folder(one) == folder]
        if len(places) != int(wanted or 1):
            yield path, 1, f"{name}: {len(places)} places in src/{folder}, not {wanted or 1}"
    for name, places in used.items():
        yield places[0], 1, f"{name} is not in failpoints.h, or stands outside its folder, too"
    for owner, (prefix, ours) in rules.FAILPOINT_EFFECTS.items():
        if owner not in tree.files:
            continue
        enum = rules.FAILPOINT_EFFECT_ENUM.search(ctext.without_comments(tree.text(owner)))
        for kind in re.findall(rf"\b{prefix}(\w+)", enum.group(1)):
            if ours + kind not in {*rows, *rules.FAILPOINT_NONE}:
                yield owner, 1, f"{prefix}{kind} has no failpoint {ours}{kind}"


CHECKS = [
    failpoints,
    banned_calls,
    skips,
    vla_pragma,
    typedef_names,
    layers,
    sans_io,
    header_names,
    header_shape,
    public_comments,
    formats,
    mutants,
]
