#!/usr/bin/env python3
"""Tests of scripts/cut: a log is written here as QEMU's blklogwrites would, and cut."""

import io
import itertools
import os
import struct
import subprocess
import sys
import tempfile

from tap import ROOT, load, run_tests

cut = load("cut")
DISK_SECTORS = 64


def log_bytes(entries):
    """entries: (sector, data, flags). The count in the head stays 0, as before any flush."""
    out = io.BytesIO()
    out.write(struct.pack("<QQQI", cut.MAGIC, 1, 0, 512).ljust(512, b"\0"))
    for sector, data, flags in entries:
        sectors = len(data) // 512
        out.write(struct.pack("<QQQQ", sector, sectors, flags, 0).ljust(512, b"\0"))
        if not flags & cut.DISCARD:
            out.write(data)
    return out.getvalue()


def block(letter, sectors=1):
    return letter.encode() * (512 * sectors)


WRITE, FLUSH = 0, (0, b"", cut.FLUSH)
LOG = [(0, block("a"), WRITE), (1, block("b"), WRITE), FLUSH,           # 0 1 2
       (0, block("c"), WRITE), (4, block("d", 4), WRITE),               # 3 4
       (9, block("e"), cut.FUA), (1, block("f"), WRITE),                # 5 6
       FLUSH, (20, block("g", 2), cut.DISCARD), (30, block("h"), WRITE)]


class Fixture:
    """A log and a base full of '.', in a folder of their own."""

    def __init__(self, entries, more=b"", size=None):
        self.folder = tempfile.TemporaryDirectory()
        self.log, self.base, self.out = (os.path.join(self.folder.name, name)
                                         for name in ("log", "base", "out"))
        with open(self.log, "wb") as log:
            log.write((log_bytes(entries) + more)[:size])
        with open(self.base, "wb") as base:
            base.write(block(".", DISK_SECTORS))

    def entries(self):
        with open(self.log, "rb") as log:
            return cut.read_log(log)

    def run(self, *options):
        return subprocess.run([sys.executable, os.path.join(ROOT, "scripts/cut"), self.log,
                               self.base, self.out, *options], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def image(self, *options):
        result = self.run(*options)
        assert result.returncode == 0, result.stderr
        return self.letters(self.out)

    @staticmethod
    def letters(path):
        with open(path, "rb") as image:
            data = image.read()
        assert len(data) == 512 * DISK_SECTORS
        sectors = [data[at:at + 512] for at in range(0, len(data), 512)]
        assert all(len(set(sector)) == 1 for sector in sectors), "a sector is never torn itself"
        return "".join(chr(sector[0] or ord("0")) for sector in sectors)


def expect(found, wanted):
    assert found.rstrip(".") == wanted, f"wanted {wanted!r}, found {found.rstrip('.')!r}"


def test_log_is_parsed_to_the_end_of_the_file():
    entries = Fixture(LOG).entries()
    assert [entry.flags for entry in entries] == [entry[2] for entry in LOG]
    assert str(entries[4]).split() == "4 write sector 4 count 4".split(), str(entries[4])


def test_entry_cut_off_by_sigkill_is_left_out():
    whole = len(log_bytes(LOG))
    assert len(Fixture(LOG, size=whole - 1).entries()) == len(LOG) - 1
    assert len(Fixture(LOG, size=whole - 600).entries()) == len(LOG) - 1


def test_hole_ends_the_log():
    assert len(Fixture(LOG, more=bytes(4096)).entries()) == len(LOG)


def test_foreign_and_empty_files_are_refused():
    for content in (b"", bytes(4096), b"x" * 4096):
        fixture = Fixture([])
        with open(fixture.log, "wb") as log:
            log.write(content)
        result = fixture.run("--at", "0")
        assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr


def test_at_keeps_all_open_writes():
    expect(Fixture(LOG).image("--at", "2"), "ab")
    expect(Fixture(LOG).image("--at", "7"), "cf..dddd.e")


def test_keep_none_leaves_what_was_flushed_or_fua():
    expect(Fixture(LOG).image("--at", "2", "--keep", "none"), "")
    expect(Fixture(LOG).image("--at", "7", "--keep", "none"), "ab.......e")
    expect(Fixture(LOG).image("--at", "8", "--keep", "none"), "cf..dddd.e")


def test_keep_list_drops_the_others():
    expect(Fixture(LOG).image("--at", "7", "--keep", "6"), "af.......e")


def test_tear_writes_only_the_given_sectors():
    expect(Fixture(LOG).image("--at", "7", "--keep", "3", "--tear", "4:0,3"), "cb..d..d.e")
    expect(Fixture(LOG).image("--at", "7", "--keep", "3", "--tear", "4:"), "cb.......e")


def test_durable_writes_cannot_be_dropped_or_torn():
    fixture = Fixture(LOG)
    for options in (["--keep", "0"], ["--tear", "5:"], ["--keep", "2"], ["--tear", "4:9"]):
        result = fixture.run("--at", "7", *options)
        assert result.returncode == 2 and "Traceback" not in result.stderr, options


def test_discard_reads_as_zeroes():
    expect(Fixture(LOG).image("--at", "9"), "cf..dddd.e" + "." * 10 + "00")


def test_log_past_the_end_of_the_base_is_refused():
    assert Fixture([(DISK_SECTORS, block("z"), WRITE)]).run("--at", "1").returncode == 2


def legal_states(entries):
    """Every legal image, sector by sector, made by brute force from the definition."""
    states = set()
    for at in range(len(entries) + 1):
        durable, still_open = cut.split_at(entries, at)
        units = [(entry, sector) for entry in still_open for sector in range(entry.sectors)]
        for chosen in itertools.product((False, True), repeat=len(units)):
            disk = ["."] * DISK_SECTORS
            keep = {unit for unit, yes in zip(units, chosen) if yes}
            for entry in sorted(durable + still_open, key=lambda entry: entry.index):
                for sector in range(entry.sectors):
                    if entry in durable or (entry, sector) in keep:
                        letter = "0" if entry.data_offset is None else \
                            LOG[entry.index][1][:1].decode()
                        disk[entry.sector + sector] = letter
            states.add("".join(disk))
    return states


def test_random_cuts_are_legal_and_many():
    fixture = Fixture(LOG)
    assert fixture.run("--random", "60", "--seed", "7").returncode == 0
    made = {fixture.letters(f"{fixture.out}.{number}") for number in range(60)}
    assert made <= legal_states(fixture.entries()), "an illegal state"
    assert len(made) > 20, f"only {len(made)} different states"


def test_random_cuts_repeat_by_seed_and_number():
    fixture = Fixture(LOG)
    fixture.run("--random", "9", "--seed", "3")
    first = fixture.letters(fixture.out + ".5")
    os.remove(fixture.out + ".5")
    fixture.run("--random", "9", "--seed", "3", "--only", "5")
    assert fixture.letters(fixture.out + ".5") == first


def test_each_stops_at_a_failure_and_names_the_cut():
    fixture = Fixture(LOG)
    assert fixture.run("--random", "5", "--each", "test -s {}").returncode == 0
    result = fixture.run("--random", "5", "--each", "false {}")
    assert result.returncode == 1 and result.stdout.count("cut ") == 1
    options = result.stderr.split(" out ")[-1] if " out " in result.stderr else \
        result.stderr.split(fixture.out)[-1]
    image = fixture.letters(fixture.out)
    assert fixture.image(*options.split()) == image


def test_base_and_log_stay_as_they_are():
    fixture = Fixture(LOG)
    fixture.run("--at", "10")
    expect(fixture.letters(fixture.base), "")
    with open(fixture.log, "rb") as log:
        assert log.read() == log_bytes(LOG)


def parts_log():
    """Two disks of half the sectors each. QEMU's flushes of the whole say nothing; own logs lie behind."""
    half, own = DISK_SECTORS // 2, cut.OWN_LOG_BYTES // 512

    def head(disk):
        return DISK_SECTORS + disk * own, block("s"), WRITE

    def ended(disk, at, flags=WRITE, data=b""):
        words = struct.pack("<QQQQ", 5, len(data) // 512, flags, 0).ljust(512, b"\0")
        return DISK_SECTORS + disk * own + at, words + data, WRITE

    return [head(0), head(1), (0, block("a"), WRITE), ended(0, 1, WRITE, block("a")), (half, block("b"), WRITE),
            FLUSH, (1, block("c"), WRITE), ended(1, 1, cut.FLUSH), head(1), FLUSH, ended(0, 3, cut.FLUSH)]


PARTS = ["--part", str(DISK_SECTORS * 256)] * 2


def test_a_flush_of_one_of_several_disks_is_of_it_alone():
    fixture = Fixture(parts_log())
    listed = fixture.run("--list", *PARTS).stdout.splitlines()
    assert [line.split()[1] for line in listed] == ["write+part", "write+part", "write+part", "flush+part", "flush+part"], listed
    half = "." * (DISK_SECTORS // 2)
    expect(fixture.image("--at", "4", "--keep", "none", *PARTS), half + "b")
    expect(fixture.image("--at", "4", "--keep", "0", *PARTS), ("a" + half)[:len(half)] + "b")
    expect(fixture.image("--at", "5", "--keep", "none", *PARTS), ("ac" + half)[:len(half)] + "b")


def test_a_log_without_the_disks_own_is_refused():
    result = Fixture(LOG).run("--list", *PARTS)
    assert result.returncode == 2 and "no flush of a part" in result.stderr, result


def test_a_moment_is_a_cut_behind_what_the_log_had_then():
    fixture = Fixture(LOG)
    ends = [512]                        # of each entry in the log
    for _, data, flags in LOG:
        ends.append(ends[-1] + 512 + (0 if flags & cut.DISCARD else len(data)))
    for number, end in enumerate(ends[1:], 1):
        for size in (end, end + 511):   # the next one was being written
            with open(fixture.log, "rb") as log:
                assert len(cut.read_log(log, size)) == number
    done = fixture.run("--moment", str(ends[3]), "--seed", "1")
    assert done.returncode == 0 and "--at 3" in done.stdout, done
    with open(fixture.out, "rb") as out:
        assert out.read(1024) == block("a") + block("b") and out.read(512) == block(".")


if __name__ == "__main__":
    run_tests(globals())
