#!/usr/bin/env python3
"""The tests of the crash tests: each planted bug of disk/ (tests/bugs/disk) must be found.

  tests/host/test_disk_bugs.py          some of them, by SEED (the clock's); all in `make test-long`
  tests/host/test_disk_bugs.py --all    all
  tests/host/test_disk_bugs.py BUG...   these

A bug is looked for by what the line `Test:` of its patch names, by each of them. `lives`: tests/disk/hunt is linked with the store
that has it, and recovers crash states of lives until one fails; then hunt without the bug must pass the same life,
else it was not the bug that failed. Any other is a test of tests/disk that is there for it and must fail; that it
passes without is seen when it runs for itself.
"""

import concurrent.futures
import os
import random
import re
import resource
import subprocess
import sys
import time

import tap

SOME = {"check": 4, "test": 10}
GUARD_SECONDS = 60                      # of CPU
JOBS = int(os.environ.get("JOBS") or 2)
BUGS = tap.load("bugs")


def run(words, **more):
    """(status, the last line that it printed)"""
    limit = (GUARD_SECONDS, GUARD_SECONDS)
    done = subprocess.run(words, cwd=tap.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          text=True, errors="replace", env=dict(os.environ, TEST_TIER="check", **more),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
    return done.returncode, (done.stdout.splitlines() or [""])[-1]


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


def guarded(folder, program, test):
    """The same, by a test that is there for it."""
    status, line = run([os.path.join(folder, program)], ONLY=test)
    return f"{program}, status {status}" if status else None, line


def looked_for(name):
    """(name, how it was found or None, what is wrong, seconds)"""
    start = time.monotonic()
    built = subprocess.run(["scripts/bugs", "build", "disk", name], cwd=tap.ROOT, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
    folder = BUGS.place("disk", name)
    found, wrong = [], built.stdout
    for test in BUGS.head("disk", name)["Test"].split(";") if built.returncode == 0 else []:
        program, *words = test.split()
        by, wrong = hunted(folder, words) if program == "lives" else guarded(folder, program, words[0])
        if not by:
            return name, None, f"{test}: {wrong}", time.monotonic() - start
        found.append(by)
    return name, "; ".join(found), wrong, time.monotonic() - start


def chosen(words):
    names = BUGS.names("disk")
    tier = os.environ.get("TEST_TIER", "test")
    if words == ["--all"] or (not words and tier == "long"):
        return names
    if unknown := set(words) - set(names):
        sys.exit("no such bug: " + " ".join(sorted(unknown)))
    seed = os.environ.get("SEED") or str(int(time.time()))
    return words or sorted(random.Random(seed).sample(names, SOME[tier]))


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
                print(f"# {wrong}\n# again: tests/host/test_disk_bugs.py {name}", flush=True)
            rows.append(f"# {name:<16} {BUGS.head('disk', name)['Class']:<11} {seconds:5.1f} s  {found or 'ALIVE'}")
    print("\n".join(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
