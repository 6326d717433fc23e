#!/usr/bin/env python3
# Waits: for a machine that is stopped again and again.
"""The clock's rate is right although the host takes the CPU away while it is measured.

QEMU is stopped for 60 ms and let go for 5, again and again, from its start until the kernel has said
what it measured: 10 ms cannot pass without a stop. Before ACPI's timer was used the PIT's counter came
round meanwhile, and the clock was made too slow by several times."""

import os
import re
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "host"))
import tap                                                                # noqa: E402

LOG = os.path.join(os.environ.get("TEST_TMP", "/tmp"), "kernel")
STOPPED_S, GOING_S, STOPS_MAX = 0.06, 0.005, 400
ROUNDS, TRIES = 3, 20


def qemu_of(run):
    """The child of scripts/run, once it is there and is QEMU; None: it ended before."""
    while run.poll() is None:
        try:
            with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
                for pid in children.read().split():
                    with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                        if name.read().startswith("qemu"):
                            return int(pid)
        except OSError:
            pass
    return None


def disturb(run):
    """Stops and lets go; returns how often, when QEMU has ended or it was enough."""
    pid = qemu_of(run)
    stops = 0
    try:
        while pid and stops < STOPS_MAX and run.poll() is None:
            for number, seconds in ((signal.SIGSTOP, STOPPED_S), (signal.SIGCONT, GOING_S)):
                os.kill(pid, number)
                time.sleep(seconds)
            stops += 1
    except ProcessLookupError:
        pass
    return stops


def rate(disturbed):
    """(kHz of the counter, stops) of one boot."""
    command = [os.path.join(ROOT, "scripts/run"), "--no-store", "--cpus", "1", "--timeout", "110", "--log", LOG,
               "-c", "true"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as run:
        stops = disturb(run) if disturbed else 0
    assert run.returncode == 0, f"scripts/run ended with {run.returncode}"
    with open(LOG, encoding="utf-8", errors="replace") as log:
        return int(re.search(r"time: counter (\d+) kHz", log.read())[1]), stops


def test_the_rate_is_right_when_the_host_is_busy():
    quiet = min(rate(False)[0] for _ in range(ROUNDS))
    disturbed = 0
    for _ in range(TRIES):              # on a busy host a boot may be over before it could be stopped
        found, stops = rate(True)
        print(f"# {quiet} kHz undisturbed, {found} kHz with {stops} stops")
        assert abs(found - quiet) < quiet / 50, (quiet, found, stops)
        disturbed += stops > 0
        if disturbed == ROUNDS:
            return
    raise AssertionError(f"{disturbed} of {TRIES} boots could be stopped, {ROUNDS} are wanted")


if __name__ == "__main__":
    tap.run_tests(globals())
