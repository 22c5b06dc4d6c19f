"""One batch of GRPO's shape through TransferQueue's public API, on several of its backends.

Put, get and clear of 512 rows by 8 fields, 4 of them jagged. Each backend has a process of its own
and a Ray of its own; round by round they take turns, and the first rounds warm up. Each gives back
tensors that the caller owns, which are summed inside the timed region. Two times are told: of the
storage calls alone (the manager's put_data, without the word to the controller, and get_data), and
of the whole API. The rest of the latter is TransferQueue's own and the same for all.

    scripts/bench --suite transferqueue
    scripts/python transferqueue run bench/transferqueue.py    the same with other CPUs
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
os.environ.setdefault("TQ_LOGGING_LEVEL", "ERROR")

UNITS = 2
BLOCKS = {
    "SimpleStorage": {"num_data_storage_units": UNITS},
    "SlabyardStore": {"num_storage_units": UNITS, "slab_bytes": "256MiB"},
    "MooncakeStore": {
        "global_segment_size": 512 << 20,
        "local_buffer_size": 256 << 20,
        "protocol": "tcp",
    },
}
WHO = {
    "SlabyardStore": "slabyard",
    "SimpleStorage": "transferqueue",
    "MooncakeStore": "mooncake",
}
STEPS = ("put_data", "notify_data_update", "get_data", "put", "get", "clear")
WARM_UP = 3


def batch(rows):
    import torch
    from tensordict import TensorDict

    seed = torch.Generator().manual_seed(7)
    lengths = torch.randint(32, 513, (rows,), generator=seed).tolist()
    total = sum(lengths)

    def jagged(values):
        return torch.nested.as_nested_tensor(list(values.split(lengths)), layout=torch.jagged)

    floats = [torch.randn(total, generator=seed) for _ in range(3)]
    return TensorDict(
        {
            "input_ids": jagged(torch.randint(0, 150000, (total,), generator=seed)),
            "generation_logprobs": jagged(floats[0]),
            "prev_logprobs": jagged(floats[1]),
            "token_mask": jagged((floats[2] > 0).float()),
            "input_lengths": torch.tensor(lengths),
            "sample_mask": torch.ones(rows),
            "reward": torch.randn(rows, generator=seed),
            "features": torch.randn(rows, 16, generator=seed),
        },
        batch_size=rows,
    )


def sums(data):
    columns = (data[field] for field in sorted(data.keys()))
    return [float((c.values() if c.is_nested else c).double().sum()) for c in columns]


class Timed:
    """Adds the time that a method of the manager takes to times[name]."""

    def __init__(self, times, manager, name, after=lambda result: None):
        self._times, self._name, self._after = times, name, after
        self._method = getattr(manager, name)
        setattr(manager, name, self)

    async def __call__(self, *arguments, **named):
        began = time.perf_counter()
        result = await self._method(*arguments, **named)
        self._after(result)
        self._times[self._name].append(time.perf_counter() - began)
        return result


def one_round(client, data, partition, times):
    """Puts, gets and clears the batch, adds what each took, and returns the sums of what came."""
    rows, fields = data.batch_size[0], list(data.keys())
    marks = [time.perf_counter()]
    client.put(data, partition_id=partition)
    marks.append(time.perf_counter())
    meta = client.get_meta(
        fields, batch_size=rows, partition_id=partition, mode="fetch", task_name="t"
    )
    got = sums(client.get_data(meta))
    marks.append(time.perf_counter())
    client.clear_samples(meta)
    marks.append(time.perf_counter())
    for step, began, ended in zip(("put", "get", "clear"), marks, marks[1:]):
        times[step].append(ended - began)
    return got


def take_turns(backend, rows):
    """Runs one backend in this process: a round for each line that comes, {step: seconds} back."""
    import ray
    import transfer_queue as tq

    import slabyard.transfer_queue

    ray.init("local", num_cpus=8, object_store_memory=200 << 20, include_dashboard=False)
    conf = tq.init({"backend": {"storage_backend": backend, backend: BLOCKS[backend]}})
    times = {step: [] for step in STEPS}
    master = None
    if backend == "MooncakeStore":
        master = tq.interface._TQ_STORAGE[backend]
    try:
        client = tq.get_client()
        for name in STEPS[:2]:
            Timed(times, client.storage_manager, name)
        Timed(times, client.storage_manager, "get_data", sums)
        data = batch(rows)
        want = sums(data)
        print(json.dumps({}), flush=True)  # it is ready
        for k, _ in enumerate(sys.stdin):
            got = one_round(client, data, f"step-{k}", times)
            if got != want:
                raise SystemExit(f"{backend} gave other values back: {got}, not {want}")
            print(json.dumps({step: values[-1] for step, values in times.items()}), flush=True)
    finally:
        tq.close()
        if backend == "SlabyardStore":
            slabyard.transfer_queue.shutdown(conf)
        if master is not None:
            master.terminate()
        ray.shutdown()


class Contender:
    """One backend's process, which does a round when it is told to."""

    def __init__(self, backend, rows):
        self.backend, self.times, self.why = backend, {step: [] for step in STEPS}, None
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--only", backend, "--rows", str(rows)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, "PATH": path},  # Mooncake's master is beside python
        )  # fmt: skip
        self.answer()

    def answer(self):
        """What it says next, or None, and why: it is out."""
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().strip().splitlines()
        self.why = said[-1] if said else f"status {code}"
        return None

    def round(self, counts):
        if self.why is not None:
            return
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # why it ended is in what it said
        times = self.answer()
        for step in STEPS if times and counts else ():
            self.times[step].append(times[step])

    def end(self):
        self.process.stdin.close()
        for _ in self.process.stdout:
            pass
        self.process.wait()
        self.errors.close()


def measure(rows, rounds):
    """Every backend's times, {backend: {step: [seconds]}}, of those that ran."""
    all_of_them = [Contender(backend, rows) for backend in BLOCKS]
    for k in range(WARM_UP + rounds):
        for i in range(len(all_of_them)):
            all_of_them[(i + k) % len(all_of_them)].round(counts=k >= WARM_UP)
    for one in all_of_them:
        one.end()
        if one.why is not None:
            print(f"{one.backend} not measured: {one.why}")
    return {one.backend: one.times for one in all_of_them if one.why is None}


def records(results, rounds):
    """As scripts/bench has them: what each call of the API took."""
    ours = results.get("SlabyardStore")
    for step in ("put", "get", "clear"):
        for backend, times in results.items():
            us = sorted(1e6 * seconds for seconds in times[step])
            record = {"case": f"transferqueue-{step}", "who": WHO[backend],
                      "p50_us": statistics.median(us), "p99_us": us[len(us) * 99 // 100],
                      "gb_s": None, "client_cpu_s_per_gib": None, "server_cpu_s_per_gib": None,
                      "runs": rounds}  # fmt: skip
            if ours:
                record["ours_over_theirs"] = statistics.median(
                    mine / theirs for mine, theirs in zip(ours[step], times[step])
                )
            yield record


def table(results):
    print(f"{'ms, median of rounds':24}" + "".join(f"{name:>15}" for name in results))
    made = {}
    for name, times in results.items():
        ms = {step: 1e3 * statistics.median(times[step]) for step in STEPS}
        puts = [a - b for a, b in zip(times["put_data"], times["notify_data_update"])]
        ms["storage put"], ms["storage get"] = 1e3 * statistics.median(puts), ms["get_data"]
        ms["storage put + get"] = ms["storage put"] + ms["storage get"]
        ms["API put"], ms["API get"], ms["API clear"] = ms["put"], ms["get"], ms["clear"]
        ms["API put + get + clear"] = ms["put"] + ms["get"] + ms["clear"]
        ms["of it outside storage"] = ms["API put + get + clear"] - ms["storage put + get"]
        made[name] = ms
    for row in list(next(iter(made.values())))[len(STEPS) :]:
        print(f"{row:24}" + "".join(f"{ms[row]:15.2f}" for ms in made.values()))
    for name, ms in made.items():
        if name != "SlabyardStore" and "SlabyardStore" in made:
            for row in ("storage put + get", "API put + get + clear"):
                ratio = ms[row] / made["SlabyardStore"][row]
                print(f"{row}: slabyard is {ratio:.1f} times as fast as {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write records of the API's times there")
    parser.add_argument("--only", choices=BLOCKS, help="one backend, a round a line of the input")
    options = parser.parse_args()
    if options.only:
        take_turns(options.only, options.rows)
        return
    results = measure(options.rows, options.rounds)
    if results:
        table(results)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(list(records(results, options.rounds)), file)
    if "SlabyardStore" not in results:
        raise SystemExit(1)  # the others may be left out


if __name__ == "__main__":
    main()
