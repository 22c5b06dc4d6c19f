#!/usr/bin/env python3
"""Runs a program in a virtual machine whose kernel has RDMA devices in software (SoftRoCE).

usage: vm.py [--dir DIR] [--script FILE] [--program FILE]... [--variable NAME=VALUE]...

The guest is Debian's own kernel with an initial ram disk and nothing else: busybox, iproute2, the
verbs libraries, UCX, the programs named, and the shared libraries that these load.
All of it but the programs comes from packages that are only downloaded and unpacked, under DIR
(build-check/rdma). The guest makes two RDMA devices on the two ends of a cable in software, so
that what one sends to the other really goes through the driver, and runs the script; the exit
status of the virtual machine is the script's.

Three boots: with the driver (the script must succeed), the same with one packet of a hundred lost,
and without the driver (it must fail, or the success of the first says nothing). Two run at a time
where there are two processors, for each keeps one busy. A boot whose first line never came is
repeated once; one that failed is not.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent

# For the guest alone; what they depend on is found by apt.
PACKAGES = [
    "busybox-static", "kmod", "iproute2", "libibverbs1", "ibverbs-providers", "librdmacm1",
    "libucx0",
]  # fmt: skip
KERNEL = "linux-image-amd64"
MODULES = ["veth", "rdma_rxe", "ib_uverbs", "rdma_ucm", "crc32_generic", "sch_netem"]
PROGRAMS = ["ip", "tc", "rdma", "kmod"]
FIRST_LINE = "guest: here"
FIRST_LINE_S = 120
GUEST_S = 300
# isa-debug-exit makes (value << 1) | 1 of what the guest writes.
PASSED, FAILED = (16 << 1) | 1, (17 << 1) | 1


class Fault(Exception):
    """What went wrong, and what mends it."""


def run(command, **options):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, errors="replace", check=False, **options,
    )  # fmt: skip
    if done.returncode != 0:
        raise Fault(f"{' '.join(map(str, command[:4]))}...: {done.stdout[-2000:]}")
    return done.stdout


def kernel_package():
    """The metapackage's one dependency: the newest kernel."""
    words = run(["apt-cache", "depends", KERNEL])
    found = re.search(r"Depends: (linux-image-\S+)", words)
    if not found:
        raise Fault(f"apt knows no kernel behind {KERNEL}: run `apt-get update`")
    return found.group(1)


def download(folder):
    """Fetches the packages and all they need, as for a system that has none."""
    debs = folder / "debs"
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    status = folder / "no-packages"
    status.write_text("")
    options = [
        f"Dir::State::status={status}", f"Dir::Cache::archives={debs}/", "Debug::NoLocking=1",
        "APT::Sandbox::User=", "APT::Install-Recommends=0", "Acquire::Retries=3",
    ]  # fmt: skip
    apt = ["apt-get", "-q", "-y", *[word for one in options for word in ("-o", one)]]
    run([*apt, "--download-only", "install", *PACKAGES], cwd=debs)
    kernel = kernel_package()
    if not list(debs.glob(f"{kernel}_*.deb")):
        run(["apt-get", "-q", "-o", "APT::Sandbox::User=", "download", kernel], cwd=debs)
    return sorted(debs.glob("*.deb"))


def unpack(debs, root):
    """Into one tree in which /bin is /usr/bin, as packages of every release can share."""
    shutil.rmtree(root, ignore_errors=True)
    for name in ["bin", "sbin", "lib", "lib64"]:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for deb in debs:
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE
        ) as tar:
            run_from = subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root],
                stdin=tar.stdout, check=False,
            )  # fmt: skip
        if run_from.returncode != 0 or tar.returncode != 0:
            raise Fault(f"cannot unpack {deb.name}: is the disk full?")


def libraries_path(root):
    return ":".join(str(p) for p in [root / "usr/lib/x86_64-linux-gnu", root / "usr/lib"])


def loader(root):
    return next((root / "usr/lib64").glob("ld-linux*"), None) or next(
        (root / "usr/lib/x86_64-linux-gnu").glob("ld-linux*")
    )


def loads(program, root):
    """The shared libraries a program loads, by path: the guest's own before this machine's."""
    path = libraries_path(root) + ":" + host_path()
    words = run([loader(root), "--library-path", path, "--list", program])
    missing = re.findall(r"^\s*(\S+) => not found", words, re.M)
    if missing:
        raise Fault(f"{program} needs {' '.join(missing)}, which no package here has")
    return re.findall(r"=> (/\S+)", words) + re.findall(r"^\s*(/\S+) \(0x", words, re.M)


def host_path():
    """Where this machine keeps libraries, for programs that were built on it."""
    folders = re.findall(r"^(/\S+):", run(["/sbin/ldconfig", "-v", "-N", "-X"]), re.M)
    return ":".join(folders)


def module_files(root, release):
    """The named modules and what they depend on, each after those it needs."""
    folder = root / "usr/lib/modules" / release
    run([loader(root), "--argv0", "depmod", "--library-path", libraries_path(root),
         root / "usr/bin/kmod", "-b", root, release])
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        name, _, rest = line.partition(":")
        needs[re.sub(r"\.ko.*", "", Path(name).name).replace("-", "_")] = [name, *rest.split()]
    wanted = {}
    for module in MODULES:
        if module not in needs:
            continue  # built in, or of another name in this kernel; the guest says what it lacks
        for file in needs[module]:
            wanted[file] = folder / file
    return wanted


class Guest:
    """The tree that becomes the guest's ram disk."""

    def __init__(self, folder, root):
        self.folder, self.root = folder, root
        shutil.rmtree(folder, ignore_errors=True)
        for name in ["bin", "lib", "lib64", "proc", "sys", "dev", "tmp", "etc", "run", "var"]:
            (folder / name).mkdir(parents=True)
        (folder / "lib/x86_64-linux-gnu").symlink_to(".")
        (folder / "usr").symlink_to(".")

    def add(self, source, at):
        target = self.folder / at
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=True)

    def add_libraries(self, program):
        for path in loads(program, self.root):
            name = Path(path).name
            where = "lib64" if name.startswith("ld-linux") else "lib"
            if not (self.folder / where / name).exists():
                self.add(path, f"{where}/{name}")

    def add_program(self, program, name=None):
        self.add(program, f"bin/{name or Path(program).name}")
        self.add_libraries(program)

    def fill(self, programs, script):
        root = self.root
        self.add(next(root.glob("usr/bin/busybox")), "bin/busybox")
        for name in PROGRAMS:
            found = [p for p in (root / "usr/bin" / name, root / "usr/sbin" / name) if p.exists()]
            if not found:
                raise Fault(f"no package has {name}")
            self.add_program(found[0])
        libraries = root / "usr/lib/x86_64-linux-gnu"
        for plugin in [
            *libraries.glob("libucp.so.0"), *libraries.glob("ucx/*.so*"),
            *libraries.glob("libibverbs/librxe*"),
        ]:  # fmt: skip
            self.add(plugin, "lib/" + str(plugin.relative_to(libraries)))
            self.add_libraries(plugin)
        self.add(root / "etc/libibverbs.d/rxe.driver", "etc/libibverbs.d/rxe.driver")
        # Threads that end load it by name.
        self.add(next(libraries.glob("libgcc_s.so.1")), "lib/libgcc_s.so.1")
        release = next((root / "usr/lib/modules").iterdir()).name
        for file, path in module_files(root, release).items():
            self.add(path, f"lib/modules/{release}/{file}")
        for name in ["modules.dep", "modules.dep.bin", "modules.alias.bin", "modules.symbols.bin",
                     "modules.builtin.bin", "modules.builtin", "modules.order"]:
            path = root / "usr/lib/modules" / release / name
            if path.exists():
                self.add(path, f"lib/modules/{release}/{name}")
        for program in programs:
            self.add_program(program)
        self.add(HERE / "init.sh", "init")
        self.add(script, "script.sh")
        os.chmod(self.folder / "init", 0o755)

    def pack(self, image, variables):
        lines = "".join(f"export {name}='{value}'\n" for name, value in variables)
        (self.folder / "variables").write_text(lines)
        line = 'set -o pipefail; find . | cpio -o -H newc --quiet -R 0:0 | gzip -1 >"$1"'
        run(["bash", "-c", line, "pack", image], cwd=self.folder)


def boot(kernel, image, words, log):
    """(exit status or None for too long, whether the first line came, output)."""
    command = [
        "qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi,tb-size=256",
        "-cpu", "qemu64", "-smp", "1", "-m", "512", "-display", "none", "-nodefaults",
        "-no-reboot", "-serial", "stdio", "-kernel", kernel, "-initrd", image,
        "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04",
        "-append", "console=ttyS0 panic=-1 mitigations=off nokaslr quiet rdinit=/init " + words,
    ]  # fmt: skip
    started = time.monotonic()
    with open(log, "wb") as file:
        machine = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
    came = False
    try:
        while machine.poll() is None:
            came = came or FIRST_LINE in log.read_text(errors="replace")
            spent = time.monotonic() - started
            if spent > GUEST_S or (not came and spent > FIRST_LINE_S):
                break
            try:
                machine.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                pass
    finally:
        status = machine.poll()
        if status is None:
            machine.kill()
            machine.wait()
    output = log.read_text(errors="replace")
    return status, FIRST_LINE in output, output


def boot_patiently(kernel, image, words, log):
    """(exit status, output, seconds)"""
    started = time.monotonic()
    status, came, output = boot(kernel, image, words, log)
    if not came:
        print(f"note    the first line never came ({log}); booting once more", flush=True)
        status, came, output = boot(kernel, image, words, log)
    return status, output, time.monotonic() - started


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def say(self, good, name, what):
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok' if good else 'FAILED':<8} {name:<24} {what}", flush=True)


def show(output):
    for line in output.splitlines():
        if line.startswith(("test: ", "guest: ")):
            print("  | " + line.rstrip())


BOOTS = {
    "verbs": ("verbs", "rxe=1", PASSED, "the script succeeds"),
    "lossy": ("one packet in 100 lost", "rxe=1 loss=1", PASSED, "the script succeeds"),
    "bare": ("without the driver", "rxe=0", FAILED, "the script fails"),
}


def try_boots(report, folder, kernel, image, names):
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        logs = {short: folder / f"boot-{short}.log" for short in names}
        runs = [
            pool.submit(boot_patiently, kernel, image, BOOTS[short][1], logs[short])
            for short in names
        ]
        for short, run_of in zip(names, runs, strict=True):
            judge(report, short, logs[short], *run_of.result())


def judge(report, short, log, status, output, seconds):
    name, _, wanted, what = BOOTS[short]
    good = status == wanted
    shown = {PASSED: "the script succeeds", FAILED: "the script fails", None: "too long"}
    said = what if good else f"{shown.get(status, f'the guest ended with {status}')}: {log}"
    report.say(good, name, f"{said}, {seconds:.0f} s")
    show(output)
    if not good:
        print("\n".join("  | " + line for line in output.splitlines()[-25:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=TOP / "build-check/rdma",
                        help="where packages are unpacked and logs lie (build-check/rdma)")
    parser.add_argument("--script", type=Path, default=HERE / "guest.sh",
                        help="what the guest runs (test/rdma/guest.sh)")
    parser.add_argument("--program", type=Path, action="append", default=[],
                        help="a program of this machine that the script needs; may be repeated")
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE",
                        help="set in the script's environment; may be repeated")
    parser.add_argument("--boots", default="verbs,lossy,bare",
                        help="which: with the driver, with packet loss, without the driver")
    options = parser.parse_args()
    report, started = Report(), time.monotonic()
    folder = options.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        debs = download(folder)
        print(f"note    {len(debs)} packages, {time.monotonic() - started:.0f} s", flush=True)
        root = folder / "root"
        unpack(debs, root)
        guest = Guest(folder / "guest", root)
        guest.fill([p.resolve() for p in options.program], options.script)
        guest.pack(folder / "guest.img", [one.split("=", 1) for one in options.variable])
        kernel = next((root / "boot").glob("vmlinuz-*"))
        print(f"note    guest made, {time.monotonic() - started:.0f} s", flush=True)
        try_boots(report, folder, kernel, folder / "guest.img", options.boots.split(","))
    except (Fault, OSError) as fault:
        report.say(False, "the guest", str(fault))
    print(f"{time.monotonic() - started:.0f} s")
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
