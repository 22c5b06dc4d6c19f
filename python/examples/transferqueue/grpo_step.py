"""A step of GRPO through TransferQueue on slabyard units, under Ray, checked byte for byte.

Producers put groups of real rollouts (four solutions of a problem each, from a JSON-lines file as
../shared/data/gsm8k has), trainers read them, make the advantages of each group and write them
back, and the controller reads everything and clears it. Whoever reads makes anew from the file
what should have come, and compares bytes. Exits 1 on a wrong byte.

    python python/examples/transferqueue/grpo_step.py FILE.jsonl
"""

import argparse
import json
import os
import random
import sys
import time

os.environ.setdefault("RAY_prestart_worker_first_driver", "0")

import ray
import torch
import transfer_queue as tq
from tensordict import TensorDict

import slabyard.transfer_queue

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
PARTITION = "step-0"
BATCH = 8  # problems that one put brings


def jagged(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


class Rollouts:
    """The source: what each row is, made from the file alone. Tokens are bytes of UTF-8."""

    def __init__(self, path, problems):
        self.groups = []
        with open(path, encoding="utf-8") as file:
            for _, line in zip(range(problems), file):
                self.groups.append(json.loads(line))

    def keys(self, problem):
        return [f"{problem}-{k}" for k in range(len(MODELS))]

    def row(self, key):
        """The fields that a producer puts."""
        problem, k = map(int, key.split("-"))
        group = self.groups[problem]
        answer = group[MODELS[k]]
        prompt, text = group["question"].encode(), answer["solution"].encode()
        tokens = torch.frombuffer(bytearray(prompt + text), dtype=torch.uint8).long()
        seed = torch.Generator().manual_seed(problem * len(MODELS) + k)
        return {
            "input_ids": tokens,
            "generation_logprobs": -torch.rand(len(tokens), generator=seed),
            "token_mask": (torch.arange(len(tokens)) >= len(prompt)).to(torch.bfloat16),
            "input_lengths": torch.tensor(len(tokens)),
            "reward": torch.tensor(float(answer["is_correct"])),
            "solution": answer["solution"],
        }

    def advantage(self, key):
        """(r - mean) / std of the group, for each token of the answer."""
        problem, k = map(int, key.split("-"))
        rewards = torch.stack([self.row(one)["reward"] for one in self.keys(problem)])
        own = (rewards[k] - rewards.mean()) / (rewards.std() + 1e-6)
        return own * self.row(key)["token_mask"].float()


def columns_of(rows):
    """One column a field: jagged, of scalars, or a list of texts."""
    columns = {}
    for field, first in rows[0].items():
        values = [row[field] for row in rows]
        if not isinstance(first, torch.Tensor):
            columns[field] = values
        elif first.dim() == 0:
            columns[field] = torch.stack(values)
        else:
            columns[field] = jagged(values)
    return TensorDict(columns, batch_size=len(rows))


def byte_count(value):
    return value.nbytes if isinstance(value, torch.Tensor) else len(value.encode())


def is_same(got, want):
    if not isinstance(want, torch.Tensor):
        return got == want
    same = (got.dtype, got.shape) == (want.dtype, want.shape)
    return same and torch.equal(got.flatten().view(torch.uint8), want.flatten().view(torch.uint8))


def check(keys, batch, wanted):
    """Compares what came with wanted(key); returns (bytes compared, wrong values)."""
    count, wrong = 0, []
    for field in batch.keys():
        column = batch[field]
        nested = isinstance(column, torch.Tensor) and column.is_nested
        for key, got in zip(keys, column.unbind() if nested else column):
            want = wanted(key)[field]
            count += byte_count(want)
            if not is_same(got, want):
                wrong.append(f"{field} of {key}")
    return count, wrong


@ray.remote(num_cpus=0)
class Producer:
    def __init__(self, path, problems):
        tq.init()
        self._source = Rollouts(path, problems)

    def produce(self, problems, spoil):
        """Puts all rollouts of some problems; returns their keys."""
        keys = [key for problem in problems for key in self._source.keys(problem)]
        rows = [self._source.row(key) for key in keys]
        if spoil:
            rows[0]["generation_logprobs"][-1] += 1
        tq.kv_batch_put(keys, PARTITION, columns_of(rows))
        return keys


@ray.remote(num_cpus=0)
class Trainer:
    def __init__(self, path, problems, seed):
        tq.init()
        self._source, self._random = Rollouts(path, problems), random.Random(seed)

    def train(self, keys):
        """Reads rows in an order of its own, writes their advantages; (bytes, wrong values)."""
        keys = self._random.sample(keys, len(keys))
        batch = tq.kv_batch_get(keys, PARTITION, list(self._source.row(keys[0])))
        checked = check(keys, batch, self._source.row)
        # As a loss would use it: from what was read, not from the source.
        rewards = dict(zip(keys, batch["reward"]))
        masks = dict(zip(keys, batch["token_mask"].unbind()))
        made = []
        for key in keys:
            problem = int(key.split("-")[0])
            group = torch.stack([rewards[one] for one in self._source.keys(problem)])
            own = (rewards[key] - group.mean()) / (group.std() + 1e-6)
            made.append({"advantages": own * masks[key].float()})
        tq.kv_batch_put(keys, PARTITION, columns_of(made))
        return checked


def step(options, source):
    """Runs it; (bytes compared, wrong values)."""
    shared = (options.file, options.problems)
    producers = [Producer.remote(*shared) for _ in range(options.producers)]
    trainers = [Trainer.remote(*shared, k) for k in range(options.trainers)]
    problems = range(len(source.groups))
    batches = [problems[k : k + BATCH] for k in problems[::BATCH]]
    putting = [
        producers[k % len(producers)].produce.remote(batch, options.spoil and k == 0)
        for k, batch in enumerate(batches)
    ]
    training, keys = [], []
    while putting:  # whatever is there is trained on while the rest is made
        done, putting = ray.wait(putting)
        keys += ray.get(done[0])
        training.append(trainers[len(training) % len(trainers)].train.remote(ray.get(done[0])))
    results = ray.get(training)
    fields = ["input_ids", "advantages"]
    wanted = {
        key: {"input_ids": source.row(key)["input_ids"], "advantages": source.advantage(key)}
        for key in keys
    }
    results.append(check(keys, tq.kv_batch_get(keys, PARTITION, fields), wanted.get))
    tq.kv_clear(keys, PARTITION)
    return sum(count for count, _ in results), [one for _, wrong in results for one in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="JSON lines with four solutions of a problem each")
    parser.add_argument("--problems", type=int, default=128)
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--address", help="of a running Ray; otherwise one starts here")
    parser.add_argument("--spoil", action="store_true", help="put a wrong byte, to see it caught")
    options = parser.parse_args()
    options.file = os.path.abspath(options.file)
    source = Rollouts(options.file, options.problems)
    if options.address:
        ray.init(options.address)
    else:
        ray.init("local", num_cpus=2, object_store_memory=100 << 20, include_dashboard=False)
    block = {"num_storage_units": options.units, "slab_bytes": "256MiB"}
    conf = tq.init({"backend": {"storage_backend": "SlabyardStore", "SlabyardStore": block}})
    try:
        began = time.monotonic()
        count, wrong = step(options, source)
        seconds = time.monotonic() - began
        with slabyard.Client(conf.backend.SlabyardStore.cluster.run_dir) as client:
            left = sum(report["counts"]["entries"] for report in client.reports())
    finally:
        tq.close()
        slabyard.transfer_queue.shutdown(conf)
        ray.shutdown()
    rows = len(source.groups) * len(MODELS)
    print(
        f"{rows} rows of {len(source.groups)} problems: {options.producers} producers, "
        f"{options.trainers} trainers, {options.units} units, {seconds:.1f} s"
    )
    if wrong:
        sys.exit(f"{len(wrong)} wrong values: {', '.join(wrong[:3])}")
    if left:
        sys.exit(f"{left} entries were left after the clear")
    print(f"every byte is right: {count / (1 << 20):.1f} MiB compared; nothing is left")


if __name__ == "__main__":
    main()
