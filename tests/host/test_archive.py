#!/usr/bin/env python3
"""kstore archive and restore from outside: each state that was archived comes back; holes, other stores and other lives
are refused by name; a restore that was cut off is done again; and no archive makes the tool crash, with sanitizers: its
files are cut, flipped, renamed, or changed with their checksums made right. ARCHIVE_SEED=N repeats one of these."""

import json
import lzma
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from store_reader import BLOCK, crc, seed
from tap import ROOT, run_tests

KSTORE = os.path.join(ROOT, "build/host/kstore")
SANITIZED = os.path.join(ROOT, "build/tests/asan/kstore")
SOUND, DAMAGED, WRONG_USE, CANNOT, NO_STORE = range(5)
OLDER_END = 393216      # where the log of format-3b ends
SEEDS = {"long": 300 * int(os.environ.get("TIMES") or 1), "check": 10}.get(os.environ.get("TEST_TIER"), 24)


def run(*words, status=SOUND, program=KSTORE):
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True, errors="replace")
    assert status is None or done.returncode == status, (words, done)
    return done.stdout + done.stderr


class Lost:
    """A store, its archive, and what it held when its log ended where."""

    def __init__(self, steps, *options):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP"))
        self.store, self.archive = self.at("store"), self.at("archive")
        run("create", *options, self.store)
        self.ends = []
        for step in range(steps):
            self.put(f"box{step}")
            self.take()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def put(self, name, *options):
        with open(self.at("source"), "wb") as source:
            source.write(b"".join((b"%s %d " % (name.encode(), i)).ljust(BLOCK, b".") for i in range(4)))
        run("put", *options, self.store, name, self.at("source"))

    def take(self, *options):
        said = run("archive", *options, self.store, self.archive)
        self.ends.append((int(re.search(r"up to LSN (\d+)", said)[1]), self.pages(self.store)))

    def pages(self, image):
        return run("dump", "--objects", "--pages", image)

    def logs(self):
        return sorted(name for name in os.listdir(self.archive) if name.startswith("log-"))

    def restored(self, *options, status=SOUND, program=KSTORE):
        return run("restore", "--force", *options, self.archive, self.at("new"), status=status, program=program)

    def same(self, pages):
        run("check", "--strict", self.at("new"))
        assert self.pages(self.at("new")) == pages


def test_an_archive_that_was_begun_by_an_older_format_goes_on():
    with Lost(0, "--size", "2", "--log", "64") as lost:
        with lzma.open(os.path.join(ROOT, "tests/disk/fixtures/format-3b.store.xz")) as packed, open(lost.store, "wb") as image:
            image.write(packed.read())
        os.mkdir(lost.archive)
        shutil.copy(lost.store, os.path.join(lost.archive, f"base-{OLDER_END:016x}-{1:016x}.store"))
        subprocess.run([KSTORE, "upgrade", lost.store], check=True, input="y\n", text=True, capture_output=True)
        held = lost.pages(lost.store)
        for name in ("more", "most"):
            lost.put(name)
            lost.take()
        assert len(os.listdir(lost.archive)) == 3 and lost.logs(), os.listdir(lost.archive)
        run("restore", "--list", lost.archive)
        for end, pages in lost.ends:
            lost.restored("--to", f"csn:{end}")
            lost.same(pages)
        lost.restored("--to", f"csn:{OLDER_END}")
        lost.same(held)


def test_each_state_that_was_archived_comes_back():
    with Lost(7, "--size", "2", "--log", "64") as lost:
        run("restore", "--list", lost.archive)
        for end, pages in lost.ends[::2]:
            lost.restored("--to", f"csn:{end}")
            lost.same(pages)
        assert "6 transactions" not in lost.restored()
        lost.same(lost.ends[-1][1])
        lost.restored("--to", "latest")
        for wrong in ["yesterday", "csn:", "csn:9x", "2026-13-01", "2026-11-28T09:30:00+1"]:
            assert "no time such as" in lost.restored("--to", wrong, status=WRONG_USE)
        assert "nothing so old" in lost.restored("--to", "csn:1", status=WRONG_USE)
        assert "nothing so old" in lost.restored("--to", "2001-02-03T04:05:06", status=WRONG_USE)
        assert "ends before that csn" in lost.restored("--to", f"csn:{lost.ends[-1][0] + 5000}", status=WRONG_USE)
        assert "exists" in run("restore", lost.archive, lost.store, status=CANNOT)


def test_a_power_cut_between_two_rounds():
    with Lost(3, "--size", "2", "--log", "128") as lost:
        lost.put("cut", "--cut")
        run("archive", lost.store, lost.archive)        # what is not known to be durable waits:
        groups = json.loads(run("log", "--json", lost.store))["groups"]
        with open(lost.store, "r+b") as file:           # the cut takes it
            file.seek(groups[-1]["offset"])
            file.write(bytes(groups[-1]["bytes"]))
        lost.put("more")
        lost.take()
        lost.restored()
        lost.same(lost.ends[-1][1])


def test_a_hole_is_refused_by_name():
    with Lost(6, "--size", "2", "--log", "128") as lost:
        gone, after = lost.logs()[2:4]
        os.rename(os.path.join(lost.archive, gone), lost.at("gone"))
        said = lost.restored(status=DAMAGED)
        last = int(re.search(r"--to csn:(\d+)", said)[1])
        assert last == int(gone[4:20], 16) and after in said, said
        assert not os.path.exists(lost.at("new")) and not os.path.exists(lost.at("new.part"))
        lost.restored("--to", f"csn:{last}")
        assert "HOLE" in run("restore", "--list", lost.archive, status=DAMAGED)
        lost.take("--base")                             # what is behind it can be restored again
        lost.restored()
        lost.same(lost.ends[-1][1])


def test_a_ring_that_went_round_is_a_hole():
    with Lost(2, "--size", "2", "--log", "64") as lost:
        for i in range(5):
            lost.put(f"much{i}")
        assert "was overwritten" in run("archive", lost.store, lost.archive, status=DAMAGED)
        lost.take("--base")
        lost.restored()
        lost.same(lost.ends[-1][1])


def test_another_store_or_life_is_refused():
    with Lost(3, "--size", "2", "--log", "128") as lost:
        lost.restored()
        new = lost.at("new")
        said = run("archive", new, lost.archive, status=WRONG_USE)
        assert "another life" in said, said
        run("archive", new, lost.at("second"))
        shutil.copy(os.path.join(lost.archive, lost.logs()[-1]), lost.at("second"))
        run("restore", lost.at("second"), lost.at("third"), status=None)
        assert lost.pages(lost.at("new")) == lost.ends[-1][1]


def test_a_store_that_grows_gets_a_new_base():
    with Lost(2, "--size", "2", "--log", "128") as lost:
        run("grow", lost.store, "8M")
        lost.put("grown")
        said = run("archive", lost.store, lost.archive)
        assert "has grown" in said
        lost.take()
        lost.restored()
        lost.same(lost.ends[-1][1])


def test_a_restore_that_was_cut_off_is_done_again():
    with Lost(5, "--size", "64", "--log", "128") as lost:
        for _ in range(6):
            with subprocess.Popen([KSTORE, "restore", lost.archive, lost.at("new")], stdout=subprocess.DEVNULL) as cut:
                for _ in range(random.randrange(2000)):
                    if os.path.exists(lost.at("new.part")):
                        break
                    time.sleep(0)
                cut.send_signal(signal.SIGKILL)
            if cut.returncode == 0:
                os.remove(lost.at("new"))
            assert not os.path.exists(lost.at("new"))   # whatever was done has another name
        run("restore", lost.archive, lost.at("new"))
        lost.same(lost.ends[-1][1])


# --- hostile archives

def group_mend(uuid, data, at):
    """Makes the CRC of the group at `at` right again."""
    blocks = struct.unpack_from("<I", data, at + 44)[0]
    if not 0 < blocks * BLOCK <= len(data) - at:
        return
    lsn, epoch = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<I", data, at + 36)[0]
    right = crc(crc(seed(uuid, 2, lsn, epoch), data[at:at + 60]), data[at + 64:at + blocks * BLOCK])
    struct.pack_into("<I", data, at + 60, right)


def spoil(archive, uuid, choose):
    name = choose.choice(sorted(os.listdir(archive)))
    path = os.path.join(archive, name)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    what = choose.randrange(6)
    if what == 0:
        os.remove(path)
    elif what == 1:
        os.rename(path, os.path.join(archive, re.sub(r"-[0-9a-f]{16}", f"-{choose.randrange(1 << 64):016x}", name, count=1)))
    elif what == 2:
        del data[choose.randrange(len(data)):]
    elif what == 3 and name.startswith("log"):
        at = choose.randrange(len(data) // BLOCK) * BLOCK
        data[at:at + BLOCK] = data[:BLOCK]
    else:
        for _ in range(choose.choice([1, 1, 5])):
            at = choose.randrange(len(data))
            block = at // BLOCK * BLOCK
            at = block + choose.choice([choose.randrange(64), choose.randrange(64, 300), choose.randrange(BLOCK)])
            data[at] = choose.choice([0, 1, 255, data[at] ^ 1 << choose.randrange(8)])
            if what == 5 and name.startswith("log"):
                group_mend(uuid, data, block)
    if what >= 2:
        with open(path, "wb") as file:
            file.write(data)


def hostile(number, lost, good):
    choose = random.Random(number)
    archive = lost.at("spoilt")
    shutil.rmtree(archive, ignore_errors=True)
    shutil.copytree(lost.archive, archive)
    with open(lost.store, "rb") as file:
        uuid = file.read(32)[16:]
    for _ in range(choose.choice([1, 1, 2])):
        if os.listdir(archive):
            spoil(archive, uuid, choose)
    new = lost.at("hostile")
    words = [["restore", "--force", archive, new], ["restore", "--list", archive], ["archive", lost.store, archive]]
    for command in words:
        done = subprocess.run([SANITIZED, *command], check=False, capture_output=True, text=True, errors="replace", timeout=60)
        assert done.returncode in range(5) and "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, \
            f"ARCHIVE_SEED={number} {command} {done}"
        if command[0] == "restore" and done.returncode == SOUND and command[1] == "--force":
            assert run("check", new, status=None).count("\n") and lost.pages(new), f"ARCHIVE_SEED={number}"
            good.append(number)


def test_no_archive_makes_the_tool_crash():
    only = os.environ.get("ARCHIVE_SEED")
    first = int(only or os.environ.get("SEED") or 1)
    good = []
    with Lost(4, "--size", "1", "--log", "64") as lost:
        for number in range(first, first + (1 if only else SEEDS)):
            hostile(number, lost, good)
    assert only or len(good) < SEEDS


if __name__ == "__main__":
    run_tests(globals())
