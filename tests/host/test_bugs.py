#!/usr/bin/env python3
"""The tests of the host's tests: each planted bug of disk/, libpstore/ and user/ (tests/bugs) must be found.

  tests/host/test_bugs.py               some of them, by SEED (the day), but none of `Tier: long`; all in `make test-long`
  tests/host/test_bugs.py --all [KIND]  all, or those of disk, libpstore or user
  tests/host/test_bugs.py BUG...        these

A bug is looked for by what the line `Test:` of its patch names, by each of them. `lives`: tests/disk/crash/hunt is linked with the store
that has it, and recovers crash states of lives until one fails; then hunt without the bug must pass the same life,
else it was not the bug that failed. Any other is a test of tests/disk that is there for it and must fail, a program of
tests/host, or one of the guest's (guest/NAME), which is booted, perhaps with programs of the system that have the bug, too;
that it passes without is seen when it runs for itself. What a test passes over is looked for twice more; the report says so.
"""

import concurrent.futures
import glob
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time

import tap

SOME = {"check": 3, "test": 3}
GUARD_SECONDS = 60                      # of CPU
JOBS = int(os.environ.get("JOBS") or 2)
BUGS, TEST = tap.load("bugs"), tap.load("test")
KINDS = ["disk", "libpstore", "user"]
TRIES = 3                               # where threads must meet, or the cleaner comes first, a test finds it most times, not each time
NOT_FOUND = (0, 2, 120, 124)            # of scripts/run: it passes, the command is wrong, no start, it hangs


def run(words, **more):
    """(status, the first line that tells a failure, or the last one). A guest ends there: what it would say then does not matter."""
    limit, line = (GUARD_SECONDS, GUARD_SECONDS), ""
    with subprocess.Popen(words, cwd=tap.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env=dict(os.environ, TEST_TIER="check", **more),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit)) as process:
        for text in process.stdout:
            if line.startswith("not ok"):
                continue
            line = text.rstrip("\n")
            if line.startswith("not ok") and words[0] == "scripts/run":
                process.terminate()
    return process.returncode, line


def hunted(folder, words):
    """(how lives find it or None, what is wrong or None)"""
    status, line = run([os.path.join(folder, "hunt"), *words])
    found = re.match(r"found (\d+) (\d+) (.*)", line)
    if status != 1 or not found:
        return None, line
    status, control = run(["build/tests/disk/hunt", "life", found[1]])
    if status or not control.startswith("nothing in"):
        return None, f"life {found[1]} without the bug: {control}"
    return f"life {found[1]}, {found[2]} states: {found[3]:.90}", None


def guarded(folder, program, words):
    """The same, by a test that is there for it: the name of one, or variables for the program."""
    variables = dict(word.split("=", 1) if "=" in word else ("ONLY", word) for word in words)
    status, line = run([os.path.join(folder, program)], **variables)
    return f"{program}, status {status}" if status else None, line


def booted(folder, name, words, programs):
    """The same, by a program of the guest, and programs of the system that have the bug, too."""
    with tempfile.TemporaryDirectory() as scratch:
        options = [word.replace("$TEST_TMP", scratch) for path in glob.glob(f"tests/guest/*/{name}.opts", root_dir=tap.ROOT)
                   for word in TEST.read_options(os.path.join(tap.ROOT, path))]
        for path in [word for word in options if word.startswith("build/bugs/kernel/")]:
            subprocess.run(["scripts/bugs", "build", "kernel", path.split("/")[3]], cwd=tap.ROOT, stdout=subprocess.DEVNULL, check=False)
        status, line = run(["scripts/run", "--timeout", "120", *options, "--allow", "all",
                            *(word for program in programs for word in ["--add", os.path.join(folder, program)]),
                            "--add", os.path.join(folder, name), "-c", " ".join([name, *words])])
    found = line.startswith("not ok") or status not in NOT_FOUND
    return f"{name}, status {status}: {line}" if found else None, line


def by_test(folder, program, words, programs):
    if program == "lives":
        return hunted(folder, words)
    return booted(folder, program[6:], words, programs) if program.startswith("guest/") else guarded(folder, program, words)


def kind_of(name):
    return next(kind for kind in KINDS if name in BUGS.names(kind))


def looked_for(name):
    """(name, how it was found or None, what is wrong, seconds)"""
    start, kind = time.monotonic(), kind_of(name)
    built = subprocess.run(["scripts/bugs", "build", kind, name], cwd=tap.ROOT, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
    folder = BUGS.place(kind, name)
    programs = [os.path.basename(path) for path in BUGS.head(kind, name).get("With", "").split()]
    found, wrong = [], built.stdout
    for test in BUGS.head(kind, name)["Test"].split(";") if built.returncode == 0 else []:
        program, *words = test.split()
        by, tries = None, 0
        while not by and tries < TRIES:
            by, wrong = by_test(folder, program, words, programs)
            tries += 1
        if not by:
            return name, None, f"{test}: {wrong}", time.monotonic() - start
        found.append(by + (f" (try {tries})" if tries > 1 else ""))
    return name, "; ".join(found), wrong, time.monotonic() - start


def chosen(words):
    names = [name for kind in KINDS for name in BUGS.names(kind)]
    tier = os.environ.get("TEST_TIER", "test")
    if words[:1] == ["--all"] and set(words[1:]) <= set(KINDS):
        return [name for kind in words[1:] or KINDS for name in BUGS.names(kind)]
    if not words and tier == "long":
        return names
    if unknown := set(words) - set(names):
        sys.exit("no such bug: " + " ".join(sorted(unknown)))
    seed = os.environ.get("SEED") or str(int(time.time()) // 86400)
    sure = [name for name in names if not BUGS.head(kind_of(name), name).get("Tier", "").startswith("long")]
    return words or sorted(random.Random(seed).sample(sure, SOME[tier]))


def main():
    names = chosen(sys.argv[1:])
    for variable in ("SEED", "N", "LONG"):
        os.environ.pop(variable, None)
    print(f"1..{len(names)}")
    failed, rows = 0, []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for number, (name, found, wrong, seconds) in enumerate(pool.map(looked_for, names), 1):
            failed += not found
            print(f"{'ok' if found else 'not ok'} {number} - {name} is found", flush=True)
            if not found:
                print(f"# {wrong}\n# again: tests/host/test_bugs.py {name}", flush=True)
            rows.append(f"# {name:<16} {BUGS.head(kind_of(name), name).get('Class', kind_of(name)):<11} {seconds:5.1f} s  {found or 'ALIVE'}")
    print("\n".join(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
