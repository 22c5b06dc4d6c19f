"""The servers of one group: clusters of units, redis and memcached, on this host alone."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 120
MIB = 1 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Servers:
    """A context: what it started is gone after it. `peers` are the driver's --peer arguments."""

    def __init__(self, build, group, wanted, unit_counts):
        self.slabyard = os.path.join(build, "slabyard")
        self.group, self.wanted, self.unit_counts = group, wanted, unit_counts
        self.processes, self.run_dirs, self.peers, self.notes = [], [], [], []

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
        if "memcpy" in self.wanted and len(self.unit_counts) == 1:
            self.peers.append(f"memcpy,memcpy,{first}/unit-0.sock,0")
            if self.group.two_copiers():
                self.peers.append(f"memcpy,memcpy-2,{first}/unit-0.sock,1")
        if not self.group.peers:
            return
        for name, start in (("redis", self.start_redis), ("memcached", self.start_memcached)):
            if name not in self.wanted:
                continue
            if shutil.which(f"{name}-server") or shutil.which(name):
                start(name, False)
                start(f"{name}-tuned", True)
            else:
                self.notes.append(f"{name} is not installed")

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

    def stop(self):
        """A second Ctrl-C does not leave half of them behind."""
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self.stop_all()
        finally:
            signal.signal(signal.SIGINT, usual)

    def stop_all(self):
        for run_dir in self.run_dirs:
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
