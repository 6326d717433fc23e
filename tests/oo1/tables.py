#!/usr/bin/env python3
"""Tables of OO1 in the form of "Persistent databases that perform?", with that paper's figures beside, and
rows for scripts/bench. tables.py DIR: what tests/bench/oo1.sh has left there."""

import os
import re
import statistics
import sys

# The paper's seconds: OSF with files, OSF with mapped files, Grasshopper; on a 133 MHz Alpha with 64 MB.
PAPER = {"lookup": (1.45, 0.11, 0.11), "traversal": (7.68, 0.47, 0.47), "insert": (1.70, 0.17, 0.18),
         "total": (10.01, 0.75, 0.76)}
PAPER_LARGE = {"file": 33, "mapped": 18, "store": 18}       # percent that the large database took longer
BUILDS = ("file", "mapped", "store", "heap")
SMALL, LARGE = 20000, 200000


def sections(path):
    """command -> operation -> rounds, each a list of numbers; and command -> the check's line."""
    runs, checks, command = {}, {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            fields = line.split("\t")
            if line.startswith("== "):
                command = line[3:]
                runs[command] = {}
            elif len(fields) >= 7:
                rounds = runs[command].setdefault(fields[0], [])
                rounds.append([int(f) for f in fields[2:6]] + [fields[6]] + [int(f) for f in fields[7:]])
            elif line.endswith(", sound"):
                checks[command] = line
            else:
                sys.exit(f"oo1: {command}: {line}")
    return runs, checks


def warm(rounds, column=0):
    """The median of all rounds but the first."""
    return statistics.median(r[column] for r in (rounds[1:] or rounds))


def row(name, unit, value, reach="-"):
    print(f"OO1, {name}\t{unit}\t{value}\t{reach}")


def same(results, what):
    """All have the same checksums."""
    if any(r != results[0] for r in results):
        sys.exit(f"oo1: the results of {what} differ")
    row(f"{what}: builds with the same checksums", "builds", len(results), f">={len(results)}")


def command(build, parts, what="all"):
    """Of the build with files the rounds and the check are two commands."""
    if build != "file":
        return f"oo1-{build} all {parts} 10"
    return f"oo1-file run {parts} 10" if what == "all" else f"oo1-file check {parts}"


def instructions(runs, parts):
    """build -> operation -> instructions, warm; total is without the reverse traversal, as the paper's."""
    table = {}
    for build in BUILDS:
        found = runs[command(build, parts)]
        table[build] = {name: warm(found[name]) for name in ("lookup", "traversal", "reverse", "insert",
                                                              "insert-anywhere")}
        table[build]["total"] = sum(table[build][name] for name in ("lookup", "traversal", "insert"))
    return table


def print_table(table, parts):
    print(f"\nOO1, {parts:,} parts: thousands of instructions, warm; and as ratios to the container, the paper's beside")
    print(f"{'operation':16}{'files':>9}{'mapped':>9}{'store':>9}{'heap':>9}   "
          f"{'files':>7}{'paper':>7}{'mapped':>8}{'paper':>7}")
    for name in ("lookup", "traversal", "insert", "total", "reverse", "insert-anywhere"):
        cells = "".join(f"{table[build][name] / 1000:9,.0f}" for build in BUILDS)
        paper = PAPER.get(name)
        ratios = [table[build][name] / table["store"][name] for build in ("file", "mapped")]
        beside = [f"{seconds / paper[2]:.2f}" if paper else "" for seconds in (paper or (0, 0))[:2]]
        print(f"{name:16}{cells}   {ratios[0]:7.2f}{beside[0]:>7}{ratios[1]:8.2f}{beside[1]:>7}")


def relational(directory):
    tables = {}
    for parts in (SMALL, LARGE):
        runs, checks = sections(os.path.join(directory, str(parts)))
        same([([[r[3:5] for r in rounds] for rounds in runs[command(b, parts)].values()],
               checks[command(b, parts, "check")]) for b in BUILDS], f"{parts:,} parts")
        tables[parts] = instructions(runs, parts)
        print_table(tables[parts], parts)
        size = "small" if parts == SMALL else "large"
        for name in ("lookup", "traversal", "reverse"):
            ratio = tables[parts]["store"][name] / tables[parts]["heap"][name]
            row(f"{size}, four layers: {name}, container over volatile memory", "ratio", f"{ratio:.3f}", "1.1")
        row(f"{size}, four layers: insertion of 100 parts, durable", "instructions",
            int(tables[parts]["store"]["insert"]), "1100000")
        row(f"{size}, four layers: the same without storage (plain memory)", "instructions",
            int(tables[parts]["heap"]["insert"]))
        row(f"{size}, four layers: the same, connected to parts anywhere", "instructions",
            int(tables[parts]["store"]["insert-anywhere"]))
        row(f"{size}, four layers: insertion of 100 parts: flushes", "flushes",
            int(warm(runs[command("store", parts)]["insert"], 2)), "1")
        for build, paper in (("file", 0), ("mapped", 1)):
            for name in ("lookup", "traversal", "insert", "total"):
                row(f"{size}: {name}, {build} over container (the paper: {PAPER[name][paper] / PAPER[name][2]:.2f})",
                    "ratio", f"{tables[parts][build][name] / tables[parts]['store'][name]:.2f}")
        cold, _ = sections(os.path.join(directory, f"cold{parts}"))
        found = cold[f"oo1-store run {parts} 1"]
        for name in ("lookup", "traversal"):
            row(f"{size}, container: first {name} after a boot", "instructions", found[name][0][0])
            row(f"{size}, container: first {name} after a boot: pages read", "pages", found[name][0][1])
    for build in ("file", "mapped", "store"):
        more = tables[LARGE][build]["total"] / tables[SMALL][build]["total"] * 100 - 100
        row(f"large over small, {build}: total (the paper: +{PAPER_LARGE[build]} %)", "% more", f"{more:.0f}")


def objects(directory):
    runs, checks = sections(os.path.join(directory, "objects"))
    heap = runs["oo1-objects all heap ordered 20000 10"]
    print("\nOO1 as objects, 20,000 parts: thousands of instructions, warm; different pages of a traversal, "
          "pages read by the first after a boot")
    print(f"{'placement, ids':20}{'lookup':>8}{'traversal':>10}{'reverse':>9}{'insert':>8}{'anywhere':>9}"
          f"{'pages':>8}{'cold':>7}")
    names = ("lookup-again", "traversal-again", "reverse-again", "insert", "insert-anywhere")
    sums = []
    for command, found in runs.items():
        match = re.match(r"oo1-objects (?:run|all) (\w+) (\w+) 20000", command)
        if not match:
            continue
        what = f"{match[1]}, {match[2]}"
        sums.append([[r[4] for r in found[n]] for n in ("lookup", "traversal")])
        cells = [warm(found[name]) / 1000 for name in names]
        pages, cold = warm(found["traversal"], 5), found["traversal"][0][1]
        print(f"{what:20}{cells[0]:8,.0f}{cells[1]:10,.0f}{cells[2]:9,.0f}{cells[3]:8,.0f}{cells[4]:9,.0f}"
              f"{pages:8,.0f}{cold:7}")
        if match[1] == "heap":
            continue
        row(f"objects, {what}: different pages of a traversal", "pages", int(pages))
        row(f"objects, {what}: pages read by the first traversal after a boot", "pages", cold)
        if match[2] == "ordered":
            for name in names[:3]:
                row(f"objects, {what}: {name.split('-')[0]}, container over volatile memory", "ratio",
                    f"{warm(found[name]) / warm(heap[name]):.3f}", "1.1")
        row(f"objects, {what}: insertion of 100 parts, durable", "instructions", int(warm(found["insert"])),
            "1100000" if match[2] == "ordered" else "-")
        row(f"objects, {what}: insertion of 100 parts: flushes", "flushes", int(warm(found["insert"], 2)), "1")
    same(sums, "objects")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    relational(sys.argv[1])
    objects(sys.argv[1])


if __name__ == "__main__":
    main()
