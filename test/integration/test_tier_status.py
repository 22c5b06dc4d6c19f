"""Units with a disk tier: what `status` tells of both tiers, and who may use the directory."""

import json
import os
import re
import subprocess
import unittest

from test_cluster import SLABYARD, ClusterCase


class TestTier(ClusterCase):
    COUNTS = (
        "queued running demotions promotions loads spills written_bytes read_bytes "
        "write_errors read_errors full lost_blobs"
    ).split()

    def setUp(self):
        super().setUp()
        self.disk = os.path.join(self.top, "disk")
        os.mkdir(self.disk)
        self.up(2, "4MiB", "--ssd-dir", self.disk, "--ssd-bytes", "32MiB")

    def put(self, rows, size=256 << 10):
        for row in rows:
            line = json.dumps({"a": chr(65 + row % 26) * size})
            words = ["load", self.file(line), "--first-row", str(row)]
            self.slabyard("--run-dir", self.run_dir, *words)

    def file(self, line):
        path = os.path.join(self.top, "line.jsonl")
        with open(path, "w") as file:
            file.write(line + "\n")
        return path

    def get(self, row):
        done = self.slabyard("--run-dir", self.run_dir, "get", str(row), "a")
        self.assertEqual(done.stdout.strip("\n"), chr(65 + row % 26) * (256 << 10))

    def idle_reports(self):
        """With nothing under way."""
        for _ in range(1000):
            units = self.reports()
            if all(unit["ssd_queued"] + unit["ssd_running"] == 0 for unit in units):
                return units
        self.fail("the disk never comes to rest")

    def text(self):
        return self.slabyard("--run-dir", self.run_dir, "status", "--timeout", "60s").stdout

    def spoil(self):
        """All that lies on the disk."""
        for name in os.listdir(self.disk):
            if name.endswith(".seg"):
                path = os.path.join(self.disk, name)
                with open(path, "r+b") as file:
                    file.write(bytes(os.path.getsize(path)))

    def assert_counts(self, text, units):
        for unit in units:
            held = unit["ssd_on_disk"] + unit["ssd_writing"] + unit["ssd_leaving"]
            self.assertEqual(unit["ssd_capacity"], 32 << 20)
            self.assertEqual(held + unit["ssd_free"], unit["ssd_capacity"])
            for name in self.COUNTS:
                self.assertIsInstance(unit["ssd_" + name], int)
        lines = re.findall(r"^      disk 32 MiB, used [0-9.]+ \w+(.*)$", text, re.M)
        self.assertEqual(len(lines), len(units), text)
        for line, unit in zip(lines, units):
            shown = {}
            for part in line.split(", ")[1:]:
                name, value = part.split(" ")
                shown[name] = int(value)
            want = {n: unit["ssd_" + n] for n in self.COUNTS if not n.endswith("bytes")}
            self.assertEqual(shown, {n: value for n, value in want.items() if value != 0})

    def test_status(self):
        self.put(range(48))
        units = self.idle_reports()
        self.assert_counts(self.text(), units)
        for unit in units:
            self.assertGreater(unit["ssd_demotions"], 0)
            self.assertGreater(unit["ssd_on_disk"], 0)
            self.assertGreater(unit["bytes"]["published"], 0)
            self.assertGreaterEqual(unit["ssd_written_bytes"], unit["ssd_demotions"] * (256 << 10))
            self.assertEqual(unit["rows"], 24)
        # Read once, put out by a large one, and read again with room beside it: back in memory.
        self.get(0)
        self.get(1)
        self.put((48, 49), 2 << 20)
        self.slabyard("--run-dir", self.run_dir, "rm", "24-49")
        self.get(0)
        self.get(1)
        units = self.idle_reports()
        self.assert_counts(self.text(), units)
        for unit in units:
            self.assertGreater(unit["ssd_promotions"], 0)
            self.assertGreater(unit["ssd_loads"], 0)
            self.assertGreaterEqual(unit["ssd_read_bytes"], unit["ssd_loads"] * (256 << 10))
            self.assertEqual((unit["ssd_read_errors"], unit["ssd_lost_blobs"]), (0, 0))

    def test_errors(self):
        self.put(range(48))
        self.idle_reports()
        self.spoil()
        for row in (0, 1):
            done = self.slabyard("--run-dir", self.run_dir, "get", str(row), "a", status=1)
            # The unit lives: nobody is told to start it anew, which would lose the rest.
            self.assertIn(f"the disk of unit {row} lost the value of row {row}", done.stderr)
            self.assertIn("put it again", done.stderr)
            self.assertNotIn("slabyard down", done.stderr)
        units = self.idle_reports()
        self.assert_counts(self.text(), units)
        for unit in units:
            self.assertEqual((unit["ssd_read_errors"], unit["ssd_lost_blobs"]), (2, 1))

    def segments(self):
        return [name for name in os.listdir(self.disk) if name.endswith(".seg")]

    def test_down_removes_what_killed_units_left(self):
        self.put(range(48))
        self.kill_all()
        self.assertEqual({name[:11] for name in self.segments()}, {"slabyard-0-", "slabyard-1-"})
        self.down()
        self.assertEqual(os.listdir(self.disk), [])
        self.assert_nothing_is_left()

    def test_down_leaves_an_empty_directory(self):
        self.put(range(48))
        self.assertTrue(self.segments())
        self.down()
        self.assertEqual(os.listdir(self.disk), [])

    def test_a_directory_serves_one_cluster(self):
        other = os.path.join(self.top, "other")
        words = ["--run-dir", other, "--units", "1", "--slab-bytes", "4MiB", "--detach"]
        ssd = ["--ssd-dir", self.disk, "--ssd-bytes", "1MiB"]
        done = self.slabyard("up", *words, *ssd, status=1)
        self.assertIn("give each cluster one of its own", done.stderr)


class TestFull(ClusterCase):
    def test_a_value_that_slab_and_staging_have_no_room_for(self):
        disk = os.path.join(self.top, "disk")
        path = os.path.join(self.top, "value")
        os.mkdir(disk)
        self.up(1, "4MiB", "--ssd-dir", disk, "--ssd-bytes", "4MiB")
        client = ["--run-dir", self.run_dir]
        with open(path, "wb") as file:
            file.write(bytes(2000000))
        self.slabyard(*client, "put", "0", "a", path)
        os.truncate(path, 256 << 10)
        words, rows = [SLABYARD, *client, "put"], 1
        while subprocess.run([*words, str(rows), "a", path], capture_output=True).returncode == 0:
            rows += 1
        # More than either holds.
        self.assertGreater(rows, 16)
        self.assertRegex(self.slabyard(*client, "status").stdout, r", full [1-9]")
        done = self.slabyard(*client, "get", "0", "a", status=1)
        self.assertRegex(done.stderr, r"no room for 20000\d\d bytes: \d+ free")
        done = self.slabyard(*client, "get", "1", "a")
        self.assertEqual(len(done.stdout), 256 << 10)
        self.slabyard(*client, "rm", f"8-{rows}")
        done = self.slabyard(*client, "get", "0", "a")
        self.assertEqual(len(done.stdout), 2000000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
