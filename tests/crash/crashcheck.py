"""crashcheck.py - one crash state, examined on the host, for scripts/crash.

`kstore check` and `kreplay` say whether the disk is sound and what recovery makes of it;
crashload.py whether that is what the counters found say. Neither knows what was acknowledged: the
caller does, who read it on the console.
"""

import os
import struct
import subprocess

from crashload import LARGE, PROCESSES, WORKERS, Load, Memory, Volumes, Wrong, check_space, \
    large_counter

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOOD, NO_STORE = 0, 4                   # exit status of kstore and kreplay
MAY_BE_FORMATTED = "it can be formatted"        # disk/decide.c, RV2
TIMEOUT_S = 100


def tool(*words, folder="build/host"):
    try:
        result = subprocess.run([os.path.join(ROOT, folder, words[0]), *words[1:]], check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise Wrong(f"{words[0]} does not end") from late
    return result.returncode, result.stdout


def recover(image, bug):
    """The store's own recovery, with the bug that its manager has, too."""
    folder = os.path.join("build/bugs/manager", bug) if bug else "build/host"
    return tool("kreplay", "--pages", "crash", image, folder=folder)


class Replay:
    """What `kreplay --pages crash` printed."""

    def __init__(self, text):
        self.end, self.memory, self.containers, self.roots = 0, {}, {}, {}
        for line in text.splitlines():
            words = line.split()
            if words[0] == "page":
                memory = self.memory.setdefault(words[1], Memory())
                memory.pages[int(words[2], 16)] = bytes.fromhex(words[3])
            elif words[0] == "report":
                self.end = int(words[words.index("end") + 1])
            elif words[0] == "container":
                self.containers[words[2]] = (words[1], int(words[5]))
            elif words[0] == "name" and words[2] == "\1root":
                self.roots[words[1]] = int(words[3], 16)

    def container(self, name):
        """(pages it may have, memory, address of the root or None)"""
        number, pages = self.containers[name]
        return pages, self.memory.get(number, Memory()), self.roots.get(number)

    def counters(self, model):
        """Raises Wrong, or returns all counters."""
        volumes = Volumes({name: self.container(name) for name in self.containers
                           if name.startswith("crash-")})
        counters = [0] * WORKERS
        _, memory, root = self.container("crash") if "crash" in self.containers else (0, None, None)
        if root:
            load = Load(memory, root)
            counters = load.check(model)
            check_space("crash", memory, load.objects, set())
        large = large_counter(*self.container(LARGE)[1:]) if LARGE in self.containers else 0
        return counters + [volumes.counter(), large]


def compare(counters, required, final):
    """Acknowledged, so there; there, so begun."""
    for process, count in enumerate(counters):
        if count < required[process]:
            raise Wrong(f"process {process}: {required[process]} steps were acknowledged, {count} "
                        f"are there", "lost")
        if count > final[process] + 1:
            raise Wrong(f"process {process}: {count} steps are there, {final[process]} were "
                        f"acknowledged in the end", "resurrected")


def examine(image, model, required, final, durable_end, bug=None):
    """The counters that the image holds after recovery; raises Wrong. `required` were acknowledged
    before the cut, `final` in the end; recovery must get to the LSN durable_end at least. `bug`: see
    recover()."""
    status, text = tool("kstore", "check", image)
    if status == NO_STORE and not any(required) and not durable_end:
        status, text = recover(image, bug)      # the power went while the disk was being formatted
        if status != NO_STORE or MAY_BE_FORMATTED not in text:
            raise Wrong(f"a disk whose formatting was cut off is not formatted again: {text}")
        return [0] * PROCESSES
    if status != GOOD:
        damage = [line for line in text.splitlines() if line.startswith("damage")]
        raise Wrong(f"kstore check: {damage[0] if damage else f'status {status}'}\n{text}")
    status, text = recover(image, bug)
    if status != GOOD:
        raise Wrong(f"kreplay: {' '.join(text.splitlines()[-1:])} (status {status})")
    replay = Replay(text)
    if replay.end < durable_end:
        raise Wrong(f"recovery ends at LSN {replay.end}, but all to {durable_end} was flushed",
                    "lost")
    try:
        counters = replay.counters(model)
    except (LookupError, ValueError, struct.error, RecursionError, MemoryError) as error:
        raise Wrong(f"what the pages hold makes no sense: {error!r}") from error
    compare(counters, required, final)
    return counters
