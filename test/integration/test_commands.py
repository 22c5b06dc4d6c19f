"""load, dump, put, get, rm, ls: what a user types, against a real cluster."""

import json
import math
import os
import pty
import random
import re
import resource
import select
import signal
import struct
import subprocess
import unittest

from test_cluster import PATIENCE_S, SLABYARD, ClusterCase, without_waiting

DATA = os.environ.get("SLABYARD_DATA") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../../shared/data"
)
ROLLOUTS = os.path.join(DATA, "gsm8k/example_model_solutions.jsonl")


def flatten(value, prefix=""):
    """As load names fields: a.b for nested objects; an empty one is a value."""
    flat = {}
    for name, part in value.items():
        if isinstance(part, dict) and part:
            flat.update(flatten(part, prefix + name + "."))
        else:
            flat[prefix + name] = part
    return flat


def same(a, b):
    """Equal in kind, too: 1, 1.0 and true are three things, and so are 0.0 and -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b


class CommandCase(ClusterCase):
    units, size = 3, "4MiB"

    def setUp(self):
        super().setUp()
        self.up(self.units, self.size)

    def run_with(self, data, *words, status=0):
        """Like slabyard(), with bytes on stdin and out of stdout."""
        done = subprocess.run(
            [SLABYARD, "--run-dir", self.run_dir, *words],
            input=data,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        told = without_waiting(done.stderr.decode())
        if status == 0:
            self.assertEqual(told, "", words)
        else:
            self.assertEqual(done.stdout, b"", words)
            self.assertEqual(told.count("\n"), 1, told)
            self.assertTrue(told.startswith("slabyard "), told)
        return done.stdout if status == 0 else told

    def command(self, *words, status=0):
        out = self.run_with(b"", *words, status=status)
        return out if status != 0 else out.decode()

    def load(self, lines, *words, status=0):
        out = self.run_with("".join(lines).encode(), "load", "-", *words, status=status)
        return out if status != 0 else out.decode()

    def dump(self, *words):
        return [json.loads(line) for line in self.command("dump", *words).splitlines()]

    def assert_all_free(self):
        for unit in self.reports():
            self.assertEqual(unit["bytes"]["free"], unit["capacity_bytes"])
            self.assertEqual((unit["rows"], unit["entries"], unit["pins"]), (0, 0, 0))


class TestRollouts(CommandCase):
    """The file of real rollouts, in at one process and out at another."""

    size = "64MiB"

    def setUp(self):
        if not os.path.exists(ROLLOUTS):
            self.skipTest("no shared data")
        super().setUp()

    def test_in_and_out(self):
        self.assert_all_free()
        out = self.command("load", ROLLOUTS)
        self.assertRegex(out, r"^loaded 1319 rows \(0-1318\), 13190 values, ")
        with open(ROLLOUTS) as file:
            want = [flatten(json.loads(line)) for line in file]
        got = self.dump()
        self.assertEqual(len(got), 1319)
        for row, (a, b) in enumerate(zip(want, got)):
            self.assertTrue(same(a, b), f"row {row}: {a} is not {b}")
        reports = self.reports()
        self.assertEqual(sum(unit["entries"] for unit in reports), 13190)
        self.assertEqual([unit["rows"] for unit in reports], [440, 440, 439])
        held = sum(unit["bytes"]["published"] for unit in reports)
        self.assertGreater(held, os.path.getsize(ROLLOUTS) // 2)
        self.assertEqual(self.command("rm", "0-1318"), "removed 13190 values\n")
        self.assert_all_free()
        self.assertEqual(self.command("dump"), "")
        self.down()
        self.assert_nothing_is_left()

    def test_elsewhere(self):
        first = 2**64 - 1319
        self.command("load", ROLLOUTS, "--first-row", str(first))
        got = self.dump("--rows", f"{2**64 - 1}", "--fields", "question,6b_finetuning.is_correct")
        with open(ROLLOUTS) as file:
            last = json.loads(file.read().splitlines()[-1])
        self.assertEqual(got, [{
            "question": last["question"],
            "6b_finetuning.is_correct": last["6b_finetuning"]["is_correct"],
        }])  # fmt: skip
        out = self.command("load", ROLLOUTS, "--first-row", str(first + 1), status=1)
        self.assertIn("line 1319: its row would be over 2^64 - 1", out)
        self.assertIn("1318 rows before were loaded", out)


class TestLoad(CommandCase):
    def test_kinds(self):
        row = {
            "one": 1, "real": 1.0, "truth": True, "no": False, "nothing": None, "text": "é😀\0\n",
            "blank": "", "ints": [1, -2, 3], "reals": [0.5, 1e300, -0.0, 5e-324],
            "truths": [True, False], "mixed": [1, 1.0, True, None, "x", {"a": [{}]}],
            "none": [], "empty": {}, "deep": {"a": {"b": [[1], [2.5]]}, "": 1}, "a@b": 2,
            "least": -(2**63), "most": 2**63 - 1, "over": 2**63, "top": 2**64 - 1,
            "large": [2**64 - 1, 0], "both": [2**64 - 1, -1], "minus": -0.0,
        }  # fmt: skip
        self.load([json.dumps(row) + "\n"])
        got = self.dump()
        self.assertTrue(same(flatten(row), got[0]), f"{row} came as {got}")
        kinds = {e["field"]: e for e in json.loads(self.command("ls", "--json"))}
        for field, kind, dtype, shape in [
            ("one", "tensor", "i64", []),
            ("real", "tensor", "f64", []),
            ("truth", "tensor", "bool", []),
            ("nothing", "json-null", None, []),
            ("text", "utf8", None, []),
            ("ints", "tensor", "i64", [3]),
            ("reals", "tensor", "f64", [4]),
            ("truths", "tensor", "bool", [2]),
            ("mixed", "json", None, []),
            ("none", "json", None, []),
            ("over", "tensor", "u64", []),
            ("large", "tensor", "u64", [2]),
            ("deep.a.b", "json", None, []),
        ]:
            entry = kinds[field]
            self.assertEqual((entry["kind"], entry["dtype"], entry["shape"]), (kind, dtype, shape))

    def test_random_rows_come_back(self):
        seed = random.randrange(2**32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)

        def value(depth):
            kind = chance.randrange(9 if depth < 3 else 6)
            if kind == 0:
                return chance.randrange(-(2**63), 2**64)
            if kind == 1:
                return struct.unpack("d", struct.pack("Q", chance.getrandbits(63) >> 2))[0]
            if kind == 2:
                return chance.choice([True, False, None])
            if kind in (3, 4):
                return "".join(chr(chance.choice([9, 34, 92, 65, 233, 8364, 128512])) for _ in
                               range(chance.randrange(8)))  # fmt: skip
            if kind == 5:
                return [chance.randrange(100) for _ in range(chance.randrange(5))]
            if kind == 6:
                return [value(depth + 1) for _ in range(chance.randrange(4))]
            return {f"k{i}": value(depth + 1) for i in range(chance.randrange(4))}

        rows = [{f"f{i}": value(0) for i in range(chance.randrange(1, 9))} for _ in range(300)]
        self.load([json.dumps(row, ensure_ascii=chance.random() < 0.5) + "\n" for row in rows])
        got = self.dump()
        self.assertEqual(len(got), len(rows))
        for want, is_now in zip(rows, got):
            self.assertTrue(same(flatten(want), is_now), f"{want} came as {is_now}")

    def test_blank_lines_count(self):
        out = self.load(['\ufeff{"a":1}\r\n', "\n", " \t\r\n", '{"a":2}'], "--first-row", "10")
        self.assertIn("loaded 2 rows (10-13), 2 values", out)
        rows = {e["row"] for e in json.loads(self.command("ls", "--json"))}
        self.assertEqual(rows, {10, 13})
        self.assertIn("loaded 0 rows", self.load([]))
        self.assertIn("loaded 0 rows", self.load(["\n"]))
        self.assertIn("loaded 1 row (0), 1 value, ", self.load(['{"a":1}']))

    def test_bad_lines(self):
        for line, part in [
            ("[1]", "a line holds one JSON object, not an array"),
            ("{}", "an empty object is no row"),
            ('{"a":1', '"}" is missing, at the end'),
            ('{"a":1,"a":2}', 'the key "a" stands twice'),
            ('{"a":{"b":1},"a.b":2}', 'two values have the flat name "a.b"'),
            ('{"":1}', 'the field name "" is empty'),
            ('{"%s":1}' % ("n" * 1025), "is longer than 1024 bytes"),
            ('{"a":NaN}', "NaN is no JSON value, at column 6"),
            ('{"a":18446744073709551616}', "the number 18446744073709551616 at column 6 is out"),
            ('{"a":1e999}', "is out of range"),
            ('{"a":"\\ud800"}', "half of a surrogate pair"),
            ("nonsense", "a value is missing, at column 1"),
        ]:
            out = self.load(['{"ok":1}\n', "\n", line + "\n", '{"not":1}\n'], status=1)
            self.assertIn("stdin, line 3: ", out)
            self.assertIn(part, out)
            self.assertTrue(out.endswith("; 1 row before was loaded\n"), out)
            self.assertEqual(self.dump(), [{"ok": 1}])
            self.command("rm", "0-9")
        done = self.run_with(b'{"a":"\xff"}\n', "load", "-", status=1)
        self.assertIn("line 1: this is not UTF-8, at column 7; 0 rows before were loaded", done)
        self.assert_all_free()

    def test_bad_files(self):
        missing = os.path.join(self.top, "missing")
        self.assertIn("No such file", self.command("load", missing, status=1))
        self.assertIn("is a directory", self.command("load", self.top, status=1))
        path = os.path.join(self.top, "named.jsonl")
        with open(path, "w") as file:
            file.write('{"a":1}\n{"a":}\n')
        self.assertIn(f"{path}, line 2: ", self.command("load", path, status=1))

    def test_full_cluster(self):
        line = json.dumps({"a": "x" * 1000}) + "\n"
        out = self.load([line] * 20000, status=1)
        self.assertRegex(out, r"lines \d+-\d+: .*no room for \d+ bytes: ")
        self.assertRegex(out, r"remove rows with `slabyard rm`.*; \d+ rows before were loaded")
        self.command("rm", "0-20000")
        self.assert_all_free()

    def test_too_many_names_of_fields(self):
        rows = [json.dumps({f"f{i}": i for i in range(4097)}) + "\n"]
        out = self.load(rows, status=1)
        self.assertIn("no room: 4097 more fields needed, 4096 free; ", out)
        self.assertIn("a unit knows so many names of fields at once: use fewer, or remove", out)
        self.load([json.dumps({f"f{i}": i for i in range(4096)}) + "\n"])
        self.assertIn("fields needed", self.run_with(b"", "put", "3", "one more", status=1))
        self.command("rm", "0")
        self.run_with(b"", "put", "3", "one more")

    def test_100_000_rows(self):
        self.down()
        self.up(3, "64MiB", "--max-entries", "70000")
        self.load([f'{{"n":{i},"s":"{i}"}}\n' for i in range(100000)])
        got = self.dump()
        self.assertEqual(got, [{"n": i, "s": str(i)} for i in range(100000)])
        self.assertEqual(self.command("rm", "0-99999"), "removed 200000 values\n")
        self.assert_all_free()

    def test_a_line_longer_than_a_batch(self):
        self.down()
        self.up(1, "64MiB")
        text = "y" * (20 << 20)
        self.load(['{"a":1}\n', json.dumps({"a": text}) + "\n", '{"a":[%s1]}' % ("1," * 100000)])
        got = self.dump()
        self.assertEqual([got[0]["a"], got[1]["a"] == text, got[2]["a"]], [1, True, [1] * 100001])

    def test_fields_that_stand_already(self):
        self.load(['{"a":1,"b":2}\n'])
        self.load(['{"b":"new","c":3}\n'])
        self.assertEqual(self.dump(), [{"a": 1, "b": "new", "c": 3}])

    def test_progress_is_for_terminals_alone(self):
        lines = os.path.join(self.top, "lines.jsonl")
        with open(lines, "w") as file:
            file.writelines(f'{{"n":{i}}}\n' for i in range(20000))
        main, other = pty.openpty()
        try:
            done = subprocess.Popen(
                [SLABYARD, "--run-dir", self.run_dir, "load", lines],
                stdout=subprocess.PIPE,
                stderr=other,
            )
            os.close(other)
            drawn = b""
            while select.select([main], [], [], PATIENCE_S)[0]:
                try:
                    part = os.read(main, 4096)
                except OSError:
                    break
                if not part:
                    break
                drawn += part
            out = done.stdout.read()
            self.assertEqual(done.wait(timeout=PATIENCE_S), 0)
            done.stdout.close()
        finally:
            os.close(main)
        self.assertIn(b"loaded 20000 rows", out)
        self.assertRegex(drawn, rb"\rload  \[[#.]{24}\] +\d+%  \d+ rows, ")
        self.assertTrue(drawn.endswith(b"\r\x1b[K"), drawn[-40:])


class TestDump(CommandCase):
    def test_rows_and_fields(self):
        self.load(['{"a":%d,"b":"x","c":null}\n' % i for i in range(10)])
        self.assertEqual(
            self.dump("--rows", "2-3,7", "--fields", "c,a"),
            [{"a": i, "c": None} for i in (2, 3, 7)],
        )
        self.assertEqual(self.dump("--rows", "20-30"), [])
        self.assertEqual(self.dump("--fields", "nope"), [])
        text = self.command("dump", "--rows", "4")
        self.assertEqual(text, '{"a":4,"b":"x","c":null}\n')

    def test_what_json_has_no_form_for(self):
        self.run_with(b"\0\xff", "put", "1", "raw")
        self.run_with(struct.pack("<4f", 1, math.inf, -math.inf, 0.5), "put", "1", "floats",
                      "--dtype", "f32", "--shape", "2,2")  # fmt: skip
        self.run_with(struct.pack("<2H", 0x3F80, 0x7FC0), "put", "1", "brain", "--dtype", "bf16")
        self.run_with(struct.pack("<2d", 1.5, -2), "put", "1", "complex", "--dtype", "c128")
        self.assertEqual(self.dump(), [{
            "brain": [1.0, {"$float": "nan"}],
            "complex": [[1.5, -2.0]],
            "floats": [[1.0, {"$float": "inf"}], [{"$float": "-inf"}, 0.5]],
            "raw": {"$bytes": "AP8="},
        }])  # fmt: skip

    def test_a_reader_that_goes_away_is_no_failure(self):
        self.load(['{"a":"%s"}\n' % ("z" * 1000) for _ in range(2000)])
        done = subprocess.run(
            f"{SLABYARD} dump --run-dir {self.run_dir} | head -n 1; exit ${{PIPESTATUS[0]}}",
            shell=True, executable="/bin/bash", capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(len(json.loads(done.stdout)["a"]), 1000)

    def test_a_full_disk_is_a_failure(self):
        self.load(['{"a":1}\n'])
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [SLABYARD, "--run-dir", self.run_dir, "dump"], stdout=full, stderr=subprocess.PIPE
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the output: No space left", done.stderr)


class TestPutAndGet(CommandCase):
    def test_sizes(self):
        for size in (0, 1, 63, 64, 65, 4095, 8192, 8193, 100000, 3 << 20):
            data = random.Random(size).randbytes(size)
            path = os.path.join(self.top, "value")
            with open(path, "wb") as file:
                file.write(data)
            for row, words, given in [(5, [path], b""), (6, [], data), (7, ["-"], data)]:
                out = self.run_with(given, "put", str(row), "f", *words)
                plural = "" if size == 1 else "s"
                self.assertEqual(out.decode(), f"put {size} byte{plural} as {row}@f\n")
                self.assertEqual(self.run_with(b"", "get", str(row), "f"), data)
                target = os.path.join(self.top, "out")
                self.command("get", str(row), "f", "-o", target)
                with open(target, "rb") as file:
                    self.assertEqual(file.read(), data)
        self.command("rm", "5-7")
        self.assert_all_free()

    def test_larger_than_the_slab(self):
        out = self.run_with(b"x" * (5 << 20), "put", "0", "f", status=1)
        self.assertRegex(out, r"no room for \d+ bytes: 4194304 free, the largest hole has 4194304")
        self.assertIn("slabyard rm", out)
        self.assert_all_free()

    def test_fields_and_rows_at_their_ends(self):
        for field in ("a@b", "@", "é" * 512, "n" * 1024, "with space", ".", "-x"):
            self.run_with(b"v", "put", "--", str(2**64 - 1), field)
            self.assertEqual(self.run_with(b"", "get", "--", str(2**64 - 1), field), b"v")
        for field, part in [("", "is empty"), ("n" * 1025, "is longer than 1024 bytes"),
                            (b"\xff", "is not valid UTF-8")]:  # fmt: skip
            for word in ("put", "get"):
                self.assertIn(part, self.command(word, "1", field, status=2))
        for row, part in [("01", "leading zero"), ("-1", "no option -1"), ("x", "is not a whole"),
                          (str(2**64), "is over 18446744073709551615"), ("", "is empty"),
                          ("1.0", "is not a whole"), ("1@a", "is not a whole")]:  # fmt: skip
            for word in ("put", "get"):
                self.assertIn(part, self.command(word, row, "f", status=2))

    def test_absent_is_not_empty(self):
        self.run_with(b"", "put", "1", "empty")
        self.assertEqual(self.run_with(b"", "get", "1", "empty"), b"")
        target = os.path.join(self.top, "out")
        with open(target, "w") as file:
            file.write("before")
        out = self.command("get", "1", "absent", "-o", target, status=1)
        self.assertIn('row 1 has no field "absent": `slabyard ls --rows 1` lists', out)
        with open(target) as file:
            self.assertEqual(file.read(), "before")

    def test_output_is_whole_or_not_there(self):
        self.run_with(b"new bytes", "put", "1", "f")
        target, link = os.path.join(self.top, "out"), os.path.join(self.top, "link")
        with open(target, "w") as file:
            file.write("before")
        os.chmod(target, 0o640)
        os.symlink("out", link)
        self.command("get", "1", "f", "-o", link)
        self.assertTrue(os.path.islink(link))
        with open(target) as file:
            self.assertEqual(file.read(), "new bytes")
        self.assertEqual(os.stat(target).st_mode & 0o777, 0o640)
        self.command("get", "1", "f", "-o", "/dev/null")
        self.assertTrue(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"))
        out = self.command("get", "1", "f", "-o", os.path.join(self.top, "no/such"), status=1)
        self.assertIn("No such file", out)
        out = self.command("get", "1", "f", "-o", "/dev/full", status=1)
        self.assertIn("cannot write /dev/full: No space left", out)
        self.assertEqual(sorted(os.listdir(self.top)), ["link", "out", "run"])

    def test_output_that_gets_no_room(self):
        self.run_with(b"x" * 100000, "put", "1", "f")
        target = os.path.join(self.top, "out")

        def bound_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        done = subprocess.run(
            [SLABYARD, "get", "1", "f", "-o", target, "--run-dir", self.run_dir],
            capture_output=True, timeout=PATIENCE_S, preexec_fn=bound_files,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot write {target}: File too large", done.stderr.decode())
        self.assertEqual(os.listdir(self.top), ["run"])

    def test_text_and_tensors(self):
        self.run_with("é".encode(), "put", "1", "t", "--utf8")
        self.run_with(struct.pack("<3q", 1, 2, 3), "put", "1", "l", "--dtype", "i64")
        self.run_with(struct.pack("<q", 9), "put", "1", "s", "--dtype=i64", "--shape=scalar")
        self.run_with(b"", "put", "1", "e", "--dtype", "f32", "--shape", "0,4")
        self.assertEqual(self.dump(), [{"e": [], "l": [1, 2, 3], "s": 9, "t": "é"}])
        for data, words, part in [
            (b"\xe9", ["--utf8"], "not UTF-8 from byte 0 on"),
            (b"123", ["--dtype", "i64"], "3 bytes are no whole number of i64, which take 8 each"),
            (b"123", ["--dtype", "i8", "--shape", "2,2"], "takes 4 bytes, and there are 3"),
            (b"", ["--dtype", "i8", "--shape", f"{2**63},4"], "is too large"),
        ]:
            self.assertIn(part, self.run_with(data, "put", "1", "x", *words, status=1))
        for words, part in [
            (["--dtype", "f31"], 'no type "f31"'),
            (["--shape", "2"], "give --dtype, too"),
            (["--utf8", "--dtype", "i8"], "not both"),
            (["--dtype", "i8", "--shape", "2,x"], "a shape is as 2,3 or scalar"),
            (["--dtype", "i8", "--shape", "1,1,1,1,1,1,1,1,1"], "more than 8 sizes"),
        ]:
            self.assertIn(part, self.run_with(b"", "put", "1", "x", *words, status=2))


class TestRmAndLs(CommandCase):
    def test_rm(self):
        self.load(['{"a":1,"b":2}\n'] * 20)
        self.assertEqual(self.command("rm", "0-4,7"), "removed 12 values\n")
        self.assertEqual(self.command("rm", "0-4,7"), "removed 0 values\n")
        self.assertEqual(self.command("rm", "8", "--fields", "b,nope"), "removed 1 value\n")
        left = {(e["row"], e["field"]) for e in json.loads(self.command("ls", "--json"))}
        gone = {0, 1, 2, 3, 4, 7}
        want = {(r, f) for r in range(20) if r not in gone for f in "ab"} - {(8, "b")}
        self.assertEqual(left, want)
        self.run_with(b"x", "put", str(2**64 - 1), "far")
        out = self.command("rm", f"5-{2**64 - 1}", "--fields", "far")
        self.assertEqual(out, "removed 1 value\n")
        self.assertEqual(self.command("rm", f"0-{2**64 - 1}"), "removed 27 values\n")
        self.assert_all_free()
        for rows, part in [("", "is empty"), ("9-1", "run backwards"), ("1-", "is empty"),
                           ("a", "is not a whole decimal number"), ("1,,2", "is empty"),
                           ("-1", "no option -1")]:  # fmt: skip
            self.assertIn(part, self.command("rm", rows, status=2))
        self.assertIn("is longer than", self.command("rm", "1", "--fields", "n" * 1025, status=2))

    def test_ls(self):
        self.assertEqual(self.command("ls"), "0 rows, 0 values, 0 B\n")
        self.assertEqual(json.loads(self.command("ls", "--json")), [])
        self.load(['{"a":[1,2],"text":"abc"}\n'] * 3)
        text = self.command("ls", "--rows", "1-2")
        self.assertEqual(
            [line.split() for line in text.splitlines()],
            [
                ["row", "field", "type", "shape", "bytes"],
                ["1", "a", "i64", "[2]", "16"],
                ["1", "text", "utf8", "3"],
                ["2", "a", "i64", "[2]", "16"],
                ["2", "text", "utf8", "3"],
                ["2", "rows,", "4", "values,", "38", "B"],
            ],
        )
        entries = json.loads(self.command("ls", "--json", "--fields", "a", "--rows", "2"))
        self.assertEqual(entries, [
            {"row": 2, "field": "a", "kind": "tensor", "dtype": "i64", "shape": [2], "bytes": 16}
        ])  # fmt: skip

    def test_names_that_would_play_tricks(self):
        name = "a\n\x1b[2J\"b"
        self.run_with(b"x", "put", "1", name)
        self.assertIn(r"a\n\u001b[2J\"b", self.command("ls"))
        self.assertEqual(json.loads(self.command("ls", "--json"))[0]["field"], name)
        self.assertEqual(list(self.dump()[0]), [name])

    def test_many_fields_sorted(self):
        row = {f"f{i}": i for i in range(3000)}
        self.load([json.dumps(row) + "\n"])
        text = self.command("dump")
        self.assertEqual(json.loads(text), row)
        names = re.findall(r'"(f\d+)"', text)
        self.assertEqual(names, sorted(names))


class TestUsage(ClusterCase):
    def test_no_cluster(self):
        for words in (["load", "/dev/null"], ["dump"], ["put", "1", "a"], ["get", "1", "a"],
                      ["rm", "1"], ["ls"]):  # fmt: skip
            done = self.slabyard("--run-dir", self.run_dir, *words, status=1)
            self.assertIn(f"no cluster runs in {self.run_dir}: `slabyard up", done.stderr)
            done = self.slabyard(*words, status=2, env={"SLABYARD_RUN_DIR": ""})
            self.assertIn("give --run-dir DIR or set SLABYARD_RUN_DIR", done.stderr)

    def test_misspelt(self):
        for words, part in [
            (["lod", "x"], "did you mean load?"),
            (["dmup"], "did you mean dump?"),
            (["load", "x", "--frist-row", "1"], "did you mean --first-row?"),
            (["dump", "--row", "1"], "did you mean --rows?"),
            (["dump", "--field", "a"], "did you mean --fields?"),
            (["put", "1", "a", "--utf-8"], "did you mean --utf8?"),
            (["put", "1", "a", "--dtpe", "i8"], "did you mean --dtype?"),
            (["get", "1", "a", "--ouput", "x"], "did you mean --output?"),
            (["get", "1", "a", "-p", "x"], "no option -p"),
            (["ls", "--jsn"], "did you mean --json?"),
            (["rm", "1", "--feilds", "a"], "did you mean --fields?"),
            (["demo", "--producer", "1"], "did you mean --producers?"),
            (["demo", "--rows", "0"], "--rows takes a number of 1 to"),
            (["demo", "--trainers", "x"], "is not a whole decimal number"),
            (["demo", "--slab-bytes", "-1"], "is negative"),
            (["demo", "--producers-by", "env"], "workers on other hosts need --directory: a run"),
            (["demo", "--trainers-by", "env"], "workers on other hosts need --directory: a run"),
            (["demo", "--worker", "trainer:0:2"], "--worker is for the workers that a demo star"),
            (["demo", "--worker", "1"], "--worker is for the workers that a demo starts itself"),
            (["load"], "an argument is missing: give FILE.jsonl"),
            (["load", "a", "b"], '"b" is one argument too many'),
            (["load", "a", "--first-row", "-1"], "is not a whole decimal number"),
            (["put", "1"], "an argument is missing: give GIDX FIELD [FILE]"),
            (["get", "1"], "an argument is missing: give GIDX FIELD"),
            (["rm"], "an argument is missing: give ROWS"),
            (["dump", "--fields", "a,,b"], "is empty; fields are listed as in a,b"),
        ]:
            done = self.slabyard("--run-dir", self.run_dir, *words, status=2)
            self.assertIn(part, done.stderr)
            self.assertIn("--help)", done.stderr)

    def test_checked_options_start_nothing(self):
        run_dir = os.path.join(self.top, "never")
        unit = ["--run-dir", run_dir, "unit", "--check", "--slab-bytes"]
        for words, status, part in [
            (["64MiB"], 0, ""),
            (["-5"], 2, "is negative"),
            (["5"], 2, "at least 64 KiB"),
            (["64MiB", "--ssd-dir", "/tmp"], 2, "a disk tier needs both"),
            (["64MiB", "--ssd-dir", "/tmp", "--ssd-bytes", "2000TiB"], 2, "--ssd-bytes"),
            (["64MiB", "--heartbeat", "5s", "--session-expire", "9s"], 2, "is not over 3 times"),
            (["64MiB", "--listen", "tcp://10.0.0.5:*"], 2, "--keys"),
            (["64MiB", "--policy", "none"], 2, "it is same-host, rdma or allow-tcp"),
            (["64MiB", "--id", "2", "--units", "2"], 2, "unit 2 of 2"),
        ]:
            done = self.slabyard(*unit, *words, status=status)
            self.assertIn(part, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), int(status > 0))
        self.assertFalse(os.path.exists(run_dir))


if __name__ == "__main__":
    unittest.main(verbosity=2)
