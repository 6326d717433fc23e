#!/usr/bin/env python3
"""Rows and pictures of `make bench ONLY=logs`, the part about forms: lines of bench-logs from standard input, three
pictures into the folder named, logs-bytes.svg, logs-instructions.svg and logs-recovery.svg.

  logs-figure.py FOLDER

Every line has six fields, separated by tabs: data, form, log bytes and instructions for a byte that changed; microseconds of
the recovery after the power was cut, and of its verifying scan.
"""

import os
import sys

COLOURS = {"difference": "#1b6ca8", "whole": "#c0392b", "ranges": "#2e8b57", "adaptive": "#8e44ad", "compressed": "#b8860b",
           "operations": "#444444"}
LEFT, TOP, WIDE, HIGH, BAR = 70, 40, 850, 240, 22
PICTURES = (("bytes", "Log bytes for a byte that changed"), ("instructions", "Instructions for a byte that changed"),
            ("recovery", "Milliseconds of recovery"))


def read(lines):
    """{data: {form: (bytes, instructions, milliseconds of recovery, of these the verifying scan)}}"""
    cost = {}
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        if len(fields) == 6:
            cost.setdefault(fields[0], {})[fields[1]] = (float(fields[2]), float(fields[3]), float(fields[4]) / 1000,
                                                         float(fields[5]) / 1000)
    if sum(len(forms) for forms in cost.values()) != 28:
        sys.exit(f"logs-figure: not 28 lines: {cost}")
    return cost


def rows(cost):
    for data, forms in cost.items():
        for form, (size, spent, whole, verify) in forms.items():
            print(f"log bytes for a changed byte, {data}, {form}\tbytes\t{size:.3f}\t-")
            print(f"instructions for a changed byte, {data}, {form}\tinstructions\t{spent:.1f}\t-")
            print(f"recovery after it, {data}, {form}\tms\t{whole:.2f}\t-")
            print(f"share of the verifying scan in it (DA-22), {data}, {form}\t%\t{100 * verify / max(whole, 0.001):.0f}\t-")
        best = min(costs[0] for form, costs in forms.items() if form != "compressed")
        print(f"adaptive against the best form that is not packed, {data}\ttimes\t{forms['adaptive'][0] / best:.3f}\t1.05")
    forms = cost["wordnet"]
    print(f"WordNet: whole pages against packed ones\ttimes\t{forms['whole'][0] / forms['compressed'][0]:.2f}\t>=2")


def svg(cost, which, title):
    """Bars; logarithmic, for whole pages cost a hundred times as much as a difference."""
    def height(value):
        return max(2, HIGH * (value / low) ** 0.25 / (high / low) ** 0.25)
    values = [both[which] for forms in cost.values() for both in forms.values()]
    low, high = min(values), max(values)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 130}" height="{TOP + HIGH + 50}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">{title} (fourth roots)</text>']
    for i, (data, forms) in enumerate(cost.items()):
        x = LEFT + i * WIDE / len(cost)
        out.append(f'<text x="{x:.0f}" y="{TOP + HIGH + 20}">{data}</text>')
        for n, (form, both) in enumerate(forms.items()):
            tall = height(both[which])
            at = x + n * (BAR + 3)
            out.append(f'<rect x="{at:.0f}" y="{TOP + HIGH - tall:.1f}" width="{BAR}" height="{tall:.1f}" fill="{COLOURS[form]}"/>')
            out.append(f'<text x="{at:.0f}" y="{TOP + HIGH - tall - 3:.1f}" font-size="9">{both[which]:.3g}</text>')
    for n, (form, colour) in enumerate(COLOURS.items()):
        out.append(f'<text x="{LEFT + WIDE + 10}" y="{TOP + 20 + 18 * n}" fill="{colour}">{form}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    cost = read(sys.stdin)
    rows(cost)
    for which, (name, title) in enumerate(PICTURES):
        with open(os.path.join(sys.argv[1], f"logs-{name}.svg"), "w", encoding="utf-8") as picture:
            picture.write(svg(cost, which, title))


main()
