"""crashlife.py - one recorded life of the machine: from a boot until the power goes, for scripts/crash.

A life's folder holds
    base    the disk before it
    log     its writes and flushes, by QEMU's blklogwrites
    serial  what the guest said, each line with the log's length when it had been read
    kernel  the kernel's log, with how long each recovery took
    life    the seed, the counters at the start, and how it was booted
so each of its states can be made again, although the life itself can not.
"""

import bisect
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.append(os.path.join(ROOT, "scripts"))
from crashload import PROCESSES, Wrong
from load import load

GROUP_MAGIC, SUPERBLOCK_MAGIC = 0x70726f75474b6431, 0x6269644b53746f31
SIGNPOST_MAGIC, SIGNPOST_OFFSET, CRC_SIGNPOST = 0x6e6769534b646931, 4096, 5
# what a write may be part of; of the open writes of a state, the first that is here names the state
KINDS = ["format", "enlarge", "recovery", "spill", "create", "grow", "rename", "delete", "checkpoint", "commit"]
RECORD_KINDS = {4: "create", 5: "delete", 6: "rename", 7: "grow", 13: "spill"}
GUEST_SAYS = re.compile(r"(ack|found|lost) \d \d+|counters( \d+){6}|sound|"
                        r"crashload: all done")
STEP = re.compile(r"store: ends at step (\w+), as the command line says")
MANAGER_DIED = re.compile(r"init: the store manager ended with status \d+: starting it again")
RECOVERED = re.compile(r"store: (?:recovered|nothing to recover|clean).* in (\d+) ms")
TIMEOUT_S = 180
RUN_NOT_STARTED = 120                   # scripts/run's statuses
RUN_ENDED = {121: "ended before the power was cut", 122: "panicked", 123: "had a fault or was reset",
             124: "did not go on"}
# of a kernel's log: words that are not said when all is well
TROUBLE = re.compile(r"panic|killed|does not answer|: store: (?!recovered|nothing to recover|clean|started with|blank disk of"
                     r"|closed,|the disk has grown, and|ends at step)")


cutting = load("scripts/cut")


def run_command(disk, life, commands, more):
    """The words that boot the guest; `life` holds cpus, memory in MiB, words for the kernel, and None or the
    name of a bug that the store manager has."""
    command = [os.path.join(ROOT, "scripts/run"), "--cpus", str(life["cpus"]), "--memory",
               str(life.get("memory", 128)),
               "--timeout", str(TIMEOUT_S), "-c", commands, *more]
    if "--no-store" not in more:
        command += ["--store", disk]
    words = list(life["words"])
    if life["bug"]:
        command += ["--add", os.path.join(ROOT, "build/bugs/manager", life["bug"], "store:store")]
    return command + (["--append", " ".join(words)] if words else [])


class Guest:
    """What a guest says, line by line, while it says it."""

    def __init__(self, command, errors):
        self.errors = errors
        with open(errors, "w", encoding="utf-8") as stderr:
            self.run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)

    def lines(self, moment):
        """(what moment() said when it had been read, line)"""
        line = b""
        while chunk := os.read(self.run.stdout.fileno(), 65536):
            now = moment()
            *whole, line = (line + chunk).split(b"\n")
            for text in whole:
                yield now, text.decode("utf-8", "replace").rstrip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.run.poll() is None:
            self.run.terminate()        # scripts/run ends QEMU
        self.run.stdout.close()
        self.run.wait()

    def check(self, serial, kernel=None, said=(0, "")):
        """Raises Wrong unless scripts/run ended well; said: the last line that tells something, and its
        number in `serial`; kernel: the kernel's log, which has the words of the store manager."""
        status = self.run.wait()
        if status == 0:
            return
        with open(self.errors, encoding="utf-8", errors="replace") as stderr:
            errors = stderr.read().strip()
        if status == RUN_NOT_STARTED:
            raise Wrong(f"the guest was not started: {errors[-400:]}")
        what = RUN_ENDED.get(status, f"ended with status {status}")
        raise Wrong(f"the guest {what}: {manager_words(kernel)}at last it said `{said[1]}` (line {said[0]} of "
                    f"serial)\nits words are in {os.path.relpath(serial)}, the kernel's and the store manager's "
                    f"beside\n{errors[-4000:]}")


def manager_words(kernel):
    """What store manager and kernel first said of trouble: `words` (line N of kernel), ."""
    if not kernel or not os.path.exists(kernel):
        return ""
    with open(kernel, encoding="utf-8", errors="replace") as log:
        for number, line in enumerate(log, 1):
            if TROUBLE.search(line):
                return f"`{line.split('] ', 1)[-1].strip()}` (line {number} of kernel), "
    return ""


class Life:
    """See above. `options`: seed, before (counters), cpus, memory, words, bug; store_bytes: of the store
    before it, if the disk is larger."""

    def __init__(self, folder, options=None):
        self.folder, self.options = folder, options
        if options is None:
            with open(self.path("life"), encoding="utf-8") as life:
                self.options = json.load(life)
        self.before = self.options["before"]

    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self, commands, kill_on):
        """Run it, and kill the machine on a text. An ack is dated by the log's length *after* it
        was read: all that made it durable lies before, for blklogwrites logs a flush before the
        guest hears of its completion."""
        with open(self.path("life"), "w", encoding="utf-8") as life:
            json.dump(self.options, life)
        disk, log = self.path("disk"), self.path("log")
        cutting.copy_sparse(self.path("base"), disk)
        count, words = 0, (0, "")
        command = run_command(disk, self.options, commands, [
            "--record", log, "--log", self.path("kernel"), "--kill-on", kill_on])
        try:
            with Guest(command, self.path("stderr")) as guest, \
                    open(self.path("serial"), "w", encoding="utf-8") as serial:
                for position, text in guest.lines(lambda: os.stat(log).st_size):
                    serial.write(f"{position} {text}\n")
                    heard(text)         # a process that failed: nobody need wait for the rest
                    count += 1
                    if not text.startswith(("ack", "crashload: all done")):
                        words = count, text
                guest.check(self.path("serial"), self.path("kernel"), words)
        finally:
            os.unlink(disk)

    # --- what was recorded ---

    def load(self):
        with open(self.path("log"), "rb") as log:
            self.entries = cutting.read_log(log)
            heads = [self.head(log, entry) for entry in self.entries]
        # the end of each commit group in the log, by the entry that wrote its first block; and by
        # the one that completed it
        self.groups = {index: head[1] + 4096 * head[2]
                       for index, head in enumerate(heads) if head[0] == GROUP_MAGIC}
        self.complete = {self.written(index, 8 * heads[index][2]): end
                         for index, end in self.groups.items()}
        self.superblocks = [index for index, head in enumerate(heads)
                            if head[0] == SUPERBLOCK_MAGIC]
        self.listen()
        self.kinds = self.classify(heads)
        return self

    def written(self, first, sectors):
        """The entry that completes what entry `first` began, a group of so many sectors: one of spilled
        pages is written in parts. None: its manager died before that."""
        start, end = self.entries[first].sector, self.entries[first].sector + sectors
        missing = set(range(start, end))
        for entry in self.entries[first:]:
            if entry.sectors and start <= entry.sector < end:
                if entry.index > first and entry.sector == start:
                    return None                         # another group lies there now
                missing.difference_update(range(entry.sector, entry.sector + entry.sectors))
                if not missing:
                    return entry.index
        return None

    def listen(self):
        """The acks with the number of entries before them; what else was said; deaths."""
        starts = [(entry.data_offset or 512) - 512 for entry in self.entries]
        for index in range(1, len(starts)):             # a flush or a discard has no data
            if self.entries[index].data_offset is None:
                last = self.entries[index - 1]
                starts[index] = starts[index - 1] + 512 + \
                    (512 * last.sectors if last.data_offset is not None else 0)
        self.acks, self.said, self.deaths = [], [], []  # (entries before it, process, number)
        self.final = list(self.before)
        with open(self.path("serial"), encoding="utf-8") as serial:
            for line in serial:
                position, text = line.rstrip("\n").split(" ", 1)
                self.hear(text, bisect.bisect_left(starts, int(position)))

    @staticmethod
    def head(log, entry):
        """(magic, LSN, blocks, kinds of records) of a write; the last three if it is a group."""
        if entry.data_offset is None:
            return 0, 0, 0, ()
        log.seek(entry.data_offset)
        magic, lsn, blocks, records = struct.unpack("<QQ28xII", log.read(52))
        kinds = set()
        if magic == GROUP_MAGIC:
            log.seek(entry.data_offset + 64)
            for _ in range(records):
                length, kind = struct.unpack("<IH", log.read(6))
                kinds.add(RECORD_KINDS.get(kind, "commit"))
                log.seek(length - 6, os.SEEK_CUR)
        return magic, lsn, blocks, kinds

    def classify(self, heads):
        """The kind of each entry. Up to a first group it is the format or recovery, and so it is
        after a death of the manager; other writes beside groups are of a checkpoint. From the first
        write beyond the store's end on, the store is being enlarged."""
        kinds, start = [], "recovery" if any(self.before) or self.store_in_base() else "format"
        deaths, store_bytes = list(self.deaths), self.options.get("store_bytes", 0)
        for index, head in enumerate(heads):
            if start and 0 < store_bytes <= self.entries[index].sector * cutting.SECTOR_BYTES:
                start = "enlarge"
            if deaths and index >= deaths[0]:
                start = "recovery"
                deaths.pop(0)
            if head[0] == GROUP_MAGIC:
                start = None
                kinds.append(min(head[3] | {"commit"}, key=KINDS.index))
            else:
                kinds.append(start or "checkpoint")
        return kinds

    def store_in_base(self):
        """Its signpost leads to slot B; not on a blank disk, nor where a store was only begun."""
        with open(self.path("base"), "rb") as base:
            base.seek(SIGNPOST_OFFSET + 32)
            return any(base.read(8))

    def hear(self, text, index):
        if MANAGER_DIED.fullmatch(text):
            self.deaths.append(index)
            return
        heard(text)
        if not text.startswith("ack"):
            self.said.append(text)
            return
        process, number = map(int, text.split()[1:])
        if number != self.final[process] + 1:
            raise Wrong(f"the guest said: {text} after {self.final[process]}")
        self.final[process] = number
        self.acks.append((index, process, number))

    def kernel_says(self, pattern):
        with open(self.path("kernel"), encoding="utf-8", errors="replace") as log:
            return pattern.findall(log.read())

    def recoveries(self):
        """How long each took in the guest, in ms."""
        return [int(ms) for ms in self.kernel_says(RECOVERED)]

    def steps(self):
        """The steps at which the store manager died because the command line said so."""
        return self.kernel_says(STEP)

    # --- its states ---

    def required(self, at):
        """The counters that a state cut at `at` must have reached."""
        counters = list(self.before)
        for index, process, number in self.acks:
            if index <= at:
                counters[process] = number
        return counters

    def durable_end(self, cut):
        return max((self.complete.get(entry.index, 0) for entry in cut.durable), default=0)

    def cut(self, number, count, wanted=None):
        """State NUMBER of COUNT: every other one somewhere, if possible with writes that no flush has
        covered yet; the others aim at the kinds of writes that are rare, each in turn (or at one), over all lives."""
        seed = self.options["seed"]
        rng = random.Random(f"{seed}:{number}:{count}:{wanted}")
        rare = [wanted] if wanted else sorted(set(self.kinds) - {"commit"}, key=KINDS.index)
        places, kind = [], None
        if (wanted or number % 2) and rare:
            kind = rare[(number // 2 + self.options.get("turn", 0)) % len(rare)]
            places = [entry.index for entry in self.entries
                      if entry.sectors and self.kinds[entry.index] == kind]
        for attempt in range(30 if places else 5):      # what lies beside it may count as another kind
            if places:
                at = min(rng.choice(places) + rng.randint(1, 3), len(self.entries))
                cut = cutting.random_state(self.entries, rng, at)
            else:
                cut = cutting.random_cut(self.entries, f"{seed}.{attempt}", number, count)
            if cut.open and kind in (None, self.kind_of(cut)):
                break
        return cut

    def kind_of(self, cut):
        return min((self.kinds[entry.index] for entry in cut.open), key=KINDS.index,
                   default="nothing open")

    def make(self, cut, image):
        with open(self.path("log"), "rb") as log:
            cutting.make_image(log, self.path("base"), image, cut)


def heard(text):
    """Raises Wrong if it is nothing that a guest says when all is well."""
    if not MANAGER_DIED.fullmatch(text) and not GUEST_SAYS.fullmatch(text):
        raise Wrong(f"the guest said: {text}")


def new_life(folder, base, options):
    """A life that begins with the disk `base`, which is moved; None: with options' blank disk."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    life = Life(folder, options)
    if base:
        shutil.move(base, life.path("base"))
    return life


def kstore(*words):
    subprocess.run([os.path.join(ROOT, "build/host/kstore"), *words], check=True,
                   stdout=subprocess.DEVNULL)


def blank(path, mib, log_kib):
    """A disk without anything, or with an empty store whose log is log_kib."""
    with open(path, "wb") as disk:
        disk.truncate(mib << 20)
    if log_kib:
        kstore("create", "--log", str(log_kib), path)


def crc32c(crc, data):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff


def replaced(path, mib):
    """A disk whose store is being replaced: the first write of its formatting is durable, no other
    (disk/format.md). Should the earlier store count again, then its container is what no step leaves."""
    blank(path, mib, 64)
    kstore("put", path, "crash-old-1000000", os.path.join(ROOT, "README.md"))
    uuid = b"a store replaced"
    body = struct.pack("<I16sQ", 2, uuid, 0) + bytes(4096 - 40)
    seed = crc32c(0, uuid + struct.pack("<IIQ", CRC_SIGNPOST, 0, SIGNPOST_OFFSET))
    with open(path, "r+b") as disk:
        disk.seek(SIGNPOST_OFFSET)
        disk.write(struct.pack("<QI", SIGNPOST_MAGIC, crc32c(seed, body)) + body)


def fill(path, spare_kib):
    """A container takes what is free in a store but for so much."""
    info = subprocess.run([os.path.join(ROOT, "build/host/kstore"), "info", "--json", path], check=True,
                          stdout=subprocess.PIPE, text=True)
    what = json.loads(info.stdout)
    size = (what["extents"] - what["extents_used"]) * what["extent_bytes"] - (spare_kib << 10)
    with open(path + ".fill", "wb") as file:
        file.write(b"\1" * max(size, 4096))
    kstore("put", path, "filler", path + ".fill")
    os.unlink(path + ".fill")


NOTHING = [0] * PROCESSES
