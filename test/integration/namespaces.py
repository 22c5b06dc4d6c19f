"""Hosts of a test's own: network namespaces on the ends of veth pairs, behind one bridge.

    if __name__ == "__main__":
        namespaces.enter()      # or says why not, and exits as a skip
        unittest.main()

enter() runs the test again in a network namespace of its own, as root or in a user namespace in
which it is root. Hosts are made in it, each with its own loopback, address, and /sys, which UCX
looks at. Nothing outside is touched, and all of it goes with the last process that is in it: each
host lives by a pipe that ends with the test.
"""

import os
import subprocess
import sys

INSIDE = "SLABYARD_TEST_NAMESPACES"
PATIENCE_S = 60
HOLD = "mount -t sysfs none /sys && ip link set lo up && echo ready && read line"


def enter():
    """Returns inside; outside it does not return."""
    if os.environ.get(INSIDE):
        quiet(["ip", "link", "set", "lo", "up"])
        quiet(["ip", "link", "add", "switch", "type", "bridge", "forward_delay", "0"])
        quiet(["ip", "link", "set", "switch", "up"])
        return
    command = ["unshare", "--net", "--mount"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    trial = "mount -t sysfs none /sys && ip link add try0 type veth peer name try1 && " \
            "ip link add try2 type bridge"  # fmt: skip
    try:
        done = subprocess.run(
            [*command, "sh", "-c", trial], capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        why = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        fits = done.returncode == 0
    except OSError as fault:
        fits, why = False, str(fault)
    if not fits:
        print(f"no hosts may be made here: {why}")
        sys.exit(77)
    words = [*command, sys.executable, *sys.orig_argv[1:]]
    os.execvpe("unshare", words, {**os.environ, INSIDE: "1"})


def quiet(command):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")


class Host:
    """One of the test's hosts; `number` names it and its end of the cable."""

    def __init__(self, number, address):
        self.address = address
        self.cable = f"cable{number}"
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", HOLD], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        line = self.holder.stdout.readline()
        if line != "ready\n":
            self.close()
            raise AssertionError(f"a host could not be made: {line}")
        pid = str(self.holder.pid)
        quiet(["ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0",
               "netns", pid])  # fmt: skip
        quiet(["ip", "link", "set", self.cable, "master", "switch", "up"])
        quiet(self.words("ip", "address", "add", f"{address}/24", "dev", "eth0"))
        quiet(self.words("ip", "link", "set", "eth0", "up"))

    def words(self, *command):
        """The command line that runs this on the host, in the same folder."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--mount",
                f"--wd={os.getcwd()}", *command]  # fmt: skip

    def cut(self):
        """Pulls the cable; whoever is on the host notices nothing but silence."""
        quiet(["ip", "link", "set", self.cable, "down"])

    def mend(self):
        quiet(["ip", "link", "set", self.cable, "up"])

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(PATIENCE_S)
        self.holder.stdout.close()
        subprocess.run(["ip", "link", "del", self.cable], capture_output=True, check=False)


def make(case, count, first="10.0.0.5"):
    """That many hosts with addresses from `first` on; gone at the end of the test case."""
    head, _, last = first.rpartition(".")
    hosts = []
    for number in range(count):
        hosts.append(Host(number, f"{head}.{int(last) + number}"))
        case.addCleanup(hosts[-1].close)
    return hosts
