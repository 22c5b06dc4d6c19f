"""The servers of one group, on this host alone: clusters of units, redis and memcached, and
contenders of Python, which are clients as well."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from plan import OUTSIDE

PATIENCE_S = 120
ENDS_S = 10  # what ends by itself
NEVER_SLEEP = ["nixl"]  # without its threads of progress nothing goes on
MIB = 1 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Apart:
    """A program that starts others and makes files: all that is gone when it has ended."""

    def __init__(self, words, folder):
        self.folder = folder
        os.mkdir(folder)
        with open(os.path.join(folder, "said"), "w") as said:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                env={**os.environ, "TMPDIR": folder}, start_new_session=True,
            )  # fmt: skip

    def said(self):
        with open(os.path.join(self.folder, "said"), errors="replace") as said:
            return said.read().strip().splitlines() or ["it said nothing"]

    def end(self):
        """It has a while to end by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDS_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Servers:
    """A context: what it started is gone after it. `peers` are the driver's --peer arguments."""

    def __init__(self, options, group, spare_bytes):
        self.slabyard = os.path.join(options.build, "slabyard")
        self.options, self.group, self.unit_counts = options, group, group.unit_counts
        self.spare_bytes = spare_bytes  # of memory, for contenders of Python
        self.processes, self.apart, self.run_dirs, self.peers, self.notes = [], [], [], [], []

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-bench-", dir="/tmp")
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        alone = len(self.unit_counts) == 1
        for count in self.unit_counts:
            self.start_units(count, "slabyard" if alone else f"units-{count}", together=not alone)
        if not alone:  # a process each, and what waking so many alone costs
            most = self.unit_counts[-1]
            self.start_units(most, f"processes-{most}", together=False)
            self.peers.append(f"wake,wake-{most},{most},0")
        first = self.run_dirs[0]
        if "memcpy" in self.options.peers and len(self.unit_counts) == 1:
            self.peers.append(f"memcpy,memcpy,{first}/unit-0.sock,0")
            if self.group.two_copiers():
                self.peers.append(f"memcpy,memcpy-2,{first}/unit-0.sock,1")
        if not self.group.peers:
            return
        for name, start in (("redis", self.start_redis), ("memcached", self.start_memcached)):
            if name not in self.options.peers:
                continue
            if shutil.which(f"{name}-server") or shutil.which(name):
                start(name, False)
                start(f"{name}-tuned", True)
            else:
                self.notes.append(f"{name} is not installed")
        for who in OUTSIDE:
            if who in self.options.peers and self.group.plain():
                self.start_outside(who)

    def start_units(self, count, name, together):
        """Units of one cluster, each a process, or all in one."""
        run_dir = os.path.join(self.top, name)
        slab = self.group.slab_bytes(count)
        entries = max(65_536, self.group.rows * 6 * (5 if self.group.value_bytes == 0 else 1))
        entries = min(max(entries // count, 4_096), 10_000_000)  # in all as many, whatever N
        sizes = ["--slab-bytes", str(slab), "--max-entries", str(entries)]
        where = ["--run-dir", run_dir, "--units", str(count)]
        self.run_dirs.append(run_dir)
        if together:
            self.spawn([self.slabyard, "directory", *where])
            address = f"ipc://{run_dir}/directory.ipc"
            self.await_socket(address.removeprefix("ipc://"))
            self.spawn([self.slabyard, "unit", *where, "--count", str(count), "--directory",
                        address, *sizes])  # fmt: skip
            self.await_units(run_dir, count)
        else:
            subprocess.run([self.slabyard, "up", "-d", *where, *sizes],
                           check=True, stdout=subprocess.DEVNULL, timeout=600)  # fmt: skip
        self.peers.append(f"slabyard,{name},{run_dir},0")

    def await_socket(self, path):
        end = time.monotonic() + PATIENCE_S
        while not os.path.exists(path):
            if time.monotonic() > end:
                raise RuntimeError(f"{path} does not come")
            time.sleep(0.01)

    def await_units(self, run_dir, count):
        end = time.monotonic() + PATIENCE_S
        while True:
            said = subprocess.run([self.slabyard, "status", "--json", "--run-dir", run_dir],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  timeout=PATIENCE_S)  # fmt: skip
            if said.stdout.count('"active"') == count:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"of {count} units not all come up")
            time.sleep(0.1)

    def spawn(self, words):
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def launch(self, kind, name, address, tuned, words):
        process = self.spawn(words)
        self.await_listening(name, address, process)
        self.peers.append(f"{kind},{name},{address},{int(tuned)},{process.pid}")

    def await_listening(self, name, address, process):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                if address.startswith("unix:"):
                    with socket.socket(socket.AF_UNIX) as probe:
                        probe.connect(address.removeprefix("unix:"))
                else:
                    host, port = address.split(":")
                    socket.create_connection((host, int(port)), 1).close()
                return
            time.sleep(0.01)
        raise RuntimeError(f"{name} does not start")

    def start_redis(self, name, tuned):
        words = ["redis-server", "--save", "", "--appendonly", "no", "--daemonize", "no",
                 "--dir", self.top]  # fmt: skip
        if tuned:
            address = f"unix:{self.top}/{name}.sock"
            words += ["--port", "0", "--unixsocket", f"{self.top}/{name}.sock",
                      "--lazyfree-lazy-server-del", "yes", "--lazyfree-lazy-user-del", "yes",
                      "--activerehashing", "no", "--jemalloc-bg-thread", "no",
                      "--client-query-buffer-limit", "2gb", "--maxmemory", "0"]  # fmt: skip
        else:
            port = free_port()
            address = f"127.0.0.1:{port}"
            words += ["--bind", "127.0.0.1", "--port", str(port)]
        self.launch("redis", name, address, tuned, words)

    def start_memcached(self, name, tuned):
        need = self.group.data_bytes() * 2 + self.group.rows * 128 + 512 * MIB
        words = ["memcached", "-m", str(need // MIB), "-M"]
        if self.group.row_bytes() > MIB // 2:
            words += ["-I", f"{min(2 * self.group.row_bytes() // MIB + 1, 1023)}m"]
        if os.geteuid() == 0:
            words += ["-u", pwd.getpwuid(0).pw_name]
        if tuned:
            address = f"unix:{self.top}/{name}.sock"
            words += ["-s", f"{self.top}/{name}.sock", "-t", "1", "-o",
                      "no_lru_maintainer,no_lru_crawler,hashpower=18"]  # fmt: skip
        else:
            port = free_port()
            address = f"127.0.0.1:{port}"
            words += ["-l", "127.0.0.1", "-p", str(port), "-U", "0"]
        self.launch("memcached", name, address, tuned, words)

    def start_outside(self, who):
        """A contender of Python. Where it does not run it is left out with a word."""
        python = os.path.join(self.options.build, "venv", "bin", "python")
        path = os.path.join(self.top, f"{who}.sock")
        if not os.path.exists(python):
            self.notes.append(f"{who} is not installed")
            return
        self.spare_bytes -= self.group.outside_bytes(who, self.options.rounds)
        if self.spare_bytes < 0:
            self.notes.append(f"{who} has too little memory for {self.group.name}")
            return
        words = [python, os.path.join(os.path.dirname(__file__), "outside.py"), who]
        words += ["--socket", path, "--rounds", str(self.options.rounds)]
        words += ["--rows", str(self.group.rows), "--bytes", str(self.group.value_bytes)]
        for case in self.group.plain():
            words += case.words(self.options.quick)
        one = Apart(words, os.path.join(self.top, who))
        end = time.monotonic() + PATIENCE_S
        while not os.path.exists(path):
            if one.process.poll() is not None or time.monotonic() > end:
                self.notes.append(f"{who} does not start: {one.said()[-1][:200]}")
                one.end()
                return
            time.sleep(0.01)
        self.apart.append(one)
        self.peers.append(f"outside,{who},{path},{int(who in NEVER_SLEEP)}")

    def stop(self):
        """A second Ctrl-C does not leave half of them behind."""
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.stop_all()
        finally:
            signal.signal(signal.SIGINT, usual)

    def stop_all(self):
        for one in self.apart:
            one.end()
        for run_dir in self.run_dirs:
            with contextlib.suppress(subprocess.TimeoutExpired):  # the rest is ended
                subprocess.run([self.slabyard, "down", "--run-dir", run_dir],
                               stdout=subprocess.DEVNULL, timeout=PATIENCE_S)  # fmt: skip
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.top, ignore_errors=True)
