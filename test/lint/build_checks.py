"""Checks that need the compiler or what it built: headers alone, symbols of the libraries."""

import os
import re
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

import rules

C_FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
LIBRARIES = ["libzmq", "jansson", "liburing", "cmocka", "msgpack-c", "msgpack", "ucx"]
# Headers that need those of UCX, which a build can do without.
UCX_HEADERS = re.compile(r'#include (?:<ucp/|"(?:ucx_lib|ucx_context)\.h")')


def library_flags():
    """Of the libraries our headers may name; Python's only where its headers are there."""
    flags = [f"-I{sysconfig.get_path('include')}"]
    for name in LIBRARIES:
        done = subprocess.run(["pkg-config", "--cflags", name], capture_output=True, text=True)
        if done.returncode == 0:
            flags += [flag for flag in done.stdout.split() if flag not in flags]
    return flags


def python_headers():
    return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


def ucx_headers():
    done = subprocess.run(["pkg-config", "--exists", "ucx"], check=False)
    return done.returncode == 0


def closure(folder):
    reached, queue = [], [folder]
    while queue:
        one = queue.pop(0)
        if one not in reached:
            reached.append(one)
            queue += rules.FOLDERS[one]
    return reached


def include_folders(tree, path):
    """A folder of src/ sees itself and, as they do, those it may include; tests see everything."""
    folder = tree.folder(path)
    if folder == "include":
        return ["include"]
    if folder in rules.FOLDERS:
        return ["include", *(f"src/{one}" for one in closure(folder))]
    return [
        "include",
        *(f"src/{one}" for one in rules.FOLDERS),
        *sorted(
            {
                f.rpartition("/")[0]
                for f in tree.headers()
                if not f.startswith(("src/", "include/"))
            }
        ),
    ]


def compile_alone(tree, job):
    path, compiler = job
    name = (
        path.removeprefix("include/") if path.startswith("include/") else path.rpartition("/")[2]
    )
    source = f"#include <{name}>\n" if path.startswith("include/") else f'#include "{name}"\n'
    # cmocka.h asks its users for these first.
    if tree.folder(path) not in (*rules.FOLDERS, "include"):
        source = (
            "#include <setjmp.h>\n#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n"
            + source
        )
    folders = [f"-I{tree.root / f}" for f in include_folders(tree, path)]
    done = subprocess.run(
        compiler + folders + ["-"], input=source, capture_output=True, text=True, cwd="/"
    )
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if "error" in line]
    return (
        path,
        1,
        f"does not compile alone with {compiler[0]}: {said[0] if said else done.stderr.strip()}",
    )


def header_alone(tree):
    libraries = library_flags()
    jobs = []
    for path in tree.headers():
        if path.startswith("include/"):
            jobs.append((path, ["gcc", "-x", "c", "-std=c11", "-pedantic-errors", *C_FLAGS]))
            jobs.append((path, ["g++", "-x", "c++", "-std=c++17", "-pedantic-errors", *C_FLAGS]))
        else:
            if path.startswith("python/") and not python_headers():
                print(f"left out: {path} needs the headers of Python")
                continue
            if UCX_HEADERS.search(tree.text(path)) and not ucx_headers():
                print(f"left out: {path} needs the headers of UCX")
                continue
            jobs.append((path, ["gcc", "-x", "c", "-std=gnu17", *C_FLAGS, *libraries]))
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        yield from filter(None, pool.map(lambda job: compile_alone(tree, job), jobs))


def symbols(library):
    """{member: (undefined names, defined names)} of a static library."""
    done = subprocess.run(["nm", "-P", str(library)], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    members, now = {}, None
    for line in done.stdout.splitlines():
        head = re.match(r".*\[(.+)\]:$", line)
        if head:
            now = head.group(1).rpartition("/")[2].removesuffix(".o")
            members[now] = (set(), set())
        elif now and len(line.split()) >= 2:
            name, kind = line.split()[:2]
            members[now][0 if kind in "Uw" else 1].add(name)
    return members


def library_symbols(tree):
    if tree.build is None:
        yield "test/lint/lint.py", 1, "no build to look at: --build DIR"
        return
    known, reach = {}, {
        "base": ["base"],
        "core": ["base", "core"],
        "wire": ["base", "wire"],
        "unit": ["base", "core", "wire", "unit"],
        "directory": ["base", "wire", "directory"],
        "client": ["base", "wire", "client"],
    }
    for folder in reach:
        if not tree.has_folder(f"src/{folder}"):
            continue
        known[folder] = {}
        archives = sorted((tree.build / "src" / folder).glob("libsy_*.a"))
        for archive in archives:
            known[folder] |= symbols(archive) or {}
        if not known[folder]:
            yield f"src/{folder}/meson.build", 1, "the build left no static library nm can read"
            return
    # What a pure object may call: the pure objects of the folders below it, and its own.
    own = {
        folder: set().union(*(names[1] for one, names in members.items() if pure(folder, one)))
        for folder, members in known.items()
    }
    for folder, members in known.items():
        allowed = rules.BASE_SYMBOLS.union(*(own.get(f, set()) for f in reach[folder]))
        if folder not in ("base", "core"):
            allowed |= rules.ALLOCATION
        for member, (undefined, _) in members.items():
            # wire calls msgpack, so the text check alone watches it.
            if folder == "wire" or not pure(folder, member):
                continue
            for name in sorted(undefined - allowed):
                yield f"src/{folder}/{member}", 1, f"needs {name}, which a sans-I/O object may not"


def pure(folder, member):
    return any(fnmatch(f"src/{folder}/{member}", pattern) for pattern in rules.SANS_IO)


CHECKS = [header_alone, library_symbols]
