#!/usr/bin/env python3
"""Builds the source distribution and, of it, a wheel for every Python from 3.11 to 3.13 there is
here; installs each in a fresh environment away from the tree, and runs the package's tests there.

  try_wheels.py [--all] [--few] [--keep DIR]
                 --all: every module of tests, not only the quick ones
                 --few: of the oldest and the newest Python alone, and no library is optimised

A wheel carries the libraries it needs: auditwheel puts them in, and it is seen here that these are
the ones that are used. An interpreter is looked for as python3.N in PATH and among those of pyenv.
Started by `scripts/python wheels`, whose environment has what makes wheels.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MINORS = (11, 12, 13)
QUICK = "errors blobstore_contract conformance stubs client columns steps cluster docs".split()
LIMIT_S = 600
FAST_TO_COMPILE = "--config-settings=setup-args=-Doptimization=0"
PROBE = """
import ensurepip, os, sys, sysconfig, venv
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(sys.version_info.minor)
"""
# The libraries besides libc's and the compiler's that the package and its command run with.
LIBRARIES = """
import slabyard
def used(pid):
    with open(f"/proc/{pid}/maps") as file:
        return {line.split()[-1] for line in file if ".so" in line}
with slabyard.local(slab_bytes="4MiB") as cluster, cluster.client() as client:
    client.put({"0@a": 1})
    for path in sorted(used("self") | used(client.reports()[0]["pid"])):
        print(path)
"""
CARRIED = ("zmq", "sodium", "msgpack", "jansson", "uring")
IN_WHEEL = (
    "slabyard/__init__.py",
    "slabyard/libslabyard.so",
    "slabyard/slabyard",
    "slabyard/py.typed",
    "slabyard/_core.pyi",
    "slabyard/client.pyi",
)


def run(*command, **options):
    """Its output; CalledProcessError with it where it fails."""
    return subprocess.run(
        [str(word) for word in command],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT_S,
        **options,
    ).stdout


def works(python, minor):
    try:
        return run(python, "-c", PROBE).strip() == str(minor)
    except (subprocess.SubprocessError, OSError):
        return False


def interpreters():
    """{minor: path} of those that can make environments and compile extensions."""
    found = {}
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for minor in MINORS:
        name = f"python3.{minor}"
        candidates = [shutil.which(name), *glob.glob(f"{pyenv}/versions/*/bin/{name}")]
        working = [one for one in candidates if one and works(one, minor)]
        if working:
            found[minor] = working[0]
    return found


def source_distribution(scratch):
    """A tarball of what is committed; without git the tree itself."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        print("no git here: wheels are built of the tree, no source distribution is made")
        return ROOT
    code = f"import mesonpy; print(mesonpy.build_sdist({str(scratch)!r}))"
    run(sys.executable, "-c", code, cwd=ROOT)
    return next(scratch.glob("slabyard-*.tar.gz"))


def check_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    absent = [name for name in IN_WHEEL if name not in names]
    if absent or not any(name.startswith("slabyard/_core.") for name in names):
        raise ValueError(f"{wheel.name} lacks {absent or '_core'}")
    strays = [name for name in names if "mesonpy" in name or name.endswith((".a", ".h", ".pc"))]
    if strays:
        raise ValueError(f"{wheel.name} has {strays}")


def build_wheel(pip, source, scratch, settings):
    """One that needs no library that a system may lack."""
    bare, carrying = scratch / "bare", scratch / "wheels"
    run(*pip, "wheel", "--no-deps", *settings, "-w", bare, source)
    (wheel,) = bare.glob("slabyard-*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "-w", carrying, wheel)
    (wheel,) = carrying.glob("slabyard-*.whl")
    check_wheel(wheel)
    return wheel


def check_libraries(paths, venv):
    """That what the wheel carries is what is used, and not the system's."""
    for name in CARRIED:
        found = [path for path in paths if path.rpartition("/")[2].startswith(f"lib{name}")]
        if any(not path.startswith(f"{venv}/") for path in found):
            raise ValueError(f"lib{name} is the system's: {found}")
    if not any("/libzmq" in path for path in paths):
        raise ValueError(f"no libzmq among {paths}")


def try_one(python, source, scratch, modules, keep, settings):
    venv, work = scratch / "venv", scratch / "work"
    run(python, "-m", "venv", venv)
    inside = venv / "bin" / "python"
    pip = (inside, "-m", "pip", "--disable-pip-version-check", "-q")
    wheel = build_wheel(pip, source, scratch, settings)
    run(*pip, "install", wheel)
    # No build tree, no sources: only the tests and what they read.
    shutil.copytree(ROOT / "python" / "tests", work / "python" / "tests")
    shutil.copytree(ROOT / "python" / "examples", work / "python" / "examples")
    shutil.copytree(ROOT / "docs", work / "docs")
    hosts = Path("test", "integration", "namespaces.py")
    (work / hosts).parent.mkdir(parents=True)
    shutil.copy(ROOT / hosts, work / hosts)
    shutil.copy(ROOT / "README.md", work)
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    check_libraries(run(inside, "-c", LIBRARIES, cwd=scratch, env=env).splitlines(), venv)
    version = run(inside, "-m", "slabyard", "--version", cwd=scratch, env=env).strip()
    output = run(inside, "-m", "unittest", *modules, cwd=work / "python" / "tests", env=env)
    count = next(line for line in output.splitlines() if line.startswith("Ran "))
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, keep)
    return f"{wheel.name}: {version}; {count}"


def ends(found):
    return sorted({min(found), max(found)}) if found else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="run every module of tests")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy what passed there")
    parser.add_argument("--few", action="store_true", help="only the oldest and newest Python")
    options = parser.parse_args()
    os.environ["PIP_COMPILE"] = "0"  # most modules that come are never imported
    tests = sorted(path.stem for path in (ROOT / "python" / "tests").glob("test_*.py"))
    modules = [name for name in tests if options.all or name.removeprefix("test_") in QUICK]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="slabyard-wheels-") as top:
        scratch = Path(top)
        found = interpreters()
        source = source_distribution(scratch)
        settings = [FAST_TO_COMPILE] if options.few and not options.keep else []
        tried = {minor: found[minor] for minor in ends(found)} if options.few else found
        for minor, python in tried.items():
            (scratch / str(minor)).mkdir()
            try:
                own = scratch / str(minor)
                print("ok     ", try_one(python, source, own, modules, options.keep, settings))
                passed += 1
            except (subprocess.SubprocessError, OSError, ValueError) as e:
                print(f"FAILED  Python 3.{minor}: {e}\n{getattr(e, 'output', None) or ''}")
                failed += 1
            # The next has the same library in it: who does not keep it need not have it optimised.
            settings = [] if options.keep else [FAST_TO_COMPILE]
        for minor in sorted(set(MINORS) - set(found)):
            print(f"there is no Python 3.{minor} here that can build the package")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
