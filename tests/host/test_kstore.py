#!/usr/bin/env python3
"""kstore from outside: exit codes, JSON, salvage, grow, the map; and that no image makes it crash.

The last is done with a build with the address and undefined-behaviour sanitizers: images are cut,
flipped, or changed in a field with all checksums above it made right again. KSTORE_SEED=N repeats
one of them.
"""

import fcntl
import json
import os
import random
import re
import struct
import subprocess
import tempfile
import xml.dom.minidom

from store_reader import BLOCK, Slot, crc, seed
from tap import ROOT, run_tests

KSTORE = os.path.join(ROOT, "build/host/kstore")
SANITIZED = os.path.join(ROOT, "build/tests/asan/kstore")
SOUND, DAMAGED, WRONG_USE, CANNOT, NO_STORE = range(5)
SEEDS = {"long": 240 * int(os.environ.get("TIMES") or 1), "check": 16}.get(os.environ.get("TEST_TIER"), 16)


def run(*words, status=None, program=KSTORE):
    done = subprocess.run([program, *words], check=False, capture_output=True, errors="replace")
    if status is not None:
        assert done.returncode == status, (words, done)
    return done


class Image:
    """A store in a file of its own folder; `with` removes it."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP"))
        self.path = self.other("store")
        if options:
            run("create", *options, self.path, status=SOUND)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def other(self, name):
        return os.path.join(self.folder.name, name)

    def put(self, name, pages, *options):
        with open(self.other("source"), "wb") as source:
            for i in range(pages):
                source.write((b"%s %d " % (name.encode(), i)).ljust(BLOCK, b"."))
        run("put", *options, self.path, name, self.other("source"), status=SOUND)

    def spoil(self, offset, data):
        with open(self.path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def pages(self, path=None):
        dump = json.loads(run("dump", "--json", "--pages", path or self.path).stdout)
        return {(p["id"], p["page"]): (p["offset"], p["crc"]) for p in dump["pages"]}

    def objects(self, path=None):
        found = json.loads(run("dump", "--json", "--objects", path or self.path).stdout)["objects"]
        return [(o["id"], o["name"], o["address"], o["segments"]) for o in found]


COMMANDS = ("create", "info", "check", "put", "salvage", "dump", "log", "grow", "map", "objects",
            "leaks")


def test_every_command_has_help_and_refuses_wrong_use():
    listed = run("--help", status=SOUND).stdout
    for command in COMMANDS:
        assert f"\n  {command} " in listed
        assert "Usage: kstore " + command in run(command, "--help", status=SOUND).stdout
        run(command, status=WRONG_USE)
        run(command, "--no-such-option", "x", status=WRONG_USE)
    run(status=WRONG_USE)
    run("nonsense", status=WRONG_USE)


def test_exit_codes_tell_what_an_image_is():
    with Image("--size", "1") as image:
        for command in ("info", "check", "dump", "log", "map", "objects", "leaks"):
            run(command, image.path, status=SOUND)
            run(command, image.other("missing"), status=CANNOT)
        for data in (bytes(1 << 20), b"something else\n" * 80000):
            with open(image.other("x"), "wb") as file:
                file.write(data)
            for command in ("info", "check", "dump", "log", "map", "objects", "leaks"):
                run(command, image.other("x"), status=NO_STORE)


def test_an_empty_store_has_no_objects_and_no_leaks_and_says_so():
    with Image("--size", "1") as image:
        assert run("objects", image.path, status=SOUND).stdout == "no objects\n"
        assert run("leaks", image.path, status=SOUND).stdout == "no leaks among 0 objects\n"
        assert json.loads(run("leaks", "--json", image.path).stdout) == {"containers": []}


def test_create_leaves_what_is_there_alone_unless_forced():
    with Image("--size", "1") as image:
        run("create", image.path, status=CANNOT)
        run("create", "--force", image.path, status=SOUND)
        run("create", "--size", "many", image.other("y"), status=WRONG_USE)


def test_create_says_what_is_wrong_and_leaves_no_file():
    with Image("--size", "1") as image:
        path = image.other("y")
        for status, text, *options in [(WRONG_USE, "4, 8, 16, 32 or 64", "--extent", "5"),
                                       (WRONG_USE, "4, 8, 16, 32 or 64", "--extent", "4194304"),
                                       (WRONG_USE, "from 0 to 7", "--zone", "8"),
                                       (WRONG_USE, "from 0 to 7", "--zone", "4294967296"),
                                       (CANNOT, "half of the image at most", "--log", "1024"),
                                       (CANNOT, "half of the image at most", "--log", "8")]:
            done = run("create", "--size", "1", *options, path, status=status)
            assert text in done.stderr and not os.path.exists(path), done
        done = run("create", path, status=CANNOT)
        assert "larger --size" in done.stderr and not os.path.exists(path), done
        with open(path, "wb"):
            pass
        run("create", path, status=CANNOT)
        assert os.path.exists(path)     # it was there


def test_info_and_check_speak_json():
    with Image("--size", "2") as image:
        image.put("one", 5)
        image.put("two", 3, "--cut")
        info = json.loads(run("info", "--json", image.path, status=SOUND).stdout)
        assert [(c["name"], c["pages_present"]) for c in info["containers"]] == [("one", 5), ("two", 3)]
        found = json.loads(run("check", "--json", image.path, status=SOUND).stdout)
        assert (found["verdict"], found["pages_verified"], found["pages_in_log"]) == ("sound", 5, 3)
        log = json.loads(run("log", "--json", image.path, status=SOUND).stdout)
        kinds = [record["type"] for group in log["groups"] for record in group["list"]]
        assert kinds.count("page") == 3 and kinds.count("create") == 1


def test_a_newest_checkpoint_that_rots_is_a_warning_and_strict_makes_it_damage():
    with Image("--size", "1") as image:
        image.put("one", 2)
        with open(image.path, "rb") as source:
            data = source.read()
        slot = max((Slot(data, 0), Slot(data[len(data) // 2:], len(data) // 2)),
                   key=lambda s: s.generation)
        image.spoil(slot.area_start[slot.newest] + 5, b"\xff")
        done = run("check", image.path, status=SOUND)
        assert "warning" in done.stdout and "older" in done.stdout
        run("check", "--strict", image.path, status=DAMAGED)


def test_with_one_superblock_a_warning_says_that_commits_may_be_lost():
    """Aim: where a superblock is lost together with the log that it knew of, nothing proves the loss.
    Method: a slot and the log's first blocks are overwritten. (Here its twin says the same, and nothing is
    lost; but this cannot be told.) A slot torn by a power cut, with all else whole, looks like that."""
    with Image("--size", "1") as image:
        image.put("one", 2)
        assert "0 warnings" in run("check", "--strict", image.path, status=SOUND).stdout
        with open(image.path, "rb") as source:
            data = source.read()
        slots = (Slot(data, 0), Slot(data[len(data) // 2:], len(data) // 2))
        assert abs(slots[0].generation - slots[1].generation) == 1 and slots[0].newest == slots[1].newest
        wiped, torn = bytes(BLOCK), b"torn"
        for name, at, what, log in (("A", 0, wiped, b""), ("A", 0, wiped, bytes(8 * BLOCK)),
                                    ("A", 512, torn, b""), ("B", slots[1].offset + 512, torn, b"")):
            image.spoil(0, data)
            image.spoil(at, what)
            image.spoil(slots[0].log_start, log)
            done = run("check", image.path, status=SOUND)
            assert f"warning: superblock slot {name} is not valid" in done.stdout, done
            assert "loss of the newest commits cannot be excluded" in done.stdout, done
            assert len(image.objects()) == 1, (name, what)
            run("check", "--strict", image.path, status=DAMAGED)


def test_a_store_without_superblocks_is_a_damaged_store():
    """With both wiped and all else whole kstore said "something that is not a Katydid store". The
    signpost proves that it was one."""
    with Image("--size", "1") as image:
        image.put("one", 2)
        image.spoil(0, bytes(BLOCK))
        image.spoil(512 << 10, bytes(BLOCK))
        done = run("check", image.path, status=DAMAGED)
        assert all(f"damage: superblock slot {name} is not valid: it is all zeros" in done.stdout for name in "AB"), done
        for words in (["info"], ["dump"], ["log"], ["map"], ["salvage"]):
            done = run(*words, image.path, *([image.other("new")] if words == ["salvage"] else []), status=CANNOT)
            assert "both superblocks are lost" in done.stderr and "salvage" not in done.stderr, done
        run("grow", image.path, "4M", status=DAMAGED)
        assert not os.path.exists(image.other("new"))
        image.spoil(BLOCK + 100, b"!")          # behind its fields, where zeros are: its uuid is random and can have any byte
        run("check", image.path, status=NO_STORE)


def test_quick_reads_no_page():
    with Image("--size", "1") as image:
        image.put("one", 2)
        image.spoil(image.pages()[1, 0][0] + 9, b"!")
        run("check", "--quick", image.path, status=SOUND)
        assert "one (container 1), page 0" in run("check", image.path, status=DAMAGED).stdout


def test_salvage_of_a_sound_store_keeps_ids_addresses_and_bytes():
    with Image("--size", "2", "--log", "256", "--zone", "2") as image:
        image.put("one", 5)
        image.put("two", 70, "--cut")
        run("salvage", image.path, image.other("new"), status=SOUND)
        assert image.objects() == image.objects(image.other("new"))
        old, new = image.pages(), image.pages(image.other("new"))
        assert {k: v[1] for k, v in old.items()} == {k: v[1] for k, v in new.items()}
        run("check", "--strict", image.other("new"), status=SOUND)
        done = run("salvage", image.path, image.other("new"), status=CANNOT)
        assert "exists; give a new name, or --force" in done.stderr, done.stderr
        for size in "4", "4M", "4096K":
            run("salvage", "--force", "--size", size, image.path, image.other("new"), status=SOUND)
            assert os.path.getsize(image.other("new")) == 4 << 20, size


def test_salvage_finds_a_rotten_page_in_the_logs_past():
    with Image("--size", "2", "--log", "256") as image:
        image.put("one", 5)
        offset, good = image.pages()[1, 3]
        image.spoil(offset, b"rot")
        run("check", image.path, status=DAMAGED)
        done = run("salvage", image.path, image.other("new"), status=SOUND)
        assert "1 of them from older parts of the log" in done.stdout
        assert image.pages(image.other("new"))[1, 3][1] == good


def test_scrub_repairs_what_has_another_copy_and_writes_nothing_else():
    with Image("--size", "8") as image:
        image.put("one", 20)
        before = image.pages()
        with open(image.path, "rb") as file:
            sound = file.read()
        run("scrub", image.path, status=SOUND)
        with open(image.path, "rb") as file:
            assert file.read() == sound                 # nothing to repair
        places = sorted(offset for offset, _ in before.values())
        image.spoil(places[3] + 100, b"rot")
        image.spoil(places[7], bytes(BLOCK))
        said = run("scrub", image.path, status=SOUND).stdout
        assert said.count("rotten, but has another copy: one") == 2 and "2 repairs, 0 lost" in said
        run("check", "--strict", image.path, status=SOUND)
        assert image.pages() == before
        slots = json.loads(run("info", "--json", image.path).stdout)
        assert slots
        for spot in copies_of(sound):                   # each copy of a slot and of an area
            with open(image.path, "wb") as file:
                file.write(sound)
            image.spoil(spot, b"rot")
            said = run("scrub", image.path, status=SOUND).stdout
            assert "1 repairs, 0 lost" in said, (spot, said)
            run("check", "--strict", image.path, status=SOUND)
            assert image.pages() == before


def copies_of(data):
    """A byte of slot A, slot B, and of the map and a page of each area."""
    slot = Slot(data[:BLOCK], 0)
    pages = [c[3] for c in slot.checkpoints]
    room = (slot.area_pages * 16 + BLOCK - 1) // BLOCK * BLOCK
    return [100, slot.slot_b + 100] + [slot.area_start[i] + at for i in range(2) if slot.checkpoints[i][0]
                                       for at in (1, room + 1, room + BLOCK * (pages[i] - 1) + 1)]


def test_scrub_names_what_it_cannot_repair_and_leaves_what_is_refused():
    with Image("--size", "8") as image:
        image.put("one", 20)
        offset = image.pages()[min(image.pages())][0]
        with open(image.path, "rb") as file:
            data = bytearray(file.read())
        slot = Slot(bytes(data[:BLOCK]), 0)
        image.spoil(offset, b"rot")
        image.spoil(slot.log_start, bytes(slot.log_bytes))      # and the version in the ring
        said = run("scrub", image.path, status=DAMAGED).stdout
        assert said.count("lost: one") == 1 and said.count("another copy: the log") == 1
        assert "1 repairs, 1 lost" in said              # groups that the older checkpoint needs are gone, too
        image.spoil(0, b"rot")
        image.spoil(slot.slot_b, b"rot")
        with open(image.path, "rb") as file:
            spoiled = file.read()
        assert run("scrub", image.path).returncode in (DAMAGED, NO_STORE)
        with open(image.path, "rb") as file:
            assert file.read() == spoiled


def test_salvage_names_each_page_that_is_lost():
    with Image("--size", "2", "--log", "64") as image:
        image.put("one", 5)
        image.put("two", 60)                    # the log's past is overwritten
        for page in 3, 4:                       # 4: alone in its extent
            image.spoil(image.pages()[1, page][0], b"rot")
        done = run("salvage", image.path, image.other("new"), status=DAMAGED)
        for page in 3, 4:
            assert f"lost: one (container 1), page {page} at address {0x200000000000 + page * BLOCK:#x}" in done.stdout
        assert len(image.pages(image.other("new"))) == 63
        # What points to them stays as it is, so nobody else may get them.
        dump = json.loads(run("dump", "--json", "--extents", image.other("new")).stdout)["extents"]
        assert [(e["mask"], e["claimed"]) for e in dump if e["id"] == 1] == [(0b0111, 0b1000), (0, 1)]
        run("check", image.other("new"), status=SOUND)


def test_salvage_of_a_truncated_image_saves_the_front():
    with Image("--size", "4") as image:
        image.put("one", 20)
        os.truncate(image.path, 3 << 20)
        run("check", image.path, status=DAMAGED)
        run("salvage", image.path, image.other("new"), status=SOUND)
        assert len(image.pages(image.other("new"))) == 20


def test_salvage_does_not_write_over_the_store_that_it_reads():
    """`salvage --force X X` once cut X to nothing before its first page was read."""
    with Image("--size", "1") as image:
        image.put("one", 5)
        os.symlink(image.path, image.other("symbolic"))
        os.link(image.path, image.other("hard"))
        with open(image.path, "rb") as source:
            before = source.read()
        for new in (image.path, image.other("symbolic"), image.other("hard")):
            done = run("salvage", "--force", image.path, new)
            with open(image.path, "rb") as source:
                assert source.read() == before, new
            assert done.returncode == WRONG_USE and "is the damaged store" in done.stderr, done
        run("salvage", "--size", "2", image.path, image.other("new"), status=SOUND)
        run("salvage", "--force", image.path, image.other("new"), status=SOUND)
        assert os.path.getsize(image.other("new")) == 1 << 20


def test_grow_enlarges_store_and_image_and_never_shrinks():
    with Image("--size", "2") as image:
        image.put("one", 5)
        before = image.pages()
        run("grow", image.path, "40M", status=SOUND)
        assert os.path.getsize(image.path) == 40 << 20
        run("check", "--strict", image.path, status=SOUND)
        assert image.pages() == before
        run("grow", image.path, "2M", status=WRONG_USE)
        run("grow", image.path, "wide", status=WRONG_USE)
        assert "kstore grow IMAGE 4M" in run("grow", "--size", "4M", image.path, status=WRONG_USE).stderr
        image.put("two", 3000)
        run("check", "--strict", image.path, status=SOUND)


def test_a_store_in_use_is_not_written_to():
    """QEMU has shared locks on bytes from 100 (what it does with an image) and from 200 (what others
    must not do): each alone keeps kstore from writing, and none from reading."""
    with Image("--size", "1") as image, Image("--size", "1") as other, open(image.path, "rb") as user:
        image.put("one", 2)
        for byte in (100, 101, 103, 201, 203):
            lock = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
            fcntl.fcntl(user, fcntl.F_OFD_SETLK, lock)
            for words in (["grow", image.path, "2M"], ["create", "--force", image.path],
                          ["put", image.path, "two", __file__],
                          ["salvage", "--force", other.path, image.path]):
                assert "in use by a QEMU" in run(*words, status=CANNOT).stderr, (byte, words)
            for words in (["check"], ["info"], ["dump"], ["log"], ["map"]):
                run(*words, image.path, status=SOUND)
            fcntl.fcntl(user, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, 0, byte, 1, 0))
        assert len(image.pages()) == 2
        run("grow", image.path, "2M", status=SOUND)


def disks_made(image, count=3):
    """Images of one store over several disks, with a container `rings` of 40 pages."""
    paths = [image.other(f"disk{i}") for i in range(count)]
    run("create", "--size", "2", "--log", "64", *paths, status=SOUND)
    with open(image.other("source"), "wb") as source:
        source.write(b"".join(bytes([i]) * BLOCK for i in range(40)))
    run("put", ",".join(paths[::-1]), "rings", image.other("source"), status=SOUND)
    return paths


def test_a_store_over_several_disks_is_read_in_any_order():
    with Image() as image:
        a, b, c = disks_made(image)
        for order in (a, b, c), (c, a, b), (b, c, a):
            assert "sound: 0 damages, 0 warnings" in run("check", "--strict", *order, status=SOUND).stdout
        run("get", ",".join((b, a, c)), "rings", image.other("got"), status=SOUND)
        with open(image.other("got"), "rb") as got, open(image.other("source"), "rb") as source:
            assert got.read() == source.read()
        for path in a, b, c:
            held = open(path, "rb").read()
            assert any(bytes([i]) * BLOCK in held for i in range(1, 40)), path
        run("backup", ",".join((a, c, b)), image.other("one"), status=SOUND)
        run("get", image.other("one"), "rings", image.other("again"), status=SOUND)
        run("check", "--strict", image.other("one"), status=SOUND)


def test_the_wrong_disks_are_told_by_name_and_number():
    with Image("--size", "2") as image:
        a, b, c = disks_made(image)
        before = [open(path, "rb").read() for path in (a, b, c)]
        for words, said in (((a, c), "disk 2 of 3 is missing"), ((b,), "disk 1 of 3 is missing"),
                            ((a, b, c, b), b + ": disk 2 of 3 of its store; it is given twice"),
                            ((a, image.path, c), image.path + ": has no label"),
                            ((a, b, c, a, b), "4 disks at most")):
            status = WRONG_USE if len(words) > 4 else CANNOT
            for command in ("check", "info") if len(words) > 3 else ("check", "info", "scrub"):
                done = run(command, *words, status=status)
                assert said in done.stderr, done
        other = [image.other(name) for name in "xyz"]
        run("create", "--size", "2", *other, status=SOUND)
        assert other[1] + ": is of another store" in run("check", a, other[1], c, status=CANNOT).stderr
        assert "not empty" in run("create", "--size", "2", other[0], image.other("w"), status=CANNOT).stderr
        assert not os.path.exists(image.other("w"))
        assert before == [open(path, "rb").read() for path in (a, b, c)]
        os.truncate(c, 1 << 20)
        assert c + ": disk 3 of 3 of its store; it is smaller" in run("check", a, b, c, status=CANNOT).stderr
        assert "does not grow" in run("grow", ",".join(other), "9M", status=WRONG_USE).stderr


def test_scrub_mends_the_labels_of_disks():
    with Image() as image:
        paths = disks_made(image, 2)
        sound = open(paths[1], "rb").read()
        with open(paths[1], "r+b") as file:
            file.write(bytes(BLOCK))
        assert "(SN3)" in run("check", *paths, status=SOUND).stdout
        run("check", "--strict", *paths, status=DAMAGED)
        assert "1 of the disks' labels" in run("scrub", *paths, status=SOUND).stdout
        run("check", "--strict", *paths, status=SOUND)
        assert open(paths[1], "rb").read() == sound


def test_dump_shows_a_page_by_id_or_by_name():
    with Image("--size", "4") as image:
        image.put("box", 3)
        by_id = run("dump", "-P", "1:2", image.path, status=SOUND).stdout
        assert run("dump", "-P", "box:2", image.path, status=SOUND).stdout == by_id != ""
        assert "no container bax" in run("dump", "-P", "bax:2", image.path, status=WRONG_USE).stderr
        run("create", "-q", "-f", image.path, status=SOUND)


def text_boxes(page):
    """(left, top, right, bottom, text) of the texts of a map, with about their size."""
    for text in page.getElementsByTagName("text"):
        words = "".join(node.data for node in text.childNodes if node.nodeType == node.TEXT_NODE)
        size = {"h": 16, "n": 13, "in": 13, "w": 13, "l": 12}.get(text.getAttribute("class"), 11)
        x, y, wide = float(text.getAttribute("x")), float(text.getAttribute("y")), len(words) * size * 0.56
        anchor = "middle" if text.getAttribute("class") == "in" else text.getAttribute("text-anchor")
        left = x - (wide if anchor == "end" else wide / 2 if anchor == "middle" else 0)
        yield left, y - size * 0.8, left + wide, y + size * 0.2, words


def test_labels_of_the_map_do_not_overlap_wherever_the_log_ends():
    with Image("--size", "256M", "--log", "4M") as image:
        for round in range(7):                                  # the end goes round the ring
            image.put(f"c{round}", 150 + 60 * round, *(["--cut"] if round == 6 else []))
            run("map", image.path, "-o", image.other("map.html"), status=SOUND)
            boxes = list(text_boxes(xml.dom.minidom.parse(image.other("map.html"))))
            assert all(left > 0 and right < 1200 for left, _, right, _, _ in boxes), boxes
            for i, a in enumerate(boxes):
                for b in boxes[:i]:
                    assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
        with open(image.other("map.html"), encoding="utf-8") as source:
            text = source.read()
        assert re.search(r"extents \d+ to \d+: free", text)     # instead of a square for each


def test_the_map_is_well_formed_and_shows_damage():
    with Image("--size", "4") as image:
        image.put("a <name> & more", 30)
        image.put("b", 3, "--cut")
        run("map", image.path, "-o", image.other("map.html"), status=SOUND)
        page = xml.dom.minidom.parse(image.other("map.html"))
        titles = [t.firstChild.data for t in page.getElementsByTagName("title") if t.firstChild]
        assert any("of a <name> & more" in title for title in titles)
        assert any("groups from LSN" in title or "group from LSN" in title for title in titles)
        image.spoil(image.pages()[1, 7][0], b"rot")
        run("map", image.path, "-o", image.other("map.html"), status=DAMAGED)
        with open(image.other("map.html"), encoding="utf-8") as source:
            assert "1 pages LOST" in source.read()


# --- hostile images ---

def slots_of(data):
    return [Slot(bytes(data[at:at + BLOCK]), at) for at in (0, len(data) // 2)]


def slot_repair(data, slot):
    block = bytes(data[slot.offset + 12:slot.offset + BLOCK])
    struct.pack_into("<I", data, slot.offset + 8, crc(seed(slot.uuid, 1, slot.slot, 0), block))


def spoil_superblock(data, rng):
    for slot in slots_of(data):
        at = slot.offset + rng.choice([rng.randrange(40, 368), 12, 32])
        data[at] ^= 1 << rng.randrange(8)
        slot_repair(data, slot)


def spoil_metadata(data, rng):
    """A few bytes of a metadata page or of the map, in an area, with right CRCs up to the slot."""
    for slot in slots_of(data):
        area = slot.newest
        redo, _, _, pages = slot.checkpoints[area][:4]
        start, table = slot.area_start[area], (pages * 16 + BLOCK - 1) // BLOCK * BLOCK
        first = start + (slot.area_pages * 16 + BLOCK - 1) // BLOCK * BLOCK
        page = rng.randrange(pages)
        for _ in range(rng.randrange(1, 4)):
            at = rng.choice([start + 16 * page + rng.randrange(4, 12),
                             first + page * BLOCK + rng.randrange(200)])
            data[at] = rng.choice([0, 255, rng.randrange(256)])
        block = bytes(data[first + page * BLOCK:first + (page + 1) * BLOCK])
        struct.pack_into("<I", data, start + 16 * page, crc(seed(slot.uuid, 4, page, 0), block))
        root = crc(seed(slot.uuid, 3, redo, 0), bytes(data[start:start + table]))
        struct.pack_into("<I", data, slot.offset + 144 + 40 * area + 16, root)
        slot_repair(data, slot)


def spoil_group(data, rng):
    slot = max(slots_of(data), key=lambda s: s.generation)
    for at in range(slot.log_start, slot.log_start + slot.log_bytes, BLOCK):
        if data[at:at + 8] != struct.pack("<Q", 0x70726F75474B6431):
            continue
        size = struct.unpack_from("<I", data, at + 44)[0] * BLOCK
        for _ in range(rng.randrange(3)):
            data[at + rng.choice([rng.randrange(44, 56), rng.randrange(64, 300)])] = rng.randrange(256)
        lsn, epoch = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<I", data, at + 36)[0]
        start = crc(seed(slot.uuid, 2, lsn, epoch), bytes(data[at:at + 60]))
        struct.pack_into("<I", data, at + 60, crc(start, bytes(data[at + 64:at + size])))


def spoil_bytes(data, rng):
    for _ in range(rng.randrange(1, 30)):
        data[rng.choice([rng.randrange(len(data)), rng.randrange(300000)])] ^= 1 << rng.randrange(8)


def spoil_length(data, rng):
    del data[rng.randrange(len(data)):]


SPOILERS = (spoil_superblock, spoil_metadata, spoil_group, spoil_bytes, spoil_length)


def hostile(number, image, original):
    rng = random.Random(number)
    data = bytearray(original)
    spoiler = SPOILERS[number % len(SPOILERS)]
    spoiler(data, rng)
    with open(image.path, "wb") as file:
        file.write(data)
    new = image.other("new")
    for words in (["check"], ["check", "--json"], ["info"], ["dump", "--verify"], ["log", "--json"],
                  ["map"], ["salvage"], ["grow"]):
        more = {"salvage": ["--force", image.path, new], "grow": [image.path, "3M"]}
        done = run(words[0], *words[1:], *more.get(words[0], [image.path]), program=SANITIZED)
        assert done.returncode in range(5) and "Sanitizer" not in done.stderr and \
            "runtime error" not in done.stderr, \
            f"{spoiler.__name__}: kstore {' '.join(words)}: status {done.returncode}\n" + \
            done.stderr[-3000:] + f"\nagain: KSTORE_SEED={number} tests/host/test_kstore.py"


def test_no_image_makes_it_crash():
    seeds = [int(os.environ["KSTORE_SEED"])] if "KSTORE_SEED" in os.environ else range(SEEDS)
    with Image("--size", "2", "--log", "128", "--extent", "8") as image:
        for i in range(4):
            image.put(f"container {i}", 12, *(["--cut"] if i % 2 else []))
        with open(image.path, "rb") as source:
            original = source.read()
        for number in seeds:
            hostile(number, image, original)


if __name__ == "__main__":
    run_tests(globals())
