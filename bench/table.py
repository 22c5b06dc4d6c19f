"""The records of a run as a table and as goals met or missed."""

import plan

COLUMNS = [
    ("case", "<", None),
    ("who", "<", None),
    ("p50 us", ">", "p50_us"),
    ("p99 us", ">", "p99_us"),
    ("GB/s", ">", "gb_s"),
    ("client s/GiB", ">", "client_cpu_s_per_gib"),
    ("server s/GiB", ">", "server_cpu_s_per_gib"),
    ("messages", ">", "messages_per_op"),
    ("wake-ups", ">", "wakeups"),
    ("ours/theirs", ">", "ours_over_theirs"),
]


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}" if abs(value) >= 0.001 else f"{value:.1e}"


def cells(record):
    if "error" in record:
        return [record["case"], record["who"], "failed: " + record["error"]]
    wakeups = None
    if record["who"] == "slabyard" and record.get("client_wakeups_per_op") is not None:
        client, server = record["client_wakeups_per_op"], record["server_wakeups_per_op"]
        wakeups = f"{number(client)}+{number(server)}"
    row = [record["case"], record["who"]]
    for _, _, name in COLUMNS[2:]:
        row.append((wakeups or "-") if name == "wakeups" else number(record.get(name)))
    return row


def table(records):
    rows = [[name for name, _, _ in COLUMNS]] + [cells(r) for r in records]
    widths = [
        max(len(row[i]) for row in rows if len(row) == len(COLUMNS)) for i in range(len(COLUMNS))
    ]
    lines, last = [], None
    for row in rows:
        if last not in (None, "case", row[0]):
            lines.append("")
        last = row[0]
        fitted = [f"{cell:{COLUMNS[i][1]}{widths[i]}}" for i, cell in enumerate(row)]
        lines.append("  ".join(fitted).rstrip())
    return "\n".join(lines)


def verdict(found, i):
    """Of two goals of a case of which one is enough (the first one's words end in "or") the missed
    one is no miss where the other is met."""
    case, met, _, words = found[i]
    if met:
        return "met   "
    near = found[i + 1 : i + 2] if words.endswith(", or") else found[max(i - 1, 0) : i]
    pair = [n for n in near if n[0] == case and (words.endswith(", or") or n[3].endswith(", or"))]
    return "-     " if any(n[1] for n in pair) else "MISSED"


def goals(records, cpu_count):
    """A line a goal whose case ran: the value, the bound, and whether it is met. A large value is
    copied by two threads where there are two CPUs."""
    by = {(r["case"], r["who"]): r for r in records if "error" not in r}
    found = []

    def add(case, words, value, bound):
        text = f"{case:<16} {number(value):>9}, at most {number(bound)}: {words}"
        found.append((case, value <= bound, text, words))

    for case, rivals, bound, words in plan.GOALS:
        if case == "units-256":
            ratios = [by[case, "slabyard"]["ours_over_theirs"]] if (case, "slabyard") in by else []
        else:
            ratios = [by[case, r].get("ours_over_theirs") for r in rivals if (case, r) in by]
        ratios = [r for r in ratios if r]
        if words == plan.TWO_COPIERS and cpu_count == 1:
            bound, words = plan.ONE_COPIER
        if ratios:  # the fastest of them counts
            add(case, words, max(ratios), bound)
    for case, name, bound, words in plan.OWN_GOALS:
        record = by.get((case, "slabyard"), {})
        if record.get(name) is not None:
            add(case, words, record[name], bound)
    for case in ("put-64MiB", "get-64MiB"):
        ours, copy = by.get((case, "slabyard")), by.get((case, "memcpy"))
        if ours and copy:
            ratio = ours["client_cpu_s_per_gib"] / copy["client_cpu_s_per_gib"]
            add(case, "1.1 of memcpy's CPU time", ratio, 1.1)
    return "\n".join(f"{verdict(found, i)}  {found[i][2]}" for i in range(len(found)))
