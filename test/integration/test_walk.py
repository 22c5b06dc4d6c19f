"""README's walk over several hosts: its own lines, on three hosts as network namespaces.

One thing is added: UCX is forced, since the unix sockets of units would cross namespaces."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import namespaces

BUILD = os.path.abspath(os.environ.get("SLABYARD_BUILD", "build"))
SOURCE = os.path.abspath(os.environ.get("SLABYARD_SOURCE", "."))
PATIENCE_S = 240  # the directory takes a minute to call a unit dead
BLOCK = re.compile(r"^(?:<!-- on: ([\d.]+) -->\n)?```sh\n(.*?)^```", re.M | re.S)


def walk():
    """The blocks of README's section, each with the address of its host; none: every host."""
    with open(os.path.join(SOURCE, "README.md")) as file:
        section = re.search(r"^## Several hosts\n(.*?)^## ", file.read(), re.M | re.S)[1]
    return BLOCK.findall(section)


def lines_of(block):
    return [line for line in re.sub(r"\\\n\s*", " ", block).splitlines() if line.strip()]


class TestWalk(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="slabyard-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.top)
        os.symlink(BUILD, os.path.join(self.top, "build"))
        shutil.copy(os.path.join(SOURCE, "README.md"), self.top)
        self.hosts = {host.address: host for host in namespaces.make(self, 3)}
        self.processes = []
        self.exports = ""
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=PATIENCE_S)

    def words(self, address, line):
        """README's folders in /tmp are this test's own."""
        line = line.replace("/tmp/yard-", os.path.join(self.top, "yard-"))
        script = f"cd {self.top}; {self.exports} {line}"
        return self.hosts[address].words("sh", "-c", script)

    def start(self, address, line):
        """Returns once it says that it is up."""
        process = subprocess.Popen(
            self.words(address, f"exec {line}"), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.processes.append(process)
        said = ""
        while " up" not in said:
            line = process.stdout.readline()
            self.assertTrue(line, f"ended: {said}")
            said += line

    def run_line(self, address, line):
        return subprocess.run(
            self.words(address, line), capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def run_block(self, address, block):
        """What each line that ends by itself said."""
        said = []
        for line in lines_of(block):
            if line.endswith("&"):
                self.start(address, line[:-1].strip())
            else:
                done = self.run_line(address, line.partition("#")[0].strip())
                said.append((done.returncode, done.stdout, done.stderr))
        return said

    def assert_nothing_by_shm(self, status):
        end = time.monotonic() + PATIENCE_S
        while (done := self.run_line("10.0.0.7", status + " --json")).returncode != 0:
            self.assertLess(time.monotonic(), end, done.stderr)
        told = json.loads(done.stdout)
        for unit in told["units"]:
            self.assertEqual((unit["shm_put_bytes"], unit["shm_get_bytes"]), (0, 0), unit)
        self.assertGreater(sum(unit["ucx_put_bytes"] for unit in told["units"]), 0)

    def test_as_written(self):
        blocks = walk()
        self.assertEqual([on for on, _ in blocks],
                         ["", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.7"])
        forced = "export SLABYARD_TRANSPORT=ucx;"
        self.exports = forced + "; ".join(lines_of(blocks[0][1])) + ";"
        with open(os.path.join(SOURCE, "README.md")) as file:
            first = file.readline()
        for on, block in blocks[1:3]:
            for status, out, err in self.run_block(on, block):
                self.assertEqual(status, 0, out + err)
        watched, demo, *rest, got = self.run_block(*blocks[3])
        self.assertEqual(watched[1].count("active"), 2, watched)
        for status, out, err in [watched, demo, *rest]:
            self.assertEqual(status, 0, out + err)
        self.assertEqual(got[1], first, got)
        self.assert_nothing_by_shm(lines_of(blocks[3][1])[0])
        self.hosts["10.0.0.6"].cut()
        lost, kept = self.run_block(*blocks[4])
        self.assertEqual(lost[0], 1, lost)
        self.assertIn("lost", lost[2])
        self.assertEqual(kept[1], first, kept)


if __name__ == "__main__":
    namespaces.enter()
    unittest.main(verbosity=2)
