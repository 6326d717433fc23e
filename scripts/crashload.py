"""crashload.py - what a container of user/crashload.c must hold, for scripts/crash.

The second opinion on C1 to C4 of crashload.c: it shares no code with the guest. The structs are
read from bare pages at their addresses; the counters found in them say what all else must be.
"""

import struct

PROCESSES, ACCOUNTS, SLOTS, START = 4, 16, 128, 1000
MASK = (1 << 64) - 1
PAGE_BYTES = 4096


class Wrong(Exception):
    """An invariant that does not hold."""


def mix(seed, process, number):
    x = (seed * 0x9e3779b97f4a7c15 + process * 0xbf58476d1ce4e5b9 +
         number * 0x94d049bb133111eb) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


class Model:
    """What NUMBER transactions of each process leave, computed step by step and remembered."""

    def __init__(self, seed):
        self.seed = seed
        self.steps = [[None] for _ in range(PROCESSES)]         # from number 1 on

    def step(self, process, number):
        """(from, to, amount) of a transfer, or (slot, bytes) of a node."""
        steps = self.steps[process]
        while len(steps) <= number:
            r = mix(self.seed, process, len(steps))
            if r & 7 < 4:
                steps.append((r >> 8 & 15, r >> 16 & 15, 1 + (r >> 24) % 100))
            else:
                long = r >> 16 & 15 == 0
                steps.append((r >> 8 & SLOTS - 1,
                              3000 + (r >> 24) % 9000 if long else (r >> 24) % 600))
        return steps[number]

    def state(self, counters):
        """The accounts' amounts, and {(process, slot): (number, bytes)} of the nodes."""
        amounts, nodes = [START] * ACCOUNTS, {}
        for process, count in enumerate(counters):
            for number in range(1, count + 1):
                step = self.step(process, number)
                if len(step) == 3:
                    amounts[step[0]] -= step[2]
                    amounts[step[1]] += step[2]
                elif (process, step[0]) in nodes:
                    del nodes[process, step[0]]
                else:
                    nodes[process, step[0]] = (number, step[1])
        return amounts, nodes


class Memory:
    """A container's pages; never written ones read as zeros."""

    def __init__(self):
        self.pages = {}

    def read(self, address, count):
        data = b""
        while count:
            page, offset = address & -PAGE_BYTES, address % PAGE_BYTES
            part = self.pages.get(page, bytes(PAGE_BYTES))[offset:offset + count]
            data, address, count = data + part, address + len(part), count - len(part)
        return data

    def words(self, address, count):
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))


def text_of(process, number, count):
    first = number * 7 + process * 31 & 255
    return bytes((first + at) & 255 for at in range(256)) * (count // 256 + 1)


class Load:
    """The container with its root at an address."""

    def __init__(self, memory, root):
        self.memory = memory
        words = memory.words(root, 2 + ACCOUNTS + PROCESSES)
        self.seed, self.ready = words[:2]
        self.accounts, self.processes = words[2:2 + ACCOUNTS], words[2 + ACCOUNTS:]
        self.ring = root + 8 * len(words)

    def counters(self):
        if not self.ready:
            return [0] * PROCESSES
        return [self.memory.words(process, 1)[0] for process in self.processes]

    def check(self, model):
        """Raises Wrong, or returns the counters."""
        if not self.ready:
            return self.counters()
        if self.seed != model.seed:
            raise Wrong(f"it is of seed {self.seed}")
        counters = self.counters()
        if max(counters) > 1 << 20:
            raise Wrong(f"impossible counters {counters}")
        amounts, nodes = model.state(counters)
        for index, address in enumerate(self.accounts):
            self.check_account(model, counters, index, address, amounts[index])
        places = {}
        for process, address in enumerate(self.processes):
            for slot, place in enumerate(self.memory.words(address + 8, SLOTS)):
                self.check_node(process, slot, place, nodes.get((process, slot)))
                if place:
                    places[place] = True
        self.check_ring(places)
        return counters

    def check_account(self, model, counters, index, address, wanted):
        amount, process, number = struct.unpack("<qII", self.memory.read(address, 16))
        if amount != wanted:
            raise Wrong(f"account {index} holds {amount} instead of {wanted} (C1)")
        if number and (process >= PROCESSES or number > counters[process]):
            raise Wrong(f"account {index} remembers transfer {process}.{number}, which is not "
                        f"counted (C4)")
        if number and index not in model.step(process, number)[:2]:
            raise Wrong(f"account {index} remembers transfer {process}.{number} of others (C4)")

    def check_node(self, process, slot, place, wanted):
        if not place or not wanted:
            if place or wanted:
                raise Wrong(f"process {process} slot {slot}: node {place:#x}, wanted {wanted} (C2)")
            return
        owner, number, count, own_slot = struct.unpack("<4I", self.memory.read(place + 16, 16))
        if (owner, own_slot, number, count) != (process, slot) + wanted:
            raise Wrong(f"process {process} slot {slot}: a node of {owner}.{number}, {count} "
                        f"bytes, wanted {wanted} (C2)")
        if self.memory.read(place + 32, count) != text_of(process, number, count)[:count]:
            raise Wrong(f"process {process} slot {slot}: the node's bytes changed (C2)")

    def check_ring(self, places):
        at, left = self.ring, dict(places)
        while True:
            after, _ = self.memory.words(at, 2)
            if self.memory.words(after, 2)[1] != at:
                raise Wrong(f"the list's links differ at {at:#x} and {after:#x} (C3)")
            if after == self.ring:
                break
            if not left.pop(after, None):
                raise Wrong(f"the list holds {after:#x}, which nobody has, or twice (C3)")
            at = after
        if left:
            raise Wrong(f"{len(left)} nodes are not in the list (C3)")
