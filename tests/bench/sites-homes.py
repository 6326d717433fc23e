#!/usr/bin/env python3
"""A table, and rows for scripts/bench, of what tests/bench/sites-homes.sh has left in a folder: one home for all containers,
or each site the home of its own.

  sites-homes.py DIR
"""

import os
import re
import sys

NAMES = {"one": "one home", "each": "homes on every site"}
SAID = re.compile(r"(\w): = homes\.(\w+) \d+ (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)")


class Run:
    """What one plan's sites did, what an empty window costs taken off."""

    def __init__(self, path):
        windows = {}
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for guest, what, *numbers in SAID.findall(text):
            windows[what, guest] = [int(number) for number in numbers]
        if "all is there" not in text:
            sys.exit(f"{path}: what was stored is not there")
        self.guests = sorted(guest for what, guest in windows if what == "all")
        self.ms = {guest: windows["all", guest][1] / windows["all", guest][0] / 1e6 for guest in self.guests}
        self.count = sum(windows["all", guest][0] for guest in self.guests)
        self.second = sum(1000 / ms for ms in self.ms.values())
        self.spent = {guest: max(0, windows["all", guest][2] - windows["nothing", guest][2]) for guest in self.guests}
        self.messages = sum(windows["all", guest][5] - windows["nothing", guest][5] for guest in self.guests)

    def taken(self, alone):
        """Instructions of a, the first home, for a transaction of another site's."""
        own = self.count // len(self.guests)
        return max(0, self.spent["a"] - alone * own) / (self.count - own)


def read(folder):
    """{(which, sites, delay): what was measured}"""
    found = {}
    for name in os.listdir(folder):
        if (words := re.fullmatch(r"homes-(one|each)-(\d)-(\d+)", name)):
            found[words[1], int(words[2]), int(words[3])] = Run(os.path.join(folder, name))
    return found


def row(name, unit, value, digits=0):
    print(f"{name}\t{unit}\t{value:.{digits}f}\t-")


def main(folder):
    runs = read(folder)
    first = runs["one", 1, 0]
    alone = first.spent["a"] / first.count
    most = max(sites for _, sites, _ in runs)
    print("WAKASHI's one server, of which its paper says what it fears, without numbers, and homes on every site: transactions that read three pages and store to a fourth, 90 % of "
          "them in the container of their own site. Instructions are of all sites, with link; the busiest site's bound what all of them can do.\n")
    print("| homes | sites | link, each way | transactions a second | a transaction at a | at b | instructions | of the busiest site | messages | taken from a's own |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (which, sites, delay), r in sorted(runs.items(), key=lambda item: (item[0][1:], item[0][0] == "each")):
        other = f"{r.ms['b']:.1f} ms" if sites > 1 else "-"
        taken = f"{r.taken(alone):,.0f}" if sites > 1 else "-"
        print(f"| {NAMES[which] if sites > 1 else 'here'} | {sites} | {delay} ms | {r.second:,.0f} | {r.ms['a']:.1f} ms | {other} | "
              f"{sum(r.spent.values()) / r.count:,.0f} | {max(r.spent.values()) / r.count:,.0f} | {r.messages / r.count:.2f} | {taken} |")
    print()
    for which, name in NAMES.items():
        r = runs[which, most, 0]
        row(f"{name}, {most} sites: instructions of all for a transaction, of one here", "times", sum(r.spent.values()) / r.count / alone, 2)
        row(f"{name}, {most} sites: instructions of the busiest for a transaction of all, of one here", "times", max(r.spent.values()) / r.count / alone, 2)
        row(f"{name}, {most} sites: taken from a's own programs for a transaction of another site's", "instructions", r.taken(alone))
        row(f"{name}, {most} sites: messages for a transaction", "messages", r.messages / r.count, 2)
        for (_, _, delay), slow in sorted(item for item in runs.items() if item[0][0] == which and item[0][2]):
            row(f"{name}, {most} sites, links of {delay} ms each way: a transaction of another site's", "ms", slow.ms["b"], 1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else print(__doc__) or 2)
