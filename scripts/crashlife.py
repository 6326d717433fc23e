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
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import shutil
import struct
import subprocess

from crashload import PROCESSES, Wrong

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GROUP_MAGIC, SUPERBLOCK_MAGIC = 0x70726f75474b6431, 0x6269644b53746f31
# what a write may be part of; of the open writes of a state, the first that is here names the state
KINDS = ["format", "recovery", "spill", "create", "grow", "rename", "delete", "checkpoint", "commit"]
RECORD_KINDS = {4: "create", 5: "delete", 6: "rename", 7: "grow", 13: "spill"}
GUEST_SAYS = re.compile(r"(ack|found|lost|unknown|fenced) \d \d+|counters( \d+){5}|sound|"
                        r"crashload: all done")
MANAGER_DIED = re.compile(r"init: the store manager ended with status \d+: starting it again")
RECOVERED = re.compile(r"store: (?:recovered|nothing to recover|clean).* in (\d+) ms")
TIMEOUT_S, TIMEOUT_BUG_S = 180, 40


def load_cut():
    loader = importlib.machinery.SourceFileLoader("cut", os.path.join(ROOT, "scripts/cut"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cut", loader))
    loader.exec_module(module)
    return module


cutting = load_cut()


def run_command(disk, life, commands, more):
    """The words that boot the guest; `life` holds cpus, words for the kernel, and a bug or None."""
    command = [os.path.join(ROOT, "scripts/run"), "--cpus", str(life["cpus"]), "--memory", "128",
               "--timeout", str(TIMEOUT_BUG_S if life["bug"] else TIMEOUT_S), "-c", commands, *more]
    if "--no-store" not in more:
        command += ["--store", disk]
    words = list(life["words"])
    if life["bug"]:
        command += ["--add", os.path.join(ROOT, "build/bugs/store:store")]
        words.append(f"store.bug={life['bug']}")
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

    def check(self, where):
        """Raises Wrong unless scripts/run ended well."""
        if self.run.wait() != 0:
            with open(self.errors, encoding="utf-8", errors="replace") as stderr:
                raise Wrong(f"scripts/run ended with status {self.run.returncode}, the guest's words "
                            f"are in {where}\n{stderr.read()[-4000:]}")


class Life:
    """See above. `options`: seed, before (counters), cpus, words, bug."""

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
        command = run_command(disk, self.options, commands, [
            "--record", log, "--log", self.path("kernel"), "--kill-on", kill_on])
        try:
            with Guest(command, self.path("stderr")) as guest, \
                    open(self.path("serial"), "w", encoding="utf-8") as serial:
                for position, text in guest.lines(lambda: os.stat(log).st_size):
                    serial.write(f"{position} {text}\n")
                guest.check(self.path("serial"))
        finally:
            os.unlink(disk)

    # --- what was recorded ---

    def load(self):
        with open(self.path("log"), "rb") as log:
            self.entries = cutting.read_log(log)
            heads = [self.head(log, entry) for entry in self.entries]
        # the end of each commit group in the log, by the entry that wrote it
        self.groups = {index: head[1] + 4096 * head[2]
                       for index, head in enumerate(heads) if head[0] == GROUP_MAGIC}
        self.superblocks = [index for index, head in enumerate(heads)
                            if head[0] == SUPERBLOCK_MAGIC]
        self.listen()
        self.kinds = self.classify(heads)
        return self

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
        after a death of the manager; other writes beside groups are of a checkpoint."""
        kinds, start = [], "recovery" if any(self.before) or self.superblock_in_base() else "format"
        deaths = list(self.deaths)
        for index, head in enumerate(heads):
            if deaths and index >= deaths[0]:
                start = "recovery"
                deaths.pop(0)
            if head[0] == GROUP_MAGIC:
                start = None
                kinds.append(min(head[3] | {"commit"}, key=KINDS.index))
            else:
                kinds.append(start or "checkpoint")
        return kinds

    def superblock_in_base(self):
        with open(self.path("base"), "rb") as base:
            return any(base.read(8))

    def hear(self, text, index):
        if MANAGER_DIED.fullmatch(text):
            self.deaths.append(index)
            return
        if not GUEST_SAYS.fullmatch(text):
            raise Wrong(f"the guest said: {text}")
        if not text.startswith("ack"):
            self.said.append(text)
            return
        process, number = map(int, text.split()[1:])
        if number != self.final[process] + 1:
            raise Wrong(f"the guest said: {text} after {self.final[process]}")
        self.final[process] = number
        self.acks.append((index, process, number))

    def recoveries(self):
        """How long each took in the guest, in ms."""
        with open(self.path("kernel"), encoding="utf-8", errors="replace") as log:
            return [int(ms) for ms in RECOVERED.findall(log.read())]

    # --- its states ---

    def required(self, at):
        """The counters that a state cut at `at` must have reached."""
        counters = list(self.before)
        for index, process, number in self.acks:
            if index <= at:
                counters[process] = number
        return counters

    def durable_end(self, cut):
        return max((self.groups.get(entry.index, 0) for entry in cut.durable), default=0)

    def cut(self, number, count, wanted=None):
        """State NUMBER of COUNT: every other one somewhere, if possible with writes that no flush has
        covered yet; the others aim at the kinds of writes that are rare, each in turn (or at one)."""
        seed = self.options["seed"]
        rng = random.Random(f"{seed}:{number}:{count}:{wanted}")
        rare = [wanted] if wanted else sorted(set(self.kinds) - {"commit"}, key=KINDS.index)
        places = []
        if (wanted or number % 2) and rare:
            kind = rare[number // 2 % len(rare)]
            places = [entry.index for entry in self.entries
                      if entry.sectors and self.kinds[entry.index] == kind]
        for attempt in range(5):
            if places:
                at = min(rng.choice(places) + rng.randint(1, 3), len(self.entries))
                cut = cutting.random_state(self.entries, rng, at)
            else:
                cut = cutting.random_cut(self.entries, f"{seed}.{attempt}", number, count)
            if cut.open:
                break
        return cut

    def kind_of(self, cut):
        return min((self.kinds[entry.index] for entry in cut.open), key=KINDS.index,
                   default="nothing open")

    def make(self, cut, image):
        with open(self.path("log"), "rb") as log:
            cutting.make_image(log, self.path("base"), image, cut)


def new_life(folder, base, options):
    """A life that begins with the disk `base`, which is moved; None: with options' blank disk."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    life = Life(folder, options)
    if base:
        shutil.move(base, life.path("base"))
    return life


def blank(path, mib, log_kib):
    """A disk without anything, or with an empty store whose log is log_kib."""
    with open(path, "wb") as disk:
        disk.truncate(mib << 20)
    if log_kib:
        subprocess.run([os.path.join(ROOT, "build/host/kstore"), "create", "--log", str(log_kib),
                        path], check=True, stdout=subprocess.DEVNULL)


NOTHING = [0] * PROCESSES
