"""Runs a command of scripts/check to its end or its limit, counts the processor time it took, and
leaves nothing of it behind: neither a process, nor the slab of a unit that is gone, nor the folder
of a test that was killed.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GONE_S = 10  # until a process that was killed is
STILL_S = 10  # nothing was made or removed in a folder that a test has forgotten
EXEC_LOOKS = 1000
TICK_S = 1  # the time of a file is behind the clock by some milliseconds
GIVES_WAY, NICEST = 5, 19  # so much nicer is what does: a third of the weight of the others
GROUP_TRIES, GROUP_PAUSE_S = 20, 0.1  # the kernel takes one change of a group's at a time

running = set()  # process groups to end with us
stopped = threading.Event()  # nothing more is started
# cpu_s: what the processes of its job took so far; gives_way: may they wait for all others'?
this_lane = threading.local()

MARK = "SLABYARD_CHECK"  # in the environment of all that a command starts, a value for each
SLABS = Path("/dev/shm")
FOLDERS = Path("/tmp")  # what tests make there is named slabyard-*


def await_end(child, limit_s):
    """Its exit status; None: it is past its limit, and was killed with its group."""
    watched = os.pidfd_open(child.pid)
    try:
        in_time = select.select([watched], [], [], limit_s)[0]
    finally:
        os.close(watched)
    if not in_time:
        os.killpg(child.pid, signal.SIGKILL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    this_lane.cpu_s = getattr(this_lane, "cpu_s", 0) + used.ru_utime + used.ru_stime
    return child.returncode if in_time else None


def processes():
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def environment_of(process):
    """Of one that is just replacing its program there is nothing to read for a moment."""
    for _ in range(EXEC_LOOKS):
        found = (process / "environ").read_bytes()
        if found:
            break
        os.readlink(process / "exe")  # one that has ended has none, nor has the kernel's own
        time.sleep(0.001)
    return found.split(b"\0")


def end_marked(mark):
    """Ends what a command started and left, such as a cluster whose test was killed."""
    wanted = f"{MARK}={mark}".encode()
    for process in processes():
        try:
            watched = os.pidfd_open(int(process.name))
        except OSError:
            continue  # gone
        try:
            if wanted in environment_of(process):
                signal.pidfd_send_signal(watched, signal.SIGKILL)
                select.select([watched], [], [], GONE_S)
        except OSError:
            pass  # gone meanwhile, or somebody else's
        finally:
            os.close(watched)


def remove_slabs(since):
    """Those made since then that no process has any more: of units that were killed, and whose
    run directory no other unit will ever start in."""
    left = [path for path in SLABS.glob("slabyard-*") if is_of(path, since)]
    if not left:
        return
    used = set()
    for process in processes():
        try:
            used |= set(re.findall(r"/dev/shm/slabyard-\S+", (process / "maps").read_text()))
            used |= {os.readlink(fd) for fd in (process / "fd").iterdir()}
        except OSError:
            pass
    for path in left:
        if str(path) not in used:
            path.unlink(missing_ok=True)


def is_of(path, since):
    try:
        made = path.stat()
    except OSError:
        return False
    return made.st_uid == os.getuid() and made.st_mtime >= since - TICK_S


def names_used():
    """What the processes of this host have to do with: their words, variables, files and sockets,
    in one piece."""
    found = [Path("/proc/net/unix").read_bytes()]
    for process in processes():
        try:
            links = [process / "cwd", *(process / "fd").iterdir()]
        except OSError:
            continue  # gone, or somebody else's
        for path in [process / "cmdline", process / "environ", *links]:
            try:
                link = path.is_symlink()
                found.append(os.fsencode(os.readlink(path)) if link else path.read_bytes())
            except OSError:
                pass
    return b"\0".join(found)


def is_alone(used):
    """No other run of scripts/check is under way, of whose tests one may be between two steps,
    when no process names its folder."""
    return MARK not in os.environ and f"\0{MARK}=".encode() not in used


def remove_folders(before, used, top=FOLDERS):
    """Those that tests made since `before` was listed, that have lain still for a while, and that
    no process has to do with."""
    for path in folders(top) - before:
        try:
            made = path.lstat()
        except OSError:
            continue
        is_mine = made.st_uid == os.getuid() and time.time() - made.st_mtime > STILL_S
        if not is_mine or os.fsencode(path) in used:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def folders(top=FOLDERS):
    return set(top.glob("slabyard-*"))


def give_way(process):
    """Puts a command and what it will start behind all others. The kernel may count each session
    as one, whatever its processes are: then the session has its niceness."""
    nice = min(NICEST, os.getpriority(os.PRIO_PROCESS, 0) + GIVES_WAY)
    os.setpriority(os.PRIO_PROCESS, process, nice)
    for _ in range(GROUP_TRIES):
        try:
            Path(f"/proc/{process}/autogroup").write_text(str(GIVES_WAY))
            return
        except BlockingIOError:
            time.sleep(GROUP_PAUSE_S)
        except OSError:
            return  # no such groups here, or it has ended


def execute(command, log, limit_s, env):
    """Runs a command to its end or its limit; returns (exit status or None, its output)."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    with open(log, "ab+") as out:
        start = out.seek(0, os.SEEK_END)
        if stopped.is_set():
            return None, ""
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=env | {MARK: mark},
                start_new_session=True,
            )
        except OSError as fault:
            out.write(f"cannot run {command[0]}: {fault}\n".encode())
            return 127, f"cannot run {command[0]}: {fault}"
        running.add(child.pid)
        if getattr(this_lane, "gives_way", False):
            give_way(child.pid)
        status = await_end(child, limit_s)
        if status is None:
            out.write(f"out of time after {limit_s:g} s\n".encode())
        running.discard(child.pid)
        end_marked(mark)
        out.seek(start)
        return status, out.read().decode(errors="replace")


def end_all():
    """Ends what runs, and lets nothing more start."""
    stopped.set()
    for group in list(running):
        os.killpg(group, signal.SIGKILL)
