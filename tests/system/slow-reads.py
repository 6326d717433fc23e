#!/usr/bin/env python3
# Waits: for a disk that is slow.
"""A disk that reads slowly does not delay commits: those who need no page of it go on.

QEMU holds one read back (blkdebug), of a page that a transaction touches, or all of them (a limit of one
byte per second), until the guest says that others have committed meanwhile. So nothing depends on how fast
anything is."""

import os
import re
import select
import signal
import socket
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "host"))
import tap                                                                # noqa: E402

TMP = os.environ.get("TEST_TMP", "/tmp")
STORE, MONITOR = os.path.join(TMP, "store"), os.path.join(TMP, "monitor")
ANSWER_TIMEOUT_S = 60
FEW = ["--append", "store.log_mib=4 store.group_kib=256"]


class Guest:
    """A shell whose store's disk does what it is told."""

    def __init__(self, program, more):
        disk = f"-blockdev driver=file,node-name=image,filename={STORE} " \
               "-blockdev driver=blkdebug,node-name=held,image=image " \
               "-blockdev driver=raw,node-name=store,file=held " \
               "-device virtio-blk-pci,id=disk,drive=store,serial=store,disable-legacy=on " \
               f"-monitor unix:{MONITOR},server=on,wait=off"
        self.text = ""
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "scripts/run"), "--no-store", "--timeout", "110", "--qemu", disk, *more,
             "--add", os.path.join(ROOT, "build/tests/guest", program)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def expect(self, wanted):
        """Waits until `wanted`, a regular expression, appears in what the guest prints."""
        while not re.search(wanted, self.text, re.M):
            ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_TIMEOUT_S)
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert more, f"waited for {wanted!r}, saw {self.text[-1500:]!r}"
            self.text += more.decode(errors="replace").replace("\r", "")

    def monitor(self, command):
        """Its prompt comes when that was done."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(ANSWER_TIMEOUT_S)
            monitor.connect(MONITOR)
            monitor.sendall(command.encode() + b"\n")
            answer = ""
            while answer.count("(qemu)") < 2:
                answer += monitor.recv(1 << 16).decode(errors="replace")
        assert "rror" not in answer, answer


ONE = ('qemu-io store "break read_aio slow"', 'qemu-io store "resume slow"')
LIMIT = "block_set_io_throttle /machine/peripheral/disk/virtio-backend 0 {} 0 0 0 0"
ALL = (LIMIT.format(1), LIMIT.format(0))


def run(program, more, words="slow", hold=ONE):
    """ONE: its disk's first read after `ready` ends only after `committed`. ALL: the first ends, no other does."""
    guest = Guest(program, more)
    try:
        guest.expect("^katydid> ")
        guest.say(f"allow all; {program} {words}; echo at the end")
        guest.expect("^ready")
        guest.monitor(hold[0])
        guest.say("")
        try:
            guest.expect("^committed")
        finally:
            guest.monitor(hold[1])
        guest.expect("^at the end")
        assert "not ok" not in guest.text, guest.text
    finally:
        os.killpg(guest.process.pid, signal.SIGKILL)
        guest.process.wait()


def fill(command, more):
    if os.path.exists(STORE):
        os.remove(STORE)
    subprocess.run([os.path.join(ROOT, "scripts/run"), "--store", STORE, "--store-size", "64M", "--allow", "all", *more,
                    "--add", os.path.join(ROOT, "build/tests/guest/pstore_slow"), "-c", command], check=True)


def test_commits_go_on_beside_a_slow_read():
    fill("pstore_slow fill", [])
    run("pstore_slow", [])


def test_and_those_that_need_new_pages_beside_many_who_wait_for_one_read():
    fill("pstore_slow fill", [])
    run("pstore_slow", [], "stuck 1 4", ALL)


def test_and_beside_many_reads():
    fill("pstore_slow fill", [])
    run("pstore_slow", [], "stuck 6 2", ALL)


def test_and_beside_one_of_a_page_that_a_transaction_has_spilled():
    fill("true", FEW)
    run("pstore_late", FEW)


tap.run_tests(globals())
