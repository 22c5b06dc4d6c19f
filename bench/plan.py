"""What is measured: groups of cases that share their rows and their servers."""

from dataclasses import dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
OUTSIDE = ["mooncake", "nixl"]  # contenders that are Python packages
SMALL_KEYS = 100_000
UNIT_COUNTS = [1, 4, 16, 64, 256]
UNITS_ROWS = 65_536
TIER_BLOBS = [MIB, 8 * MIB]
RESOLVE_KEYS = {"10K": 10_000, "1M": 1_000_000, "10M": 10_000_000}


def size_name(bytes_):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if bytes_ % unit == 0:
            return f"{bytes_ // unit}{name}"
    return f"{bytes_}B"


@dataclass
class Case:
    name: str
    suite: str
    op: str  # as the driver takes it
    rows: int
    ops: int

    def words(self, quick):
        ops = max(1, self.ops // 10) if quick else self.ops
        return ["--case", f"{self.name}={self.op}:{self.rows}:{ops}"]


@dataclass
class Group:
    """One run of the driver."""

    name: str
    rows: int
    value_bytes: int  # 0: the GRPO batch
    cases: list = field(default_factory=list)
    threads: int = 1
    processes: int = 1
    unit_counts: list = field(default_factory=lambda: [1])  # a cluster each
    peers: bool = True  # redis and memcached, too

    def names(self, case):
        """Those of its records."""
        if len(self.unit_counts) == 1:
            return [case.name]
        return [f"{case.name}-{count}" for count in self.unit_counts]

    def plain(self):
        """Cases that contenders of Python take part in: single and batched puts and gets by one
        client of one cluster."""
        alone = self.threads == self.processes == len(self.unit_counts) == 1
        return [c for c in self.cases if c.op in ("put", "get")] if alone and self.peers else []

    def row_bytes(self):
        """Of the longest row: what contenders must have room for."""
        return self.value_bytes or 16 * 512 + 12

    def data_bytes(self):
        return self.row_bytes() * self.rows

    def two_copiers(self):
        """Is memcpy by two threads among the contenders?"""
        return self.value_bytes >= MIB

    def slab_bytes(self, unit_count=1):
        """Room for all rows, for what single rows that are replaced leave behind in blobs of many,
        for batches that replace others, and, of a single unit, for memcpy's part."""
        writes = sum(6 * c.ops for c in self.cases if c.op in ("put", "overwrite") and c.rows == 1)
        loose = min(writes, self.rows) if self.row_bytes() < MIB else 2
        batch = max(c.rows for c in self.cases) * (self.row_bytes() + 192)
        rows = self.rows * (self.row_bytes() + 448) + 3 * batch + loose * (self.row_bytes() + 512)
        half = self.data_bytes() + 8 * MIB if unit_count == 1 else 0
        half *= 2 if self.two_copiers() else 1
        spare = 32 * MIB if unit_count == 1 else 4 * MIB
        each = (rows // unit_count + half) * 33 // 32 + spare
        return (max(each, 2 * half) + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)

    def memory_bytes(self, peers):
        """About what a run takes, all contenders together but those of Python."""
        slabs = sum(self.slab_bytes(n) * n for n in self.unit_counts)
        servers = 2 * sum(name in peers for name in ("redis", "memcached")) if self.peers else 0
        others = servers * (self.data_bytes() * 5 // 4 + 64 * MIB)
        return slabs + others + 2 * self.data_bytes() * self.processes + 256 * MIB

    def outside_bytes(self, who, rounds):
        """What one contender of Python takes beside that: all rows and buffers, and of a store
        whose keys are written once all that is put."""
        puts = sum(c.rows * c.ops for c in self.plain() if c.op == "put") * (rounds + 1)
        rows = self.rows + (puts if who == "mooncake" else 0)
        return rows * self.row_bytes() * 5 // 4 + GIB


def singles(value_bytes, suite, ops):
    size = size_name(value_bytes)
    return [
        Case(f"{name}-{size}", suite, op, 1, ops)
        for name, op in (("put", "put"), ("get", "get"), ("view", "vget"))
    ] + [Case(f"overwrite-{size}", suite, "overwrite", 1, ops)]


def batches(value_bytes, ops):
    size = size_name(value_bytes)
    return [
        Case(f"{name}-1024x{size}", "batch", op, 1024, ops)
        for name, op in (("mput", "put"), ("mget", "get"), ("cput", "cput"), ("cget", "cget"))
    ]


def crew_group(kind, count):
    cases = [Case(f"{op}-4KiB-{kind}-{count}", "clients", op, 1, 500) for op in ("put", "get")]
    counts = {kind: count}
    return Group(f"{count} {kind}", SMALL_KEYS, 4 * KIB, cases, **counts)


def groups():
    plan = []
    for value_bytes, ops, batch_ops in ((64, 1000, 20), (4 * KIB, 1000, 10), (64 * KIB, 300, 3)):
        keys = SMALL_KEYS if value_bytes <= 4 * KIB else GIB // value_bytes
        cases = singles(value_bytes, "small", ops) + batches(value_bytes, batch_ops)
        if value_bytes == 64:
            cases.append(Case("clear-10000", "clear", "clear", 10_000, 1))
        if value_bytes == 4 * KIB:
            cases.append(Case("attach", "attach", "attach", 1, 2))
        plan.append(Group(size_name(value_bytes), keys, value_bytes, cases))
    for value_bytes, ops in ((MIB, 50), (64 * MIB, 4), (GIB, 1)):
        cases = singles(value_bytes, "large", ops)
        plan.append(Group(size_name(value_bytes), GIB // value_bytes, value_bytes, cases))
    plan[-1].peers = False  # memcached takes no value of 1 GiB, redis none as it comes
    grpo = [Case("grpo-put", "grpo", "cput", 512, 10), Case("grpo-get", "grpo", "cget", 512, 10)]
    plan.append(Group("GRPO", 100 * 512, 0, grpo))
    for kind in ("threads", "processes"):
        plan += [crew_group(kind, count) for count in (1, 2, 4)]
    cases = [Case("units", "units", "cycle", UNITS_ROWS, 6)]
    plan.append(
        Group("units", UNITS_ROWS, 64, cases, unit_counts=list(UNIT_COUNTS), peers=False)
    )
    return plan


def tier_cases(value_bytes):
    return [f"{what}-{size_name(value_bytes)}" for what in ("spill", "unspill")]


SUITES = {
    "small": "single values of 64 B, 4 KiB, 64 KiB: put, get, view, overwrite",
    "large": "single values of 1 MiB, 64 MiB, 1 GiB: the same",
    "batch": "1,024 rows of 64 B, 4 KiB, 64 KiB by keys (mput, mget) and columns (cput, cget)",
    "grpo": "a step of 512 rows of five columns, 64 to 512 tokens",
    "clear": "10,000 rows cleared in one call",
    "clients": "4 KiB by 1, 2, 4 threads and processes",
    "attach": "a new client up to its first value",
    "units": "65,536 rows put and got through 1, 4, 16, 64, 256 units",
    "resolve": "the unit's step alone: 1,024 keys of 10 thousand, 1 and 10 million",
    "tier": "blobs of 1 and 8 MiB to the disk and back, against plain O_DIRECT io_uring",
    "roundtrip": "what a control round trip costs over ZeroMQ, a unix socket, shared memory",
    "ucx": "put and get of 64 KiB, 1 and 64 MiB over UCX by TCP, beside ucx_perftest",
    "transferqueue": "through its API, beside its own storage and Mooncake: installs Ray",
    "untouched": "calls a second of clients while another client and another unit die",
}

# --cpus with one CPU alone is how the other is measured.
TWO_COPIERS = "memcpy's time, by two threads against one"
ONE_COPIER = 1 / 0.95, "0.95 of memcpy, by one thread against one"

# case, against whom (the fastest of them), at most so much of their time, as the table words it
GOALS = [
    ("put-64MiB", ["memcpy"], 1.0, TWO_COPIERS),
    ("get-64MiB", ["memcpy"], 1.0, TWO_COPIERS),
    ("put-1GiB", ["memcpy"], 1.0, TWO_COPIERS),
    ("get-1GiB", ["memcpy"], 1.0, TWO_COPIERS),
    ("put-1MiB", ["memcpy"], 1 / 0.7, "0.7 of memcpy"),
    ("get-1MiB", ["memcpy"], 1 / 0.7, "0.7 of memcpy"),
    ("put-4KiB", ["redis", "redis-tuned"], 0.7, "0.7 of redis's time"),
    ("get-4KiB", ["redis", "redis-tuned"], 0.7, "0.7 of redis's time"),
    ("put-4KiB", ["memcached", "memcached-tuned"], 0.9, "0.9 of memcached's time"),
    ("get-4KiB", ["memcached", "memcached-tuned"], 0.9, "0.9 of memcached's time"),
    ("mput-1024x4KiB", ["redis", "redis-tuned"], 0.2, "0.2 of MSET's time"),
    ("mget-1024x4KiB", ["redis", "redis-tuned"], 0.2, "0.2 of MGET's time"),
    ("mput-1024x4KiB", ["memcached", "memcached-tuned"], 0.4, "0.4 of memcached's, or"),
    ("mput-1024x4KiB", ["memcpy"], 1.3, "1.3 times memcpy's"),
    ("mget-1024x4KiB", ["memcached", "memcached-tuned"], 0.4, "0.4 of memcached's, or"),
    ("mget-1024x4KiB", ["memcpy"], 1.3, "1.3 times memcpy's"),
    ("grpo-put", ["memcpy"], 2.0, "2 times memcpy"),
    ("grpo-get", ["memcpy"], 2.0, "2 times memcpy"),
    ("spill-1MiB", ["odirect"], 1 / 0.85, "0.85 of a plain writer past the cache"),
    ("spill-8MiB", ["odirect"], 1 / 0.85, "0.85 of a plain writer past the cache"),
    ("unspill-1MiB", ["odirect"], 1 / 0.85, "0.85 of a plain reader past the cache"),
    ("unspill-8MiB", ["odirect"], 1 / 0.85, "0.85 of a plain reader past the cache"),
    ("units-256", ["units-1"], 1.3, "1.3 times one unit's"),
]
# case, field of our record, at most, words
OWN_GOALS = [
    *(
        (f"view-{size_name(n)}", "messages_per_op", 4, "two control round trips")
        for n in (64, 4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
    ),
    ("put-64MiB", "server_cpu_s_per_gib", 0.002, "0.002 CPU-s of the unit a GiB"),
    ("get-64MiB", "server_cpu_s_per_gib", 0.002, "0.002 CPU-s of the unit a GiB"),
    ("resolve-10M", "ns_per_row", 150, "150 ns a key"),
    ("resolve-10M", "bytes_per_key", 64, "64 bytes a key"),
    ("untouched", "mean_over_worst_second", 2, "the mean second before over the worst after"),
]
