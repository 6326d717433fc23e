"""runreplay.py - QEMU's record and replay, for scripts/run.

The folder of a recording holds what the run began with (kernel.elf, initrd.tar, the disks), its options (options.json) and QEMU's log of all that came from outside (events). A replay
works on copies, so it can be done any number of times, whatever became of the tree and the store.
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys

DISKS = ["store", "store2", "import"]
RECORDED = ["commands", "no_store", "kill_on", "memory", "append", "seed", "export", "qemu"]


def recorded_arguments(args):
    """Those of the run that was recorded in args.replay, but for how to look at it."""
    folder = args.replay
    with open(os.path.join(folder, "options.json"), encoding="utf-8") as source:
        recorded = json.load(source)
    more = args.qemu
    vars(args).update(recorded)
    args.qemu = f"{args.qemu} {more}".strip()
    paths = [os.path.join(folder, name) for name in DISKS]
    args.store, args.store2, args.import_dir = (
        path if os.path.exists(path) else None for path in paths)
    args.record = None
    args.kernel = os.path.join(folder, "kernel.elf")
    args.cpus, args.accel, args.add, args.iso = 1, "tcg", [], False


def record_start(args):
    """Keep what the run begins with, instead of what an earlier one left in the folder."""
    os.makedirs(args.replay_record, exist_ok=True)
    for name in DISKS + ["events"]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(args.replay_record, name))
    with open(os.path.join(args.replay_record, "options.json"), "w", encoding="utf-8") as out:
        json.dump({name: getattr(args, name) for name in RECORDED}, out)
    kernel = os.path.join(args.replay_record, "kernel.elf")
    shutil.copyfile(args.kernel, kernel)
    args.kernel = kernel


def copy_disk(source, target):
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", source, target], check=True)


def again(args):
    """The command that repeats this run, if one does."""
    if args.rr:
        return f"scripts/run --replay {shlex.quote(args.rr)} # or with --gdb"
    return "scripts/run " + shlex.join(sys.argv[1:]) if args.seed is not None else None
