#!/usr/bin/env python3
"""Rows and curves of `make bench ONLY=disks`: lines of bench-disks from standard input, the picture to the file named.

  disks-figure.py PICTURE SEEK_US TRANSFER_US

Every line has "rule 0 parts 1 queries 100 records 200000 sum abc ms 4000 leaves 1300 exact 900 writes 1 flushes 1".
All sums must be the same.
"""

import sys

RULES = {"0": "round robin", "1": "Larson and Seeger", "2": "one store"}
MARKS, COLOURS = {"0": "o", "1": "*", "2": "+"}, {"0": "#c0392b", "1": "#1b6ca8", "2": "#2e7d32"}
LEFT, TOP, WIDE, HIGH = 70, 40, 360, 240
ROWS_HIGH, COLUMN = 16, 14


def read(lines):
    """{rule: {parts: row}}"""
    points = {}
    for line in lines:
        words = line.split()
        if words[:1] == ["rule"]:
            row = dict(zip(words[::2], words[1::2]))
            points.setdefault(row["rule"], {})[int(row["parts"])] = row
    rows = [row for rule in points.values() for row in rule.values()]
    if len(rows) != 4 * len(RULES) or len({(row["sum"], row["records"]) for row in rows}) != 1:
        sys.exit(f"disks-figure: {len(rows)} of 12 points, with sums {sorted({row['sum'] for row in rows})}")
    return points


def seconds(row):
    return float(row["ms"]) / 1000


def terminal(points, top):
    grid = [[" "] * (4 * COLUMN) for _ in range(ROWS_HIGH + 1)]
    for rule, rows in points.items():
        for parts, row in rows.items():
            line, column = grid[ROWS_HIGH - round(seconds(row) / top * ROWS_HIGH)], (parts - 1) * COLUMN + 4
            line[column] = "#" if line[column] not in (" ", MARKS[rule]) else MARKS[rule]
    print("elapsed seconds; o round robin, * Larson and Seeger, + one store, # several")
    for i, line in enumerate(grid):
        print(f"{top * (ROWS_HIGH - i) / ROWS_HIGH:7.1f} |{''.join(line).rstrip()}")
    print(" " * 8 + "+" + "".join("-" * 4 + str(n) + "-" * (COLUMN - 5) for n in range(1, 5)) + " partitions")


def svg(points, top, model):
    def x(parts):
        return LEFT + (parts - 1) * WIDE / 3

    def y(value):
        return TOP + HIGH - value / top * HIGH
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 160}" height="{TOP + HIGH + 60}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">Range queries over one to four disks at two controllers</text>',
           f'<text x="{LEFT}" y="{TOP + HIGH + 50}">partitions; {model}</text>',
           f'<path d="M{LEFT} {TOP}V{TOP + HIGH}H{LEFT + WIDE}" fill="none" stroke="#444"/>']
    for parts in range(1, 5):
        out.append(f'<text x="{x(parts):.0f}" y="{TOP + HIGH + 18}" text-anchor="middle">{parts}</text>')
    for part in range(5):
        value = top * part / 4
        out.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.0f} s</text>')
    for i, (rule, rows) in enumerate(sorted(points.items())):
        line = " ".join(f"{x(p):.1f},{y(seconds(row)):.1f}" for p, row in sorted(rows.items()))
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[rule]}" stroke-width="2"/>')
        out.append(f'<text x="{LEFT + WIDE + 12}" y="{TOP + 20 + 20 * i}" fill="{COLOURS[rule]}">{RULES[rule]}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main(picture, seek_us, transfer_us):
    points = read(sys.stdin)
    any_row = points["0"][1]
    top = max(seconds(row) for rows in points.values() for row in rows.values()) * 1.05
    model = f"a read: {float(seek_us) / 1000:g} ms of its disk, then {float(transfer_us) / 1000:g} ms of disk and controller"
    print(f"{any_row['queries']} queries, {any_row['records']} records, sum {any_row['sum']} in all rows; {model}")
    terminal(points, top)
    with open(picture, "w", encoding="utf-8") as out:
        out.write(svg(points, top, model))
    for rule, name in RULES.items():
        one = seconds(points[rule][1])
        for parts in range(1, 5):
            row = points[rule][parts]
            reach = {1: "-", 2: "0.8" if rule == "2" else "0.7"}.get(parts, "-")
            print(f"range queries, {parts} partitions, {name} ({seconds(row):.1f} s)\telapsed of 1 partition\t"
                  f"{seconds(row) / one:.2f}\t{reach}")
    for parts in range(2, 5):
        print(f"range queries, {parts} partitions\telapsed, Larson and Seeger of round robin\t"
              f"{seconds(points['1'][parts]) / seconds(points['0'][parts]):.2f}\t{'1' if parts > 2 else '1.05'}")
    for parts in range(1, 5):
        row = points["2"][parts]
        print(f"one store on {parts} disks: writes of a commit\twrites\t{row['writes']}\t1.1")
        print(f"one store on {parts} disks: flushes of a commit\tflushes\t{row['flushes']}\t1.1")
    print(f"exact matches, 4 partitions\telapsed of 1 partition\t"
          f"{float(points['1'][4]['exact']) / float(points['1'][1]['exact']):.2f}\t>=0.8")


if __name__ == "__main__":
    main(*sys.argv[1:])
