#!/usr/bin/env python3
"""Group sites, its third part: a container gets another layout at the spare, and the spare is made home, under load
(user/sites/spare.md). Runs the guests and prints rows for scripts/bench. Also alone.

  [LEASE=MS] [TIMES=N] sites-layout.py
"""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("figures", os.path.join(HERE, "sites-figures.py"))
FIGURES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FIGURES)
ROOT = os.path.dirname(os.path.dirname(HERE))
ACCOUNTS = 40003                        # of 48 bytes, 80 in a page
WINDOW = 4                              # seconds
TIMES = os.environ.get("TIMES", "6000")
LEASE = os.environ.get("LEASE", "250")      # ms; 1000 on a busy host
WITH = f"--cpus 1 --memory 256 --link lease={LEASE} --add build/tests/sites/layouts"
LOOKS = "store status; sleep 0.5; " * 3
PLAN = """
site c --no-store {W} : layouts a:box old open ups={T} pause=60000 check
server a --store {D}/a {W} : layouts box old make={N}; store export box c write; sleep 900
server b --store {D}/b {W} : layouts box old spare; sleep 2; store status; sleep {S}; store status; store recast box box.new; {L} sleep {R}; layouts box old ready; store status; \
store take-over; store status; layouts box new open check; sleep 900
server w --store {D}/w --store-size 64M --zone 7 {W} : sleep 900
link a b
link a w
link b w
link a c
link b c
pair a b w
"""


def run(folder):
    """What the guests said."""
    subprocess.run(["make", "-s", "build/tests/sites/layouts"], check=True)
    subprocess.run(["build/host/kstore", "create", "--quiet", "--size", "256M", f"{folder}/a"], check=True)
    subprocess.run(["cp", f"{folder}/a", f"{folder}/b"], check=True)
    plan = PLAN.format(W=WITH, D=folder, N=ACCOUNTS, S=WINDOW, T=TIMES, R=WINDOW - 1.5, L=LOOKS)
    done = subprocess.run(["scripts/sites", "--timeout", "300", "-"], input=plan, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout.replace("\r", "")


def main():
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        said = run(folder)
    if not -1 < said.find("; put in") < said.find("c: counted"):        # the program was through before, or the host too busy
        sys.exit(said)
    taken = [int(n) for n in re.findall(r"b: log .* (\d+) groups taken", said)]
    lags = [int(n) for n in re.findall(r"b: lag +(\d+) bytes not applied", said)]
    pages, made = re.findall(r"b: layout +box: (\d+) pages, (\d+) times one was made; ready", said)[-1]
    took, = re.search(r"; put in\nb: +that took (\d+) ms", said).groups()
    counted, ms, again = re.search(r"c: counted to (\d+) in (\d+) ms, (\d+) of them", said).groups()
    pause, = re.search(r"c: the longest pause took (\d+) ms", said).groups()
    FIGURES.row("another layout: pages of the container", "pages", int(pages))
    FIGURES.row("another layout: conversions at the spare, until it takes over", "pages", int(made))
    FIGURES.row("the spare, beside a program that counts, before: groups taken a second", "groups", (taken[1] - taken[0]) / WINDOW)
    FIGURES.row("the same while it converts", "groups", (taken[-1] - taken[1]) / WINDOW)
    FIGURES.row("lag of the spare, the most of two looks before", "bytes", max(lags[:2]))
    FIGURES.row("lag while it converts, the most of four looks", "bytes", max(lags[2:]))
    FIGURES.row("take-over: pages of the new layout committed", "ms", int(took))
    FIGURES.row("take-over: the longest pause of the program", "ms", int(pause))
    FIGURES.row(f"transactions begun again, of {int(counted):,} in {int(ms) / 1000:.1f} s", "", int(again))


if __name__ == "__main__":
    sys.exit(main())
