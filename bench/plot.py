"""The table as a picture: how long each contender took, measured by slabyard, a line a case."""

import math
from xml.sax.saxutils import escape

COLORS = {
    "slabyard": "#c0392b",
    "memcpy": "#555555",
    "memcpy-2": "#999999",
    "redis": "#2980b9",
    "redis-tuned": "#7fb3d5",
    "memcached": "#27ae60",
    "memcached-tuned": "#82d3a3",
    "transferqueue": "#8e44ad",
    "mooncake": "#e67e22",
    "nixl": "#f1c40f",
    "ucx": "#16a085",
    "odirect": "#2c3e50",
}
LEFT, WIDTH, LINE, TOP = 190, 620, 20, 88


def points(records):
    """{case: {who: time over slabyard's}}, in the order of the records."""
    cases = {}
    for record in records:
        ratio = record.get("ours_over_theirs")
        if ratio and record["who"] in COLORS:
            cases.setdefault(record["case"], {})[record["who"]] = 1 / ratio
    return {case: by for case, by in cases.items() if len(by) > 1}


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def axis(low, high, height, place):
    parts = []
    for power in range(low, high + 1):
        x = place(10.0**power)
        width = 1.5 if power == 0 else 0.5
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 12}" x2="{x:.1f}" y2="{height - 20}" '
            f'stroke="#bbb" stroke-width="{width}"/>'
        )
        label = f"{10 ** power}x" if power >= 0 else f"1/{10 ** -power}"
        parts.append(text(x, TOP - 18, label, "middle", 'fill="#666"'))
    return parts


def legend(drawn):
    parts, x, y = [], LEFT, 34
    for who in [who for who in COLORS if who in drawn]:
        if x + 9 + 7 * len(who) > LEFT + WIDTH:
            x, y = LEFT, y + 18
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{COLORS[who]}"/>')
        parts.append(text(x + 9, y + 4, who))
        x += 24 + 7 * len(who)
    return parts


def svg(records):
    cases = points(records)
    ratios = [r for by in cases.values() for r in by.values()] or [1.0]
    low, high = math.floor(math.log10(min(ratios))), math.ceil(math.log10(max(ratios)))
    low, high = min(low, -1), max(high, 1)
    height = TOP + LINE * len(cases) + 30

    def place(ratio):
        return LEFT + WIDTH * (math.log10(ratio) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(LEFT, 16, "time of an operation over slabyard's (right: slower than slabyard)"),
    ]
    parts += legend({who for by in cases.values() for who in by}) + axis(low, high, height, place)
    for i, (case, by) in enumerate(cases.items()):
        y = TOP + LINE * i + LINE / 2
        parts.append(text(LEFT - 10, y + 4, case, "end"))
        parts.append(
            f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#eee"/>'
        )
        parts += [
            f'<circle cx="{place(ratio):.1f}" cy="{y}" r="5" fill="{COLORS[who]}" '
            f'fill-opacity="0.85"><title>{escape(who)} {ratio:.3g}</title></circle>'
            for who, ratio in by.items()
        ]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
