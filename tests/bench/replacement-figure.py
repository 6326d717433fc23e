#!/usr/bin/env python3
"""Draw hit ratios of replacement policies: what the guest measured over what simulations say.

  replacement-figure.py PICTURE

Standard input: lines `measured <tab> pattern <tab> policy <tab> frames <tab> hit ratio` of bench-managers, and
the same without the first field of `test_replacement curves`; other lines are left out.
"""

import sys

COLOURS = {"least": "#bbbbbb", "lru": "#444444", "fifo": "#c0392b", "clock": "#e08e0b", "lru2": "#2e8b57", "arc": "#1b6ca8",
           "kernel": "#8e44ad"}
NAMES = {"least": "least misses possible", "lru": "exact LRU", "kernel": "the kernel's clock"}
LEFT, TOP, WIDE, HIGH, BETWEEN, PER_ROW = 50, 50, 250, 170, 60, 3


def read(lines):
    """Curves and points, {pattern: {policy: [(frames, ratio), ...]}} each."""
    found = {4: {}, 5: {}}
    for line in lines:
        fields = line.rstrip("\r\n").split("\t")
        if len(fields) == 4 and fields[1] in COLOURS or len(fields) == 5 and fields[0] == "measured":
            pattern, policy, frames, ratio = fields[-4:]
            found[len(fields)].setdefault(pattern, {}).setdefault(policy, []).append((int(frames), float(ratio)))
    if not found[4] or set(found[4]) != set(found[5]):
        sys.exit(f"replacement-figure: curves of {sorted(found[4])}, measured {sorted(found[5])}")
    return found[4], found[5]


def panel(number, pattern, curves, points):
    left = LEFT + number % PER_ROW * (WIDE + BETWEEN)
    top = TOP + number // PER_ROW * (HIGH + BETWEEN)
    ratios = [ratio for line in list(curves.values()) + list(points.values()) for _, ratio in line]
    low, high = min(ratios), max(ratios)
    most = max(frames for frames, _ in curves["lru"])

    def place(frames, ratio):
        return f"{left + frames / most * WIDE:.1f}", f"{top + HIGH - (ratio - low) / (high - low or 1) * HIGH:.1f}"
    yield f'<text x="{left}" y="{top - 8}" font-size="13">{pattern}</text>'
    yield f'<path d="M{left} {top}V{top + HIGH}H{left + WIDE}" fill="none" stroke="#444"/>'
    for ratio in (low, high):
        yield f'<text x="{left - 6}" y="{float(place(0, ratio)[1]) + 4}" text-anchor="end">{ratio:.2f}</text>'
    for frames in (most // 2, most):
        yield f'<text x="{place(frames, low)[0]}" y="{top + HIGH + 16}" text-anchor="middle">{frames}</text>'
    for policy, line in curves.items():
        path = "L".join(" ".join(place(*point)) for point in line)
        yield f'<path d="M{path}" fill="none" stroke="{COLOURS[policy]}" stroke-width="1.5"/>'
    for policy, line in points.items():
        for x, y in (place(*point) for point in line):
            yield f'<circle cx="{x}" cy="{y}" r="3.5" fill="{COLOURS[policy]}"/>'


def svg(curves, points):
    rows = (len(curves) + PER_ROW) // PER_ROW           # the legend is a panel, too
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + PER_ROW * (WIDE + BETWEEN)}" '
           f'height="{TOP + rows * (HIGH + BETWEEN)}" font-family="sans-serif" font-size="11">')
    yield '<rect width="100%" height="100%" fill="white"/>'
    yield (f'<text x="{LEFT}" y="18" font-size="14">Hit ratio by frames: lines are simulated with each use known, '
           'dots are the manager "replacement"</text>')
    for number, pattern in enumerate(curves):
        yield from panel(number, pattern, curves[pattern], points[pattern])
    left, top = LEFT + len(curves) % PER_ROW * (WIDE + BETWEEN), TOP + len(curves) // PER_ROW * (HIGH + BETWEEN)
    for number, policy in enumerate(COLOURS):
        yield f'<circle cx="{left + 10}" cy="{top + 18 * number}" r="4" fill="{COLOURS[policy]}"/>'
        yield f'<text x="{left + 24}" y="{top + 18 * number + 4}">{NAMES.get(policy, policy)}</text>'
    yield "</svg>"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] == ["--help"] else 2
    curves, points = read(sys.stdin)
    with open(sys.argv[1], "w", encoding="utf-8") as picture:
        print("\n".join(svg(curves, points)), file=picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
