"""One contender that comes as a Python package, for the driver to take its turns with the others.

    outside.py WHO --socket PATH --rows N --bytes N --rounds N --case NAME=OP:ROWS:OPS...

WHO is mooncake (its store: a master, a process that holds the memory, tcp on loopback) or nixl
(its agent: one-sided transfers into and out of another process's memory, which is what a store
would build on: no keys, no allocation, no commit). Both are compiled and called through their own
Python interface on buffers registered before.

Puts all rows, then listens on the socket: "put ROWS OPS" or "get ROWS OPS" has it do so many
operations, each of random rows in one call of theirs, and compare what it got outside the timed
part, or, when all are done, what is there where it put; the answer is "ok CLIENT_CPU SERVER_CPU
LATENCY...", in nanoseconds, or "failed WORDS". The cases only say how much there is to come. It
ends when the connection does.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
os.environ.setdefault("GLOG_minloglevel", "3")
os.environ.setdefault("MC_LOG_LEVEL", "ERROR")
MIB = 1 << 20
PATIENCE_S = 60
DRIVER_S = 600  # until all other contenders have started, too
PUTS_CHECKED = 64  # of a burst


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_of(pid):
    """Nanoseconds of all its threads, finer than the ticks of its stat file."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        except OSError:  # it has just ended
            pass
    return total


def fresh(count, value_bytes):
    """Random bytes, and what a get is compared with: row r holds those from r on."""
    import numpy as np

    return np.random.default_rng(1).integers(0, 256, count * 4096 + value_bytes, dtype=np.uint8)


class Pattern:
    """The bytes of each row: a window of random ones that begins at a place of its own."""

    STEPS = 64

    def __init__(self, value_bytes):
        self.bytes, self.value_bytes = fresh(self.STEPS, value_bytes), value_bytes

    def of(self, row):
        at = row % self.STEPS * 4096
        return self.bytes[at : at + self.value_bytes]


def hold_mooncake(pipe, port, bytes_):
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    pipe.send(store.setup("127.0.0.1", "P2PHANDSHAKE", bytes_, 64 * MIB, "tcp", "",
                          f"127.0.0.1:{port}"))  # fmt: skip
    pipe.recv()


def wait_for(port, process):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("mooncake_master does not start")


class Mooncake:
    def __init__(self, options, spawn):
        import numpy as np
        from mooncake.store import MooncakeDistributedStore

        self.pattern, self.serial, self.puts = Pattern(options.bytes), 0, []
        self.top = tempfile.mkdtemp(prefix="mooncake-")
        port, need = free_port(), options.rows * options.bytes
        master = os.path.join(os.path.dirname(sys.executable), "mooncake_master")
        self.master = subprocess.Popen(
            [master, "--rpc_address=127.0.0.1", f"--port={port}", f"--metrics_port={free_port()}",
             "--metrics_host=127.0.0.1"],
            cwd=self.top, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(port, self.master)
        writes = sum(c.rows * c.ops for c in options.case if c.op == "put") * (options.rounds + 1)
        room = (need + writes * options.bytes) * 5 // 4 + 512 * MIB
        self.holder, self.pipe = spawn(hold_mooncake, port, room)
        if self.pipe.recv() != 0:
            raise RuntimeError("mooncake's memory cannot be set up")
        self.store = MooncakeDistributedStore()
        if self.store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 * MIB, "tcp", "",
                            f"127.0.0.1:{port}") != 0:  # fmt: skip
            raise RuntimeError("mooncake's client cannot be set up")
        most = max(c.rows for c in options.case)
        self.into = np.zeros(most * options.bytes, dtype=np.uint8)
        for buffer in (self.into, self.pattern.bytes):
            self.store.register_buffer(buffer.ctypes.data, buffer.nbytes)
        for row in range(0, options.rows, 1024):
            self.write([f"r{r}" for r in range(row, min(row + 1024, options.rows))],
                       range(row, min(row + 1024, options.rows)))  # fmt: skip

    def servers(self):
        return [self.master.pid, self.holder.pid]

    def write(self, keys, rows):
        size = self.pattern.value_bytes
        found = self.store.batch_put_from(
            keys, [self.pattern.of(row).ctypes.data for row in rows], [size] * len(keys)
        )
        if any(code != 0 for code in found):
            raise RuntimeError(f"mooncake's put failed: {max(found, key=abs)}")

    def plan(self, op, rows):
        """What is to be timed, with all that is not theirs done before."""
        size, store = self.pattern.value_bytes, self.store
        sources = [self.pattern.of(row).ctypes.data for row in rows]
        if op == "put":  # a key is written once
            keys = [f"w{self.serial + i}" for i in range(len(rows))]
            self.serial += len(rows)
            self.puts.append((keys, rows))
            if len(rows) == 1:
                return lambda: store.put_from(keys[0], sources[0], size) == 0
            return lambda: not any(store.batch_put_from(keys, sources, [size] * len(keys)))
        return self.fetch([f"r{row}" for row in rows])

    def fetch(self, keys):
        size, store = self.pattern.value_bytes, self.store
        places = [self.into.ctypes.data + i * size for i in range(len(keys))]
        if len(keys) == 1:
            return lambda: store.get_into(keys[0], places[0], size) == size
        return lambda: min(store.batch_get_into(keys, places, [size] * len(keys))) == size

    def held(self, row):
        return self.pattern.of(row)

    def check(self, rows):
        size = self.pattern.value_bytes
        return all(
            (self.into[i * size : (i + 1) * size] == self.held(row)).all()
            for i, row in enumerate(rows)
        )

    def check_puts(self):
        puts, self.puts = self.puts[-PUTS_CHECKED:], []
        return all(self.fetch(keys)() and self.check(rows) for keys, rows in puts)

    def close(self):
        self.store.close()
        self.pipe.send(0)
        self.holder.join(PATIENCE_S)
        self.master.terminate()
        self.master.wait(PATIENCE_S)
        shutil.rmtree(self.top, ignore_errors=True)


def hold_nixl(pipe, value_bytes, rows):
    import numpy as np
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    agent = nixl_agent("unit", nixl_agent_config(backends=["UCX"]))
    pattern, memory = Pattern(value_bytes), np.empty(rows * value_bytes, dtype=np.uint8)
    for row in range(rows):
        memory[row * value_bytes : (row + 1) * value_bytes] = pattern.of(row)
    agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")
    pipe.send((agent.get_agent_metadata(), memory.ctypes.data))
    pipe.recv()


class Nixl:
    def __init__(self, options, spawn):
        import numpy as np
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self.pattern, size, self.puts = Pattern(options.bytes), options.bytes, []
        self.steps = [row % Pattern.STEPS for row in range(options.rows)]  # that the rows hold
        self.holder, self.pipe = spawn(hold_nixl, options.bytes, options.rows)
        metadata, base = self.pipe.recv()
        self.agent = nixl_agent("client", nixl_agent_config(backends=["UCX"]))
        most = max(c.rows for c in options.case)
        self.into = np.zeros(most * size, dtype=np.uint8)
        for buffer in (self.into, self.pattern.bytes):
            self.agent.register_memory([(buffer.ctypes.data, buffer.nbytes, 0, "")], "DRAM")
        self.name = self.agent.add_remote_agent(metadata)
        theirs = [(base + row * size, size, 0) for row in range(options.rows)]
        steps = range(Pattern.STEPS)
        ours = [(self.pattern.of(step).ctypes.data, size, 0) for step in steps]
        ours += [(self.into.ctypes.data + i * size, size, 0) for i in range(most)]
        descriptors = self.agent.get_xfer_descs
        self.ours = self.agent.prep_xfer_dlist("", descriptors(ours, "DRAM"))
        self.theirs = self.agent.prep_xfer_dlist(self.name, descriptors(theirs, "DRAM"))

    def servers(self):
        return [self.holder.pid]

    def transfer(self, kind, ours, theirs):
        handle = self.agent.make_prepped_xfer(kind, self.ours, ours, self.theirs, theirs)
        state = self.agent.transfer(handle)
        while state == "PROC":
            state = self.agent.check_xfer_state(handle)
        self.agent.release_xfer_handle(handle)
        return state == "DONE"

    def plan(self, op, rows):
        if op == "get":
            return self.fetch(rows)
        for row in rows:  # other bytes than are there
            self.steps[row] = (self.steps[row] + 1) % Pattern.STEPS
        ours = [self.steps[row] for row in rows]
        self.puts.append((rows, rows))
        return lambda: self.transfer("WRITE", ours, rows)

    def fetch(self, rows):
        ours = [Pattern.STEPS + i for i in range(len(rows))]
        return lambda: self.transfer("READ", ours, rows)

    def held(self, row):
        return self.pattern.of(self.steps[row])

    check, check_puts = Mooncake.check, Mooncake.check_puts

    def close(self):
        self.pipe.send(0)
        self.holder.join(PATIENCE_S)


def burst(contender, options, dice, op, count, ops):
    """The CPU time of client and servers, and what each operation took."""
    client = servers = 0
    took = []
    for _ in range(ops):
        rows = dice.sample(range(options.rows), count)
        call = contender.plan(op, rows)
        servers_before = sum(map(cpu_of, contender.servers()))
        own = time.process_time_ns()
        start = time.perf_counter_ns()
        good = call()
        took.append(time.perf_counter_ns() - start)
        client += time.process_time_ns() - own
        servers += sum(map(cpu_of, contender.servers())) - servers_before
        if not good or (op == "get" and not contender.check(rows)):
            raise RuntimeError(f"{op} of {count} rows failed, or gave back wrong bytes")
    if not contender.check_puts():
        raise RuntimeError(f"what was put in {count} rows is not there")
    return [client, servers, *took]


class Case:
    def __init__(self, text):
        _, _, rest = text.partition("=")
        self.op, rows, ops = rest.split(":")
        self.rows, self.ops = int(rows), int(ops)


def listen(path):
    """The file that the driver's words come from and go to. The socket is seen once it listens."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".new")
    server.listen(1)
    os.rename(path + ".new", path)
    server.settimeout(DRIVER_S)
    connection, _ = server.accept()
    connection.settimeout(None)
    return connection.makefile("rw")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=("mooncake", "nixl"))
    parser.add_argument("--socket", required=True)
    for name in ("--rows", "--bytes", "--rounds"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--case", type=Case, action="append", required=True)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")

    def spawn(run, *args):
        ours, theirs = context.Pipe()
        process = context.Process(target=run, args=(theirs, *args), daemon=True)
        process.start()
        return process, ours

    contender = (Mooncake if options.who == "mooncake" else Nixl)(options, spawn)
    dice = random.Random(options.bytes)
    driver = listen(options.socket)
    for line in driver:
        op, count, ops = line.split()
        try:
            numbers = burst(contender, options, dice, op, int(count), int(ops))
            print("ok", *numbers, file=driver, flush=True)
        except RuntimeError as fault:
            print("failed", fault, file=driver, flush=True)
    contender.close()
    os._exit(0)  # NIXL's own end of the process crashes once its agents have gone


if __name__ == "__main__":
    main()
