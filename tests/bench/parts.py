#!/usr/bin/env python3
"""parts - what the kernel's sources did between two marks, and between two others.

  tests/bench/parts.py KERNEL COUNTS TOUCHES FIRST LAST

COUNTS: of scripts/run --stretch 0,,COUNTS, a section for each mark. FIRST, LAST: which of them, the first is 1; several
with commas between: their mean. Prints lines `source <tab> first <tab> last <tab> last over first`, instructions for one of
TOUCHES, the largest difference first; those that differ by less than LITTLE in one line; and a line for all.
"""

import bisect
import re
import subprocess
import sys

CODE_BYTES = 1 << 22                    # tests/stretch/stretch.c
LITTLE = 20


def places(kernel):
    """Addresses, in order, and the source that the function there is of."""
    listed = subprocess.run(["nm", "-nl", kernel], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [re.fullmatch(r"([0-9a-f]+) [tT] (\S+)(?:\t.*?((?:kernel|arch)/\S+):\d+)?", line) for line in listed.splitlines()]
    return [(int(m[1], 16) % CODE_BYTES, m[3] or m[2]) for m in found if m]


def by_source(section, at):
    counts = {}
    for line in section.split("\n"):
        address, count = line.split()
        source = at[bisect.bisect(at, (int(address, 16), "~")) - 1][1]
        counts[source] = counts.get(source, 0) + int(count)
    return counts


def mean(sections, numbers, touches, at):
    chosen = [by_source(sections[int(n) - 1], at) for n in numbers.split(",")]
    return {source: sum(c.get(source, 0) for c in chosen) / len(chosen) / touches for source in set().union(*chosen)}


def main(words):
    if len(words) != 5:
        print(__doc__.strip())
        return 0 if words == ["--help"] else 2
    kernel, counts, touches, first, last = words
    with open(counts, encoding="utf-8") as file:
        sections = [section for section in file.read().split("\n\n") if section.strip()]
    at = sorted(places(kernel))
    before, after = (mean(sections, numbers, int(touches), at) for numbers in (first, last))
    rows = [(source, before.get(source, 0), after.get(source, 0)) for source in set(before) | set(after)]
    rows.sort(key=lambda row: row[1] - row[2])
    much = [row for row in rows if abs(row[1] - row[2]) >= LITTLE]

    def together(name, some):
        return name, sum(row[1] for row in some), sum(row[2] for row in some)
    for source, a, b in much + [together("the other sources", [row for row in rows if row not in much]), together("all", rows)]:
        print(f"{source}\t{a:.0f}\t{b:.0f}\t{b / a if a else 0:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
