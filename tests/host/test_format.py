#!/usr/bin/env python3
"""disk/format.md says all that a reader needs: its commands print what it shows, and a reader
written from it (store_reader.py) finds what kstore finds."""

import json
import os
import subprocess
import tempfile

from store_reader import Damaged, Store, crc
from tap import ROOT, load, run_tests

KSTORE = os.path.join(ROOT, "build/host/kstore")
documents = load("../tests/system/documents.py")


def kstore(*words, status=0):
    done = subprocess.run([KSTORE, *words], text=True, check=False, capture_output=True)
    assert done.returncode == status, (words, done)
    return done.stdout


def put(image, name, data, *options):
    with tempfile.NamedTemporaryFile(dir=os.environ.get("TEST_TMP")) as source:
        source.write(data)
        source.flush()
        kstore("put", *options, image, name, source.name)


def contents(number, count):
    return b"".join(struct_page(number, i) for i in range(count))


def struct_page(number, i):
    return (b"%d/%d " % (number, i) * 1100)[:4096]


def compare(image):
    """The reader and `kstore dump` list the same containers and pages; returns how many."""
    with open(image, "rb") as source:
        own = Store(source.read())
    dump = json.loads(kstore("dump", "--json", "--objects", "--pages", "--verify", image))
    assert own.containers == {o["id"]: o["name"] for o in dump["objects"]}
    pages = own.pages()
    assert pages == {(p["id"], p["page"]): (p["lsn"], int(p["crc"], 16)) for p in dump["pages"]}
    return len(pages)


def with_image(test, *options):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        image = os.path.join(folder, "store")
        kstore("create", *options, image)
        test(image)


def test_the_crc_is_the_published_one():
    assert crc(0, b"123456789") == 0xE3069283


def test_the_commands_of_the_chapter_print_what_it_shows():
    wrong = []

    def result(good, name, remarks):
        if not good:
            wrong.append((name, remarks))

    documents.run_document("disk/format.md", result, True)
    assert not wrong, wrong


def test_pages_at_home_and_in_the_log():
    def test(image):
        assert compare(image) == 0
        put(image, "home", contents(1, 9))
        assert compare(image) == 9
        put(image, "log", contents(2, 20), "--cut")
        assert compare(image) == 29
        put(image, "more", contents(3, 5), "--cut")
        assert compare(image) == 34
    with_image(test, "--size", "2", "--log", "512")


def test_all_sizes_of_extents():
    for kib in (4, 8, 16, 32, 64):
        def test(image):
            put(image, "home", contents(1, 21))
            put(image, "log", contents(2, 18), "--cut")
            assert compare(image) == 39
        with_image(test, "--size", "3", "--log", "256", "--extent", str(kib))


def test_a_log_that_wraps_and_many_buckets():
    def test(image):
        for i in range(6):
            put(image, f"container {i}", contents(i, 60), *(["--cut"] if i % 2 else []))
        assert compare(image) == 360
    with_image(test, "--size", "4", "--log", "64", "--extent", "4")


def test_either_slot_can_be_lost():
    def test(image):
        put(image, "a", contents(1, 3))
        for offset in (0, os.path.getsize(image) // 2):
            with open(image, "r+b") as file:
                file.seek(offset + 100)
                kept = file.read(1)
                file.seek(offset + 100)
                file.write(bytes([kept[0] ^ 8]))
                file.flush()
                with open(image, "rb") as source:
                    assert set(Store(source.read()).containers.values()) <= {"a"}
                file.seek(offset + 100)
                file.write(kept)
    with_image(test, "--size", "1")


def test_a_rotten_page_is_noticed_by_both():
    def test(image):
        put(image, "a", contents(1, 3))
        offset = json.loads(kstore("dump", "--json", "--pages", image))["pages"][1]["offset"]
        with open(image, "r+b") as file:
            file.seek(offset + 77)
            file.write(b"!")
        kstore("check", image, status=1)
        with open(image, "rb") as source:
            store = Store(source.read())
        try:
            store.pages()
        except Damaged:
            return
        raise AssertionError("the reader saw nothing")
    with_image(test, "--size", "1")


if __name__ == "__main__":
    run_tests(globals())
