"""A guest under load whose acknowledgements are counted outside (acknowledged.c): imported by engine.py and by tests/ceph."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "host"))
import tap                                                                # noqa: E402, F401

TMP = os.environ.get("TEST_TMP", "/tmp")
PROGRAM = os.path.join(TMP, "acknowledged")
WAIT_S = 240
UNHEARD = 8          # lines of one program on their way when all is killed; on a busy host


def build():
    if not os.path.exists(PROGRAM):
        subprocess.run([os.path.join(ROOT, "scripts/katydid-cc"), os.path.join(ROOT, "tests/system/acknowledged.c"), "-o", PROGRAM], check=True)
    return PROGRAM


def run(store, commands, *options, timeout=WAIT_S):
    """A guest to its end: (status, what it and scripts/run say)."""
    done = subprocess.run([os.path.join(ROOT, "scripts/run"), *(["--store", store] if store else []), "--store-size", "64M",
                           "--add", build(), "--timeout", str(timeout), *options, "-c", commands],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def found(store, *options):
    """{process: counter} after a boot."""
    status, text = run(store, "acknowledged check", *options)
    assert status == 0, text
    return {int(process): int(value) for process, value in re.findall(r"^found (\d+) (\d+)$", text, re.M)}


class Load:
    """A guest that commits. `first` and `last` are what was acknowledged of each process; the longest time
    without an acknowledgement is counted."""

    def __init__(self, store, count, *options, processes=1):
        self.first, self.last, self.lines, self.longest_s, self.heard = {}, {}, [], 0, None
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "scripts/run"), *(["--store", store] if store else []), "--store-size", "64M", "--add", build(),
             "--timeout", str(WAIT_S), *options, "-c", f"acknowledged {count} {processes}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            match = re.match(r"ack (\d+) (\d+)$", line)
            with self.changed:
                if match:
                    now = time.monotonic()
                    self.longest_s = max(self.longest_s, now - (self.heard or now))
                    self.heard = now
                    self.first.setdefault(int(match[1]), int(match[2]))
                    self.last[int(match[1])] = int(match[2])
                else:
                    self.lines.append(line.rstrip())
                self.changed.notify_all()

    @property
    def said(self):
        return "\n".join(self.lines)

    @property
    def count(self):
        return sum(self.last.values())

    def until(self, what, seconds=WAIT_S):
        """Waits until that holds of self."""
        with self.changed:
            assert self.changed.wait_for(lambda: what(self), seconds), f"{self.count} acknowledged, then: {self.said[-1500:]}"

    def more(self, number):
        """Waits for so many acknowledgements from now on."""
        target = self.count + number
        self.until(lambda load: load.count >= target or load.process.poll() is not None)
        assert self.count >= target, self.said[-1500:]

    def end(self):
        """Its status, when it has ended by itself."""
        try:
            status = self.process.wait(WAIT_S)
        finally:
            self.kill()
        return status

    def children(self):
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
                return [int(pid) for pid in children.read().split()]
        except FileNotFoundError:
            return []                   # it has ended

    def qemu(self, number):
        """A signal to QEMU alone."""
        for pid in self.children():
            os.kill(pid, number)

    def kill(self):
        """All of it, at once; what it had said by then is heard, and QEMU has left what it held."""
        ends = []
        with contextlib.suppress(ProcessLookupError):
            ends = [os.pidfd_open(pid) for pid in self.children()]
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for end in ends:
            select.select([end], [], [], WAIT_S)
            os.close(end)
        self.reader.join(WAIT_S)


def nothing_lost(load, now):
    """What was acknowledged is there, and of each process few commits beside it: the one whose outcome nobody knows, and
    those of which scripts/run, which is killed with the machine, had not passed on what the guest said."""
    for process, value in load.last.items():
        assert value <= now.get(process, 0) <= value + 1 + UNHEARD, f"process {process}: {value} acknowledged, {now.get(process)} found"


def check_image(path):
    done = subprocess.run([os.path.join(ROOT, "build/host/kstore"), "check", "--quiet", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
