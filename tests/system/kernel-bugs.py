#!/usr/bin/env python3
# Runs once: with 2 CPUs.
"""The kernel with planted bugs (tests/bugs/kernel): guest tests must find each, and nothing without one (nor with
what it must get over).

  tests/system/kernel-bugs.py            two of them by SEED (the day), as in `make test`
  tests/system/kernel-bugs.py --all      all: `make kernel-bugs`
  tests/system/kernel-bugs.py BUG...     these

Prints a table: the bug, the test that found it, how, and the seconds that took. A test finds a bug by
a result that is not ok, by a panic (the stale-TLB checker's and assertions), or by a hang, if the patch says that
this is the bug's symptom. What it would say after the first of these does not matter: a run ends there. A hang is a run
that has had so much of the host's time: what its threads waited for processors that others had does not count.
A bug that is not found is asked for again, three times in all; the table says so.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.append(os.path.join(ROOT, "scripts"))
from load import load

CPUS = "2"                              # with one, no TLB of another goes stale
TIME_LIMIT_S, SURE_LIMIT_S = 150, 300    # with a bug; with none
TRIES = 3                               # where threads must meet, a test finds a bug most times, not each time
WALL_LIMIT_S = 1800                     # however busy the host is
TESTS = ["kernel_rights", "kernel_rules", "kernel_txn", "kernel_locks", "kernel_groups", "kernel_spill", "kernel_kills", "kernel_sparse",
         "kernel_ask", "kernel_mapping", "kernel_limit", "kernel_loci", "kernel_recall", "kernel_hungry", "kernel_badges",
         "kernel_inherit", "kernel_parts", "kernel_items", "kernel_item_locks", "kernel_streams", "kernel_breaks", "kernel_holder", "kernel_stays",
         "kernel_take", "kernel_claims"]
WITH = {"kernel_claims": "--no-store", "kernel_charges": "--no-store --memory 64", "kernel_many": "--no-store --memory 256 --icount --cpus 1",
        "kernel_items": "--no-store --memory 48", "kernel_item_locks": "--no-store --memory 48",
        "kernel_dying": "--no-store --memory 256",                      # objects whose sweep is long
        "kernel_loci": "--no-store --memory 32 --icount --cpus 1"}      # shares of a CPU, counted
OWN_OPTIONS = ["hostile_calls", "kernel_streams", "kernel_breaks", "kernel_silent", "pstore_parts"]
SOME = [("WORD_LOST", "NO_SHOOTDOWN", "kernel_rights"), ("NO_INVLPG", "SPILL_TOLD", "kernel_locks")]    # SEED draws, the day; the last: a control
ALL_OF = {"kernel_kills": "kernel_kills all", "kernel_history": "TEST_TIER=long; kernel_history"}   # not a sample


tool = load("scripts/bugs")
runner = load("scripts/test")
HEADS = {name: tool.head("kernel", name) for name in tool.names("kernel")}
NO_START = 120                          # of scripts/run: something is not built
# what is no error of the kernel's, which it must get over: the test finds nothing
SURVIVED = {name for name, head in HEADS.items() if "Survived" in head}


def test_of(bug):
    return HEADS[bug].get("Survived") or HEADS[bug]["Test"].split()[0]


def hang(text):
    """Where a test hangs, by what it has said."""
    results = re.findall(r"^ok \d+ - (.*)", text, re.M)
    return f"hang behind: {results[-1]}" if results else "hang before the first result"


def is_found(bug, found):
    """Is this how the bug is to be found? A hang may have other causes: it counts where the patch expects it."""
    return found is not None and (not found.startswith("hang ") or HEADS[bug].get("Symptom") == "hang")


def tree(pid):
    """This process and those that it has begun, and those of them."""
    found = [pid]
    for process in found:
        for path in glob.glob(f"/proc/{process}/task/*/children"):
            try:
                with open(path, encoding="ascii") as file:
                    found += map(int, file.read().split())
            except OSError:
                pass                    # it has ended
    return found


def shares(pid):
    """Seconds for which all of its threads had a processor, and for which they waited for one that others had."""
    had = waited = 0
    for path in [path for process in tree(pid) for path in glob.glob(f"/proc/{process}/task/*/schedstat")]:
        try:
            with open(path, encoding="ascii") as file:
                numbers = file.read().split()
        except OSError:
            continue
        had += int(numbers[0]) / 1e9
        waited += int(numbers[1]) / 1e9
    return had, waited


def end_after(process, limit):
    """Ends the run when it has had its time, by the clock without the waits, or of all of its processors."""
    start = time.monotonic()
    while process.poll() is None:
        had, waited = shares(process.pid)
        if time.monotonic() - start - waited > limit or had > limit * int(CPUS):
            process.hung = True
            process.terminate()
            return
        time.sleep(1)


def options(test, bug):
    """scripts/run's for the guest: the bug's, the test's here, or those that it has anyway, where it needs a device."""
    if test in OWN_OPTIONS:
        base = os.environ.setdefault("TEST_TMP", os.path.join(ROOT, "build"))
        own = tempfile.mkdtemp(prefix="bug-", dir=base)      # its disks are blank each time
        return [word.replace("$TEST_TMP", own) for path in glob.glob(f"{ROOT}/tests/guest/*/{test}.opts")
                for word in runner.read_options(path)]
    return HEADS.get(bug, {}).get("With", WITH.get(test, "--no-store --memory 32")).split()


def run(test, bug):
    """What the test says with this bug: (None or how it was found, seconds, output)."""
    start = time.monotonic()
    limit = SURE_LIMIT_S if bug == "none" or bug in SURVIVED else TIME_LIMIT_S
    words = [os.path.join(ROOT, "scripts/run"), "--kernel", f"build/bugs/kernel/{bug}/kernel.elf", "--cpus", CPUS,
             *options(test, bug),
             "--timeout", str(WALL_LIMIT_S),
             "--export", os.path.join(os.environ.get("TEST_TMP", "build"), "kernel-bugs-export"),
             "--allow", "all", "--add", f"build/tests/guest/{test}", "-c", ALL_OF.get(test, test)]
    text, found = "", None
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, errors="replace") as process:
        process.hung = False
        threading.Thread(target=end_after, args=(process, limit), daemon=True).start()
        for line in process.stdout:
            text += line
            if bug != "none" and line.startswith("not ok"):
                process.terminate()
                break
    if process.returncode == NO_START:
        sys.exit(f"{test} with {bug} does not start: {text}")
    if match := re.search(r"^PANIC: (.*)", text, re.M):
        found = match[1]
    elif match := re.search(r"^not ok \d+ - (.*)", text, re.M):
        found = "not ok: " + match[1]
    elif process.returncode:
        found = hang(text) if process.hung or process.returncode == 124 else f"status {process.returncode}"
    return found, time.monotonic() - start, text


def main():
    asked = sys.argv[1:]
    everything = asked == ["--all"] or not asked and os.environ.get("TEST_TIER") == "long"
    *some, control = SOME[int(os.environ.get("SEED") or time.time() // 86400) % len(SOME)]
    bugs = sorted(HEADS) if everything else asked or some
    if unknown := set(bugs) - set(HEADS):
        print("not in tests/bugs/kernel:", *sorted(unknown), file=sys.stderr)
        return 2
    if status := tool.build(["kernel", "none", *bugs]):
        return status
    controls = TESTS if everything else [] if asked else [control]
    runs = [(test, "none") for test in controls]
    runs += [(test_of(bug), bug) for bug in bugs]
    print(f"1..{len(runs)}")
    failed, rows = 0, []
    for number, (test, bug) in enumerate(runs, 1):
        found, seconds, text = run(test, bug)
        sound, tries = bug == "none" or bug in SURVIVED, 1
        while not sound and not is_found(bug, found) and tries < TRIES:
            found, more, text = run(test, bug)
            seconds, tries = seconds + more, tries + 1
        good = found is None if sound else is_found(bug, found)
        failed += not good
        name = f"{test} finds nothing where no bug is planted" if bug == "none" else \
            f"{test} gets over {bug}" if bug in SURVIVED else f"{test} finds {bug}"
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
        if not good:
            print("# again: tests/system/kernel-bugs.py", bug if bug != "none" else "")
            print("\n".join("# " + line for line in text.splitlines()[-25:]))
        rows.append(f"# {bug:<16} {test:<14} {seconds:5.1f} s  {found or 'nothing'}{f' (try {tries})' if tries > 1 else ''}")
    print("\n".join(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
