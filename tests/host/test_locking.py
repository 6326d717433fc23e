#!/usr/bin/env python3
"""How a container is locked, by pages or by items, and what protects it, are properties of their own in the directory:
kstore shows them, moves them, and calls what is none damage. Stores that were made before there was such a choice are locked by
pages, and have no protection."""

import json
import os
import struct
import subprocess
import tempfile

from store_reader import BLOCK, Slot, crc, seed
from tap import ROOT, run_tests

KSTORE = os.path.join(ROOT, "build/host/kstore")
SOUND, DAMAGED, WRONG_USE = range(3)
LINES = """{"container": "%s", "segments": 1, "flags": 0, "encoder": %d, "locking": %d, "protection": %d, "type": "", "version": 0, "bytes": 0}
{"end": 0}
"""


def run(*words, status=SOUND, answer=""):
    done = subprocess.run([KSTORE, *words], check=False, capture_output=True, text=True, input=answer)
    assert status is None or done.returncode == status, (words, done)
    return done


def made(folder):
    path = os.path.join(folder, "store")
    run("create", "--size", "2", path)
    for name, encoder, locking, protection in (("pages", 1, 0, 0), ("items", 2, 1, 3)):
        run("import", "-q", path, "-", answer=LINES % (name, encoder, locking, protection))
    return path


def listed(path):
    info = json.loads(run("info", "--json", path).stdout)["containers"]
    dump = json.loads(run("dump", "--json", "--objects", path).stdout)["objects"]
    form = lambda c: (c["name"], c["encoder"], c["locking"], c["protection"])
    assert [form(c) for c in info] == [form(c) for c in dump]
    return [form(c) for c in info]


HELD = [("pages", "full", "page", "none"), ("items", "ranges", "item", "guard and codewords")]


def test_it_is_shown_beside_the_encoder_and_goes_where_the_container_goes():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        path, other = made(folder), os.path.join(folder, "other")
        assert listed(path) == HELD
        for command in ("info", "dump"):
            said = run(command, *(["--objects"] if command == "dump" else []), path).stdout.splitlines()
            assert ["locked by items, protected by guard and codewords" in line for line in said if "encoder" in line] == [False, True]
        run("salvage", path, other)
        assert listed(other) == HELD
        line = json.loads(run("export", "-q", path, "items").stdout.splitlines()[0])
        assert (line["encoder"], line["locking"], line["protection"]) == (2, 1, 3)
        run("check", "--strict", path)


def test_a_line_that_says_nothing_of_it_means_pages_and_another_number_is_refused():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        path = made(folder)
        run("import", "-q", path, "-", answer=(LINES % ("old", 0, 0, 0)).replace('"locking": 0, "protection": 0, ', ""))
        assert listed(path)[-1] == ("old", "difference", "page", "none")
        for wrong, numbers in (("locking", (0, 2, 0)), ("protection", (0, 0, 4))):
            said = run("import", "-q", path, "-", answer=LINES % ("new", *numbers), status=None).stderr
            assert "no such " + wrong in said


def entry_spoilt(path, name, offset, value):
    """The container's entry in both areas, with right CRCs up to the superblock; how often it was found."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    found = 0
    for slot in [Slot(bytes(data[at:at + BLOCK]), at) for at in (0, len(data) // 2)]:
        for area, (redo, _, _, pages, *_) in enumerate(slot.checkpoints):
            start, table = slot.area_start[area], (pages * 16 + BLOCK - 1) // BLOCK * BLOCK
            first = start + (slot.area_pages * 16 + BLOCK - 1) // BLOCK * BLOCK
            for page in range(pages if redo else 0):
                at = first + page * BLOCK
                entry = bytes(data[at:at + BLOCK]).find(name.ljust(64, b"\0"))
                if entry % 512 != 8:
                    continue
                found += 1
                struct.pack_into("<H", data, at + entry - 8 + offset, value)
                struct.pack_into("<I", data, start + 16 * page,
                                 crc(seed(slot.uuid, 4, page, 0), bytes(data[at:at + BLOCK])))
            struct.pack_into("<I", data, slot.offset + 144 + 40 * area + 16,
                             crc(seed(slot.uuid, 3, redo, 0), bytes(data[start:start + table])))
        struct.pack_into("<I", data, slot.offset + 8, crc(seed(slot.uuid, 1, slot.slot, 0),
                                                          bytes(data[slot.offset + 12:slot.offset + BLOCK])))
    with open(path, "wb") as file:
        file.write(data)
    return found


def test_an_entry_that_is_locked_by_neither_is_damage_and_so_is_another_one_than_the_log_says():
    """Only the newest checkpoint has the container; the log leads there from the older one, too."""
    for at, value, told in ((258, 1, None), (258, 2, "out of range (DR1)"), (258, 256, "out of range (DR1)"),
                            (258, 0, "ST19"), (262, 3, None), (262, 4, "out of range (DR1)"), (262, 1, "ST19")):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
            path = made(folder)
            assert entry_spoilt(path, b"items", at, value) == 2
            said = run("check", "--strict", path, status=DAMAGED if told else SOUND)
            assert not told or told in said.stdout + said.stderr, said


def test_a_store_from_before_it_is_locked_by_pages_and_one_with_it_is_no_store_of_then():
    """What was one number of four bytes, the encoder, is two of two: the upper was 0, and a reader refused others."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        path = made(folder)
        with open(path, "rb") as file:
            data = file.read()
        words = {name: {struct.unpack_from("<I", data, at + 248)[0] for at in range(8, len(data) - 512, 512)
                        if data[at:at + 64] == name.ljust(64, b"\0") and data[at - 8:at] != bytes(8)}
                 for name in (b"pages", b"items")}
        assert words == {b"pages": {1}, b"items": {2 | 1 << 16}}, words


if __name__ == "__main__":
    run_tests(globals())
