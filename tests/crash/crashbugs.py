"""crashbugs.py - planted bugs, for scripts/crash: a checker that nobody has seen fail proves nothing.

A bug of tests/bugs/disk is built into the guest's store manager and into kreplay, the recovery of the host
(`scripts/bugs build manager`), as a bug of disk/ would be in both; `kstore check`, which shares no algorithm with
them, and the checks of what the pages hold stay as they are. A run must report it.

Not every bug can be found by a sample of some hundred states: tests/disk enumerates them and finds all.
Here each class is tried, its bugs in the order below, until one is found.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess

from crashload import Wrong

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Those that a run is most likely to meet; the others of the class follow by their names.
FIRST = {"commit": ["ACK_EARLY"], "log": ["NO_CRC", "REPLAY_SHORT"], "wrap": ["WRAP_OVER"],
         "damage": ["DAMAGE_FALSE"], "epoch": ["EPOCH_LATE", "NO_EPOCH"],
         "superblock": ["SUPERBLOCK_FIRST", "NO_FLUSH"],
         "checkpoint": ["TRUNCATE_EARLY", "DIRTY_LOST"], "recovery": ["HOME_SHORT"],
         "encoder": ["RUN_SHORT"], "record": ["DELETE_PAGES", "MASK_LOST"],
         "transaction": ["ABORT_STAYS"], "allocator": ["NEAR_TAKEN"], "hash": ["SPLIT_STAYS"],
         "directory": ["ID_AGAIN", "NAMES_STAY"], "names": ["NAME_TOUCH"],
         "errors": ["FLUSH_SWALLOWED", "NO_FENCE"], "chain": ["SCAN_LSN", "CHAIN_OLD"],
         "grow": ["GROW_EARLY"], "format": ["FORMAT_END", "FORMAT_ORDER"]}
SHORT = 260
# What else suits a class: states in just these writes; states of a life; KiB that are left free when a
# store is enlarged, so that what it gets is used before its next checkpoint
SUITS = {"format": {"aimed": 100}, "grow": {"states": 160, "fill": 512}}
# Bugs that show on a disk that fails (crashdisk.py)
FAILING = {"FLUSH_SWALLOWED": "flush", "NO_FENCE": "write", "CHECKPOINT_FENCE": "write",
           "NO_RETRY": "read once"}
# Seeds that suit a class (the disks of scripts/crash; whether it is enlarged; what was on it before).
SEEDS = {"grow": lambda seed: seed % 21 == 12, "format": lambda seed: seed % 14 in (7, 8, 9)}
SEEDS |= {group: lambda seed: seed % 21 in (3, 10, 17) for group in ("wrap", "checkpoint", "superblock")}
SEEDS |= {group: lambda seed: seed % 21 in (3, 4, 10) for group in ("chain", "names")}


def planted_bugs():
    """{class: names}, by the heads of the patches, the likely ones first."""
    classes = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "tests/bugs/disk/*.patch"))):
        with open(path, encoding="utf-8") as patch:
            group = re.search(r"^Class: (\w+)$", patch.read(), re.M)[1]
        classes.setdefault(group, []).append(os.path.basename(path)[:-6])
    return {group: FIRST.get(group, []) + [name for name in names if name not in FIRST.get(group, [])]
            for group, names in classes.items()}


def build(bug):
    """The programs with this bug, in build/bugs/manager/BUG."""
    done = subprocess.run([os.path.join(ROOT, "scripts/bugs"), "build", "manager", bug], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Wrong(f"{bug} cannot be built: {done.stdout}")


def seeds_for(group, first, count):
    """The seeds of `count` runs from `first` on, of the kind that suits this class."""
    wanted = SEEDS.get(group, lambda seed: True)
    number = first
    while count:
        if wanted(number):
            yield number
            count -= 1
        number += 1


def hunt(args, bug, new_run, attempt, group=None, runs=None, failing=None):
    """(the first run that reports the bug, in one line what it said), or (0, ""); failing: how the disk
    fails, if FAILING does not say it."""
    args = argparse.Namespace(**vars(args) | SUITS.get(group, {}))
    if bug:
        build(bug)
    for number, seed in enumerate(seeds_for(group, args.seed, runs or args.runs)):
        run = new_run(args, seed, bug, FAILING.get(bug, failing))
        wrong = attempt(run)
        shutil.rmtree(run.folder, ignore_errors=True)
        if wrong:
            return number + 1, in_short(wrong.split(": ", 2)[2])
    return 0, ""


def in_short(text):
    lines = text.splitlines()
    return " ".join((lines[0] if len(lines[0]) > SHORT // 2 else " ".join(lines[:2])).split())[:SHORT]


def table(args, wanted, new_run, attempt, show):
    """The classes that are wanted, or all, each until a bug is found, or with every bug; the status."""
    lost = []
    for seed in range(args.seed, args.seed + args.runs):
        good = attempt(new_run(args, seed, None))
        show(f"{'control':12} {'nothing planted':18} seed {seed}: " + (good or "not reported, as it must be"))
        if good:
            lost.append("the control")
    for group, names in planted_bugs().items():
        if wanted != "all" and group not in wanted.split(","):
            continue
        kinds = sorted({FAILING[name] for name in names if name in FAILING}) or [None] * (group in SUITS)
        for kind in kinds:              # such runs are of another kind: the same without a bug
            runs, text = hunt(args, None, new_run, attempt, group, runs=None if kind else 1, failing=kind)
            show(f"{group:12} {'nothing planted':18} " + (text if runs else "not reported, as it must be"))
            if runs:
                lost.append(f"the control of {group}")
        found = 0
        for name in names:
            runs, text = hunt(args, name, new_run, attempt, group)
            found += runs > 0
            show(f"{group:12} {name:18} " + (f"run {runs}: {text}" if runs else "not met"))
            if runs and not args.every:
                break
        if not found:
            lost.append(group)
    show("crash: " + (f"NOT as it must be: {', '.join(lost)}" if lost else
                      "of each class a bug is reported, and the controls are not"))
    return 1 if lost else 0
