#!/usr/bin/env python3
"""A store outlives the system: an image of each format that there ever was (tests/disk/fixtures/format-N.store.xz,
made by the tools of its time) is read, upgraded to today's, written to, and holds what it held."""

import json
import lzma
import os
import re
import subprocess
import tempfile

from tap import ROOT, run_tests

KSTORE = os.path.join(ROOT, "build/host/kstore")
FIXTURES = os.path.join(ROOT, "tests/disk/fixtures")
SOUND, DAMAGED, WRONG_USE, CANNOT, NO_STORE = range(5)
HELD = {"box1": 5, "box2": 5, "box3": 5, "cut": 1}      # pages in each container


def run(*words, status=SOUND, answer=""):
    done = subprocess.run([KSTORE, *words], check=False, capture_output=True, text=True, input=answer)
    assert done.returncode == status, (words, done)
    return done.stdout + done.stderr


def version_today():
    with open(os.path.join(ROOT, "disk/format.h"), encoding="utf-8") as source:
        return int(re.search(r"#define FORMAT_VERSION +(\d+)u", source.read())[1])


def images_kept():
    """Their names, each after its version, oldest first; a letter behind it tells a later one of the same version."""
    return sorted(name[7:].split(".")[0] for name in os.listdir(FIXTURES) if name.endswith(".store.xz") and name[:7] == "format-")


def version_of(name):
    return int(name.rstrip("abc"))


def unpacked(name, folder):
    path = os.path.join(folder, f"format-{name}")
    with lzma.open(os.path.join(FIXTURES, f"format-{name}.store.xz")) as packed, \
            open(path, "wb") as image:
        image.write(packed.read())
    return path


def holds(path):
    """Containers and pages, each page verified."""
    dump = json.loads(run("dump", "--json", "--objects", "--pages", "--verify", path))
    names = {o["id"]: o["name"] for o in dump["objects"]}
    assert {o["locking"] for o in dump["objects"]} == {"page"}      # of all that was made before there were items
    return sorted((names[p["id"]], p["page"], p["crc"]) for p in dump["pages"])


def test_an_image_of_each_format_is_kept():
    assert sorted({version_of(name) for name in images_kept()}) == list(range(2, version_today() + 1)), images_kept()


def todo(path):
    """What stands on the list that a guest made before the power cut: the log has it (fixtures/format.sh)."""
    return sorted(re.findall('"text": "([a-z]+)"', run("export", path, "todo")))


def test_each_is_upgraded_and_holds_what_it_held():
    first = None
    for name in images_kept():
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
            path = unpacked(name, folder)
            if version_of(name) < version_today():
                assert "kstore upgrade" in run("check", path, status=NO_STORE)
                run("upgrade", path, status=WRONG_USE, answer="n\n")
            said = run("upgrade", path, answer="y\n")
            assert "nothing to do" in said if version_of(name) == version_today() else "upgraded" in said
            run("check", "--strict", path)
            held = holds(path)
            boxes = [page for page in held if page[0] != "todo"]
            assert {name: sum(n == name for n, _, _ in boxes) for name, _, _ in boxes} == HELD
            first = first or boxes
            assert boxes == first
            if boxes != held:
                assert todo(path) == ["eggs", "honey", "milk"]
            run("put", path, "more", os.path.join(ROOT, "README.md"))
            run("check", "--strict", path)
            assert [page for page in holds(path) if page[0] != "more"] == held


def test_a_newer_one_is_refused_with_a_sentence():
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        path = unpacked(images_kept()[-1], folder)
        with open(path, "r+b") as image:
            for place in (0, os.path.getsize(path) // 2):
                image.seek(place + 12)
                image.write((version_today() + 1).to_bytes(4, "little"))
        for command in ("upgrade", "check"):
            said = run(command, path, status=NO_STORE)
            assert "newer Katydid" in said, said


if __name__ == "__main__":
    run_tests(globals())
