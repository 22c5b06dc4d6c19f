"""Put and get of 64 KiB, 1 MiB and 64 MiB over UCX by TCP on the loopback, beside ucx_perftest
moving as many bytes one operation at a time, in turns. A put of slabyard's is three round trips
more than a transfer: alloc, commit, and the flush that the commit waits for."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from plan import KIB, MIB, size_name
from servers import free_port

SIZES = [(64 * KIB, 300), (MIB, 100), (64 * MIB, 4)]
SETTINGS = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
TESTS = {"put": "ucp_put_bw", "get": "ucp_get"}
OUTSTANDING = "1"
PERFTEST_S = 120
START_S = 10


def environment():
    return {**os.environ, **SETTINGS, "UCX_WARN_UNUSED_ENV_VARS": "n"}


def perftest_words(op, nbytes, count):
    return ["-t", TESTS[op], "-s", str(nbytes), "-n", str(count), "-w", "2",
            "-O", OUTSTANDING, "-f"]  # fmt: skip


def perftest(program, op, nbytes, count):
    """Microseconds of one operation; None: it failed."""
    port = str(free_port())
    server = subprocess.Popen(
        [program, "-p", port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(),
    )  # fmt: skip
    try:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            done = subprocess.run(
                [program, "127.0.0.1", "-p", port, *perftest_words(op, nbytes, count)],
                capture_output=True, text=True, timeout=PERFTEST_S, env=environment(),
            )  # fmt: skip
            seconds = overall(done.stdout)
            if done.returncode == 0 and seconds is not None:
                return seconds * 1e6
            if server.poll() is not None:  # it listened, so this is no matter of patience
                break
    except subprocess.TimeoutExpired:
        pass
    finally:
        server.terminate()
        server.communicate()
    return None


def overall(output):
    """Seconds an operation, of all together: the last line's time over all iterations."""
    for line in reversed(output.splitlines()):
        numbers = line.replace("[thread 0]", "").split()
        try:
            values = [float(word) for word in numbers]
        except ValueError:
            continue
        if len(values) == 8:  # iterations, 3 latencies, 2 bandwidths, 2 rates
            return values[3] * 1e-6
    return None


class Ours:
    def __init__(self, build):
        self.process = subprocess.Popen(
            [os.path.join(build, "bench", "bench_ucx")], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip

    def measure(self, op, nbytes, count):
        self.process.stdin.write(f"{op} {nbytes} {count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        return self.process.wait(PERFTEST_S)


def names():
    return [f"ucx-{op}-{size_name(nbytes)}" for nbytes, _ in SIZES for op in TESTS]


def records(name, ours, theirs, nbytes, rounds):
    """As bench/driver has them. What one took is a mean, so that no p99 is known, and of the CPU
    ucx_perftest says nothing."""
    for who, us in (("slabyard", ours), ("ucx", theirs)):
        if us is not None:
            yield {"case": name, "who": who, "p50_us": us, "p99_us": None,
                   "gb_s": nbytes / us / 1e3, "client_cpu_s_per_gib": None,
                   "server_cpu_s_per_gib": None, "runs": rounds,
                   "ours_over_theirs": ours / us}  # fmt: skip


def line(name, ours, theirs, nbytes):
    words = f"{name:<12} {ours:>10.1f} {nbytes / ours / 1e3:>7.2f}"
    if theirs is None:
        return words + f" {'-':>10} {'-':>7} {'-':>12}"
    return words + f" {theirs:>10.1f} {nbytes / theirs / 1e3:>7.2f} {ours / theirs:>12.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the records there")
    options = parser.parse_args()
    program = shutil.which("ucx_perftest")
    if program is None:
        print("no ucx_perftest here (Debian's package ucx-utils): slabyard alone")
    settings = " ".join(f"{name}={value}" for name, value in SETTINGS.items())
    print(f"{settings}; ucx_perftest " + " ".join(perftest_words("put", 0, 0)[:2]) +
          f" or {TESTS['get']}, -w 2 -O {OUTSTANDING} -f, -s as here; microseconds of "
          f"one, on average, medians of {options.rounds} rounds in turn")  # fmt: skip
    print(f"{'us':<12} {'slabyard':>10} {'GB/s':>7} "
          f"{'perftest':>10} {'GB/s':>7} {'ours/theirs':>12}")  # fmt: skip
    ours, found = Ours(options.build), []
    for nbytes, count in SIZES:
        for op in TESTS:
            mine, theirs = [], []
            for _ in range(options.rounds):
                mine.append(ours.measure(op, nbytes, count))
                theirs.append(perftest(program, op, nbytes, count) if program else None)
            other = None if None in theirs else statistics.median(theirs)
            name, mine = f"{op}-{size_name(nbytes)}", statistics.median(mine)
            print(line(name, mine, other, nbytes), flush=True)
            found += records(f"ucx-{name}", mine, other, nbytes, options.rounds)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file)
    return ours.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # who started it says so
        sys.exit(130)
