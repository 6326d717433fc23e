#!/usr/bin/env python3
# Waits: with counted instructions a guest that sleeps does nothing.
# Runs once: with one CPU.
"""No guest test keeps a CPU in the kernel for 200,000 instructions between two points that serve shootdowns and yield
(kernel/thread/threads.md): each boots once more, on one CPU with QEMU counting instructions; its plugin
ends the run at a longer stretch. `make test` takes two of three which once found one, by SEED (the day); the long tier these and of all others one in
three, which SEED chooses, all with TIMES=3.

  tests/system/stretches.py              those of the tier (TEST_TIER)
  tests/system/stretches.py NAME...      these

Only panics count here, and runs that do not begin or end: whether a test passes is found where it runs as itself."""

import glob
import os
import shlex
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 200000
TIME_LIMIT_S = 900
SOME = ["hostile_calls", "hostile_limits", "kernel_items"]
DEAR = ["kernel_sparse", "kernel_versions"]       # of the long tier, each time
ONE_IN = 3
# What cannot be asked: what is measured as itself, or kernels that keep a shadow of the TLBs, which takes longer.
LEFT_OUT = ["--stretch", "--kernel"]


def options_of(name):
    """The words of NAME.opts but for those on CPUs and counting; None: it is left out."""
    path = glob.glob(os.path.join(ROOT, f"tests/guest/*/{name}.opts"))
    words = shlex.split(open(path[0], encoding="utf-8").read(), comments=True) if path else []
    if any(part in word for word in words for part in LEFT_OUT):
        return None
    words = [word.replace("$TEST_TMP", os.environ["TEST_TMP"]) for word in words if word != "--icount"]
    while "--cpus" in words:
        at = words.index("--cpus")
        del words[at:at + 2]
    return words


def names():
    sources = glob.glob(os.path.join(ROOT, "tests/guest/*/*.c")) + glob.glob(os.path.join(ROOT, "tests/guest/*/*/"))
    found = {os.path.basename(os.path.splitext(path.rstrip("/"))[0]) for path in sources if "/guest/lib/" not in path}
    return sorted(name for name in found if os.access(os.path.join(ROOT, "build/tests/guest", name), os.X_OK))


def panic_of(name, options, limit=LIMIT):
    """What the run said, or "": it met no longer stretch."""
    command = ["scripts/run", "--add", f"build/tests/guest/{name}", "-c", name, "--allow", "all", "--timeout", str(TIME_LIMIT_S),
               *options, "--icount", "--cpus", "1", "--stretch", str(limit)]
    run = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace")
    if run.returncode not in (120, 122, 123, 124):      # could not start, panic, reset, no end
        return ""
    lines = run.stdout.split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith("PANIC")), max(len(lines) - 60, 0))
    return "\n".join("# " + line for line in [shlex.join(command), *lines[first:first + 60]])


def main():
    os.environ.setdefault("TEST_TMP", os.path.join(ROOT, "build"))
    everything = os.environ.get("TEST_TIER") == "long"
    others = [name for name in names() if name not in SOME + DEAR] if everything else []
    if int(os.environ.get("TIMES") or 1) < ONE_IN:
        others = others[int(os.environ.get("SEED") or 1) % ONE_IN::ONE_IN]
    day = int(os.environ.get("SEED") or time.time() // 86400)
    some = [name for number, name in enumerate(SOME) if everything or number != day % len(SOME)]
    wanted = sys.argv[1:] or some + DEAR * everything + others
    count = 1       # a control: the measuring itself
    failed = "from ffffffff" not in panic_of("hostile_limits", options_of("hostile_limits"), 2000)
    print(f"{'not ok' if failed else 'ok'} 1 - some stretch is longer than 2000 instructions", flush=True)
    for name in wanted:
        options = options_of(name)
        if options is None:
            continue
        count += 1
        said = panic_of(name, options)
        failed += said != ""
        print(f"{'not ok' if said else 'ok'} {count} - {name}: no stretch is longer than {LIMIT} instructions", flush=True)
        if said:
            print(said, flush=True)
    print(f"1..{count}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
