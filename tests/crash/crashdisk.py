"""crashdisk.py - runs on a disk that fails a write, a flush or reads, for scripts/crash.

QEMU's blkdebug fails a request at a moment that the seed chooses. How often it did is asked of
QEMU itself (query-blockstats): an injector that never fires proves nothing, so zero is a failure.
blklogwrites records below blkdebug, so what reached the disk: it takes a failed request for one that
was made, but no failed one gets there.

  write, flush   the first failure fences the store: of each process one step ends as `unknown`,
                 the next one is refused (`fenced`), and what was published can still be read
  read once      is tried again: nobody notices
  read           all reads fail from then on, in recovery or later: no answer is wrong

After a failed write or flush the power is cut, too: of the disk is left what a flush that succeeded
has covered, and that must hold all that was acknowledged or could be read. The next boot is on the disk
as it is, without failures, and must have it as well.
"""

import json
import os
import random

import shutil
import socket
import tempfile

from crashcheck import examine, tool
from crashlife import NOTHING, Guest, blank, cutting, run_command
from crashload import Model, Wrong

ERROR_KINDS = ["write", "flush", "read once", "read"]
FLUSH, READ = "flush_to_disk", "read_aio"       # blkdebug's events
LOAD_STEPS, LARGE_PAGES = 1000000, 16   # which spill


def rules(event, number, kind, once):
    """blkdebug's rules: from the NUMBER-th event on, requests of this kind fail, or one does."""
    text = "".join(f'[set-state]\nevent = "{event}"\nstate = "{state}"\nnew_state = "{state + 1}"\n'
                   for state in range(1, number))
    return text + f'[inject-error]\nevent = "{event}"\nstate = "{number}"\niotype = "{kind}"\n' \
                  f'errno = "5"\nonce = "{"on" if once else "off"}"\n'


class Monitor:
    """QEMU's machine protocol over a socket in a folder of its own: such paths must be short."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="crash-")
        self.path = os.path.join(self.folder.name, "qmp")
        self.options = f"-chardev socket,id=qmp,path={self.path},server=on,wait=off " \
                       "-mon chardev=qmp,mode=control"

    def failed(self):
        """How many requests of the store's disk QEMU failed, by kind."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            stream = connection.makefile("rw", encoding="utf-8")
            for command in "qmp_capabilities", "query-blockstats":
                stream.write(json.dumps({"execute": command}) + "\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    if "error" in answer:
                        raise Wrong(f"QEMU said {answer}")
        stats = [disk["stats"] for disk in answer["return"] if "stats" in disk]
        return {kind: sum(disk[f"failed_{word}_operations"] for disk in stats)
                for kind, word in (("write", "wr"), ("flush", "flush"), ("read", "rd"))}


class ErrorRun:
    """One disk with one kind of failure."""

    def __init__(self, folder, seed, kind, stats, bug=None):
        self.seed, self.kind, self.stats, self.fired = seed, kind, stats, 0
        self.folder = os.path.join(folder, f"error-{seed}")
        self.rng, self.model = random.Random(f"{seed}:{kind}"), Model(seed)
        self.disk, self.base, self.log = (os.path.join(self.folder, name) for name in ("disk", "base", "log"))
        self.options = {"cpus": self.rng.choice([1, 2]), "words": ["store.group_kib=32"],
                        "bug": bug}
        self.load = f"{self.rng.randrange(4)} {LARGE_PAGES}"
        self.log_kib = self.rng.choice([256, 512, 2048])
        read = kind.startswith("read")
        # QEMU itself reads the first sector, for a geometry: that is event 1
        self.event, self.number = (READ, self.rng.randint(2, 13)) if read \
            else (FLUSH, self.rng.randint(5, 300))
        self.final = list(NOTHING)

    def boot(self, commands, more, until=None, monitor=None):
        """What the guest says; it is stopped, and QEMU asked, when it says `until`."""
        said = []
        command = run_command(self.disk, self.options, commands, more)
        with Guest(command, os.path.join(self.folder, "stderr")) as guest:
            for _, text in guest.lines(lambda: None):
                said.append(text)
                if until and text == until:
                    recorded = os.stat(self.log).st_size    # QEMU may flush when it ends
                    self.fired = monitor.failed()[self.kind.split()[0]]
                    break
            else:
                if until:
                    raise Wrong(f"the guest never said `{until}`: {said[-5:]}")
                guest.check(os.path.join(self.folder, "stderr"), said=(len(said), " / ".join(said[-5:])))
        if until:
            os.truncate(self.log, recorded)
        return said

    def fail(self, commands):
        """Boot with the failure, and have it say how often it fired."""
        monitor = Monitor()
        path = os.path.join(self.folder, "rules")
        with open(path, "w", encoding="ascii") as out:
            out.write(rules(self.event, self.number, self.kind.split()[0], self.kind != "read"))
        cutting.copy_sparse(self.disk, self.base)
        with open(self.log, "wb"):
            pass
        disk = f"-blockdev driver=file,node-name=data,filename={self.disk} " \
               f"-blockdev driver=file,node-name=log,filename={self.log} " \
               "-blockdev driver=blklogwrites,node-name=image,file=data,log=log,log-sector-size=512 " \
               f"-blockdev driver=blkdebug,node-name=fails,image=image,config={path} " \
               "-blockdev driver=raw,node-name=store,file=fails " \
               "-device virtio-blk-pci,drive=store,serial=store,disable-legacy=on," \
               "werror=report,rerror=report "
        said = self.boot(commands + "; echo that is all; sleep 100000",
                         ["--no-store", "--qemu", disk + monitor.options], "that is all", monitor)
        if self.fired == 0:
            raise Wrong(f"the {self.kind} error at {self.event} {self.number} was never injected")
        self.stats.fired[self.kind] += self.fired
        return said

    def go(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        blank(self.disk, 24, self.log_kib)
        if self.kind.startswith("read"):
            self.reads()
        else:
            self.writes()
        found = " ".join(map(str, self.final))
        said = self.boot(f"crashload check {self.seed} {found}; crashload {self.seed} 20 {self.load}", [])
        if said[1] != "sound":
            raise Wrong(f"after the restart the guest said {said[:2]}")
        self.hear(said[2:])
        counters = examine(self.disk, self.model, self.final, self.final, 0,
                           self.options["bug"])
        status, text = tool("kstore", "info", self.disk)
        if counters != self.final or status or "closed properly" not in text:
            raise Wrong(f"after a halt {counters} steps are there, {self.final} were acknowledged\n"
                        f"{text}")
        shutil.rmtree(self.folder)

    def hear(self, said):
        """Takes note of acks; returns {other word: processes that said it}."""
        words = {}
        for text in said:
            word, *numbers = text.split()
            if word == "ack":
                process, number = map(int, numbers)
                if process in words.get("unknown", ()):
                    raise Wrong(f"the guest said: {text}, after the disk had failed", "lost")
                self.final[process] = number
            else:
                words.setdefault(word, []).append(
                    int(numbers[0]) if numbers and numbers[0].isdigit() else text)
        return words

    @staticmethod
    def counters(said):
        """What a check in the guest has read."""
        for text in said:
            if text.startswith("counters "):
                return [int(number) for number in text.split()[1:]]
        return None

    def writes(self):
        said = self.fail(f"crashload {self.seed} {LOAD_STEPS} {self.load}; crashload check {self.seed}")
        words = self.hear(said[:-1])
        if sorted(words.get("unknown", [])) != sorted(words.get("fenced", [])) or \
                len(words.get("fenced", [])) != len(NOTHING):
            raise Wrong(f"not every process heard of the failure: {said[-20:]}")
        if "sound" not in said or not (read := self.counters(said)) or \
                not all(a <= r <= a + 1 for a, r in zip(self.final, read)):
            raise Wrong(f"what was acknowledged before the failure is not read: wanted {self.final}, "
                        f"{said[-6:]}")
        self.cut(read)
        self.final = read               # one that is unknown may be read, and then it stays
        found = examine(self.disk, self.model, self.final, self.final, 0,
                           self.options["bug"])
        self.final = found              # the unknown ones may be there or not

    def cut(self, read):
        """The power goes: without any write that no flush covers there must be all that a check has read."""
        image = os.path.join(self.folder, "cut")
        with open(self.log, "rb") as log:
            entries = cutting.read_log(log)
            cutting.make_image(log, self.base, image, cutting.Cut(entries, len(entries), set()))
        try:
            examine(image, self.model, read, self.final, 0, self.options["bug"])
        except Wrong as wrong:
            raise Wrong(f"without what no flush has covered: {wrong}", wrong.kind) from wrong

    def reads(self):
        """A store with pages at home is read by a check; the disk fails meanwhile."""
        self.hear(self.boot(f"crashload {self.seed} 60 {self.load}", []))
        said = self.fail(f"crashload check {self.seed}")
        counters = "counters " + " ".join(map(str, self.final))
        if counters in said and said[said.index(counters) + 1] == "sound":
            return
        if self.kind == "read once" or any(text.startswith("counters") for text in said):
            raise Wrong(f"a {self.kind} error led to a wrong answer: {said}")

    def row(self):
        return f"{self.seed:6}  24 MiB {self.log_kib:4} KiB {self.options['cpus']:4}  a disk that fails: " \
               f"{self.kind}, from {self.event} {self.number} on, {self.fired} times; " \
               f"{sum(self.final)} steps acknowledged"
