#!/usr/bin/env python3
# Runs once: the line of time of two guests does not depend on their CPUs.
"""Two sites are traced while one commits at the other; scripts/trace2json puts both traces on one line of time, on which the home
publishes and flushes what the other one commits within that one's commit (kernel/look/tracing.md)."""

import bisect
import collections
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "host"))
from tap import ROOT, run_tests                 # noqa: E402
from test_trace import check_json               # noqa: E402

TMP = os.environ.get("TEST_TMP", "/tmp")
UPS = 25
SAID = {}


def site(name, *words):
    return subprocess.Popen([os.path.join(ROOT, "scripts/run"), "--site", name, "--link", "lease=5000", "--cpus", "1", "--timeout", "400",
                             "--allow", "all", "--add", os.path.join(ROOT, "build/tests/sites/shared"), "--export", os.path.join(TMP, name),
                             *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def traced():
    """The merged trace of a run, as trace2json makes it."""
    address = os.path.join(TMP, "socket")
    home = site("home", "--store", os.path.join(TMP, "store"), "--store-size", "64M", "--listen", address, "-c",
                "shared box create=8; store export box far write; trace -o /export/home.trace shared box await=9; "
                "shared box await=10; sites -v; shared box phase=11 await=12 lost")
    while not os.path.exists(address) and home.poll() is None:
        time.sleep(0.02)
    far = site("far", "--no-store", "--join", address, "-c",
               f"shared home:box open; trace -o /export/far.trace shared home:box open ups={UPS} phase=9; "
               "shared home:box open sum phase=10 await=12 & shared home:box open await=11; sites -v; shared home:box open phase=12; wait")
    for guest in home, far:
        SAID[guest], _ = guest.communicate()
        assert guest.returncode == 0, SAID[guest]
    out = os.path.join(TMP, "both.json")
    done = subprocess.run([os.path.join(ROOT, "scripts/trace2json"), os.path.join(TMP, "far", "far.trace"),
                           os.path.join(TMP, "home", "home.trace"), "-o", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def test_what_one_site_commits_the_other_publishes_and_flushes_meanwhile():
    made = traced()
    check_json(made)
    clocks = made["otherData"]["clocks"]
    wrong_us = clocks["home"]["wrong_by_ns"] / 1000
    names = {e["pid"]: e["args"]["name"] for e in made["traceEvents"] if e.get("name") == "process_name"}
    here = [e for e in made["traceEvents"] if e["ph"] != "M"]
    published = sorted(e["ts"] for e in here if e["ph"] == "i" and e["name"].startswith("CM7: published") and
                       names[e["pid"]] == "home: transactions")
    flushed = sorted(e["ts"] for e in here if e["ph"] == "e" and e["name"] == "flush" and names[e["pid"]] == "home: disk store")
    commits, open_at = [], collections.defaultdict(list)
    for e in here:
        if names[e["pid"]] == "far: transactions" and e["ph"] in "BE":
            if e["ph"] == "B":
                open_at[e["tid"]].append((e["ts"], e["name"]))
            else:
                begin, name = open_at[e["tid"]].pop()
                if name.startswith("commit of"):
                    commits.append((begin, e["ts"]))
    assert len(commits) >= UPS, f"{len(commits)} commits at the far site"
    def within(times, begin, end):
        at = bisect.bisect_left(times, begin - wrong_us)
        return at < len(times) and times[at] <= end + wrong_us
    both = sum(within(published, *commit) and within(flushed, *commit) for commit in commits)
    apart = [end - begin for begin, end in commits]
    print(f"# {len(commits)} commits of {min(apart):.0f} us and more; clocks are {clocks['home']['ahead_ns'] / 1000:.0f} us apart, "
          f"known to {wrong_us:.0f} us; {both} were published and flushed meanwhile")
    assert both >= len(commits) - 1, f"{both} of {len(commits)} commits: {commits[:5]} {published[:5]} {flushed[:5]}"


def test_sites_tells_what_is_cached_of_the_home_and_what_went_to_and_fro():
    """The first test's run: at its end a program of the far site has read all accounts."""
    found = re.search(r"cached of it: (\d+) pages, (\d+) to write; waited for: (\d+)\. Asked for: (\d+), called back: (\d+), "
                      r"given back: (\d+), denied: (\d+); commits: (\d+)", list(SAID.values())[1])
    assert found, SAID.values()
    cached, write, waited, asked, called, back, denied, commits = map(int, found.groups())
    assert 8 <= cached <= 30 and write <= cached and waited <= 1 and asked >= cached, found[0]
    assert called >= 1 and back >= 1 and commits >= UPS + 2, found[0]
    assert "cached of it" not in list(SAID.values())[0], "the home uses nothing of the far site"


run_tests(globals())
