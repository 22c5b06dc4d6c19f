"""keygen, --keys: what a unit that listens over tcp says to those who have no key."""

import contextlib
import os
import re
import socket
import stat
import struct
import subprocess
import unittest
from unittest import mock

from test_cluster import PATIENCE_S, SLABYARD, ClusterCase, held_port

# A ZMTP 3.0 greeting as a client without keys sends it: signature, version, mechanism, filler.
SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
GREETING = SIGNATURE + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


class TestKeys(ClusterCase):
    def setUp(self):
        super().setUp()
        self.keys = os.path.join(self.top, "keys")

    def keygen(self, status=0):
        return self.slabyard("keygen", self.keys, status=status)

    def stranger(self, port):
        """Greets without keys and asks; the mechanism it is greeted with, and all that follows
        before it is hung up on."""
        greeting = heard = b""
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
            peer.sendall(SIGNATURE)  # to which the rest of the unit's greeting is the answer
            peer.sendall(GREETING[len(SIGNATURE) : 12])
            while len(greeting) < len(GREETING):
                part = peer.recv(len(GREETING) - len(greeting))
                self.assertTrue(part, "hung up on before the greeting")
                greeting += part
            peer.sendall(GREETING[12:])
            ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
            with contextlib.suppress(ConnectionError):
                peer.sendall(b"\x04" + bytes([len(ready)]) + ready)
                peer.sendall(b"\x00\x04ping")
                while part := peer.recv(4096):
                    heard += part
        return greeting[12:32].rstrip(b"\0"), heard

    def test_keygen(self):
        self.assertEqual(
            self.keygen().stdout, f"made server.key and client.key in {self.keys}\n"
        )
        self.assertEqual(stat.S_IMODE(os.stat(self.keys).st_mode), 0o700)
        texts = {}
        for name in ("server.key", "client.key"):
            path = os.path.join(self.keys, name)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            with open(path) as file:
                texts[name] = dict(line.split(" ") for line in file.read().splitlines())
        server, client = texts["server.key"], texts["client.key"]
        self.assertEqual(server["server-public"], client["server-public"])
        self.assertEqual(server["client-public"], client["client-public"])
        self.assertEqual(len({*server.values(), *client.values()}), 4)
        self.assertIn("File exists", self.keygen(status=1).stderr)

    def test_a_stranger_is_told_nothing(self):
        self.keygen()
        with held_port() as port:
            number = port.getsockname()[1]
            self.up(1, "4MiB", "--keys", self.keys, "--listen", f"tcp://127.0.0.1:{number}")
        self.assertEqual(self.stranger(number), (b"CURVE", b""))
        # Those of the host, whom the run directory lets in, work as ever.
        self.assertTrue(self.reports()[0]["answered"])
        self.down()
        self.assert_nothing_is_left()

    def begin(self, *words):
        """A process that says in its first line when it is ready."""
        process = subprocess.Popen(
            [SLABYARD, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, PATIENCE_S)
        self.addCleanup(process.terminate)
        return process, process.stdout.readline()

    def test_a_cluster_over_tcp(self):
        """A directory and a unit that know each other by keys, as on two hosts."""
        self.keygen()
        keys = ["--keys", self.keys]
        _, line = self.begin("directory", "--run-dir", self.run_dir, "--units", "1", *keys,
                             "--listen", "tcp://127.0.0.1:*")  # fmt: skip
        address = re.fullmatch(r"directory up at (tcp://127\.0\.0\.1:(\d+))\n", line)
        self.assertTrue(address, line)
        there = ["--directory", address[1]]
        elsewhere = os.path.join(self.top, "elsewhere")
        _, line = self.begin("unit", "--run-dir", elsewhere, "--slab-bytes", "4MiB", *there, *keys)
        self.assertIn(f"up, registered at {address[1]}", line)
        self.assertIn("active", self.slabyard("status", *there, *keys).stdout)
        self.assertEqual(self.slabyard("drain", "0", *there, *keys).stdout, "unit 0 drains\n")
        self.assertIn("draining", self.slabyard("status", *there, *keys).stdout)
        asks = f"{re.escape(address[1])} asks for keys: name the folder of its client.key"
        for words in (["status"], ["ls"], ["put", "0", "x", "/dev/null"]):
            # None waits for the end of its time: a listener of another kind is never heard.
            done = self.slabyard(*words, *there, "--timeout", "10m", status=1)
            self.assertRegex(done.stderr, asks)
        for words in (["demo"], ["drain", "0"]):
            self.assertRegex(self.slabyard(*words, *there, status=1).stderr, asks)
        words = ["unit", "--run-dir", os.path.join(self.top, "late"), "--slab-bytes", "4MiB"]
        self.assertRegex(self.slabyard(*words, *there, status=1).stderr, asks)
        other = os.path.join(self.top, "other")
        self.slabyard("keygen", other)
        self.slabyard("status", *there, "--keys", other, status=1)
        self.assertEqual(self.stranger(int(address[2])), (b"CURVE", b""))

    def test_a_unit_that_asks_for_keys(self):
        """The run directory leads to the directory without keys, and to the units over tcp."""
        self.keygen()
        ucx = mock.patch.dict(os.environ, UCX_TLS="tcp", UCX_NET_DEVICES="lo")
        ucx.start()
        self.addCleanup(ucx.stop)
        self.up(2, "4MiB", "--keys", self.keys, "--policy", "allow-tcp")
        there = ["--run-dir", self.run_dir, "--transport", "ucx", "--policy", "allow-tcp"]
        text = os.path.join(self.top, "text")
        with open(text, "w") as file:
            file.write("text")
        for words in (["put", "1", "x", text], ["get", "1", "x"], ["ls"], ["rm", "1"], ["dump"]):
            done = self.slabyard(*words, *there, "--timeout", "10m", status=1)
            self.assertRegex(done.stderr, r"unit \d: who listens at tcp://\S+ asks for keys")
        done = self.slabyard("demo", *there, status=1)
        self.assertRegex(done.stderr, r"unit \d: who listens at tcp://\S+ asks for keys")
        self.slabyard("put", "1", "x", text, *there, "--keys", self.keys)

    def test_keys_for_a_directory_that_has_none(self):
        self.keygen()
        _, line = self.begin("directory", "--run-dir", self.run_dir, "--units", "1", "--listen",
                             "tcp://127.0.0.1:*")  # fmt: skip
        address = re.search(r"tcp://\S+", line)[0]
        words = ["--directory", address, "--keys", self.keys, "--timeout", "10m"]
        done = self.slabyard("status", *words, status=1)
        self.assertIn(f"{address} has no keys: give none (leave out --keys), or", done.stderr)

    def test_without_keys_no_other_host(self):
        done = self.up(1, "4MiB", "--listen", "tcp://192.0.2.1:*", status=1)
        self.assertIn("give --keys DIR (`slabyard keygen DIR` makes them), or say", done.stderr)
        done = self.up(1, "4MiB", "--listen", "tcp://192.0.2.1:*", "--keys", self.keys, status=1)
        self.assertIn(f"cannot open the keys in {self.keys}: No such file", done.stderr)
        os.mkdir(self.keys)
        done = self.up(1, "4MiB", "--keys", self.keys, status=1)
        self.assertIn("server.key: No such file or directory; `slabyard keygen", done.stderr)
        os.rmdir(self.keys)
        self.keygen()
        done = self.up(1, "4MiB", "--listen", "tcp://192.0.2.1:*", "--keys", self.keys, status=1)
        self.assertIn("this host has no such address", done.stderr)  # so it would have listened


if __name__ == "__main__":
    unittest.main(verbosity=2)
