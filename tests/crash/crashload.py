"""crashload.py - what the containers of tests/crash/crashload must hold, for scripts/crash.

The second opinion on CL1 to CL6 and CL8 of tests/crash/crashload/load.h, and the only one on CL7; it shares no code
with the guest. The structs are read from bare pages at their addresses; the counters found in them
say what all else must be.
"""

import struct

WORKERS, PROCESSES, ACCOUNTS, SLOTS, START = 4, 6, 16, 128, 1000
LOAD_BYTES, ACCOUNT_BYTES, PROCESS_BYTES, NODE_BYTES = 200, 1008, 3832, 48
MAKE, FILL, GROW, FAR, RENAME, DELETE, PHASES, KEPT, GROWS = 1, 2, 3, 4, 5, 6, 6, 2, 8
VOLUME_BYTES, BULK_WORDS, SEGMENT_PAGES = 32, 1500, 1 << 18
LARGE, LARGE_BYTES, MOVES, OTHER = "crash.large", 24, 500, 1000
SLOT_SEALS, SLOT_RUNS_ON, UNIT_BYTES = {0x7a3d51c7: (12, 2), 0x4b1e92d5: (32, 6)}, 255, 16
MASK = (1 << 64) - 1
PAGE_BYTES = 4096


class Wrong(Exception):
    """An invariant that does not hold; kind is what the table counts it as."""

    def __init__(self, text, kind="check"):
        super().__init__(text)
        self.kind = kind


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
        self.steps = [[None] for _ in range(WORKERS)]           # from number 1 on

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
        for process, count in enumerate(counters[:WORKERS]):
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
    """The container "crash" with its root at an address."""

    def __init__(self, memory, root):
        self.memory, self.root = memory, root
        words = memory.words(root, 2 + ACCOUNTS + WORKERS + 1)
        self.seed, self.ready = words[:2]
        self.accounts, self.processes = words[2:2 + ACCOUNTS], words[2 + ACCOUNTS:-1]
        self.tree = words[-1]
        self.ring = root + 8 * len(words)
        self.objects = {root: LOAD_BYTES}               # CL7: address, bytes of all there are

    def counters(self):
        if not self.ready:
            return [0] * WORKERS
        return [self.memory.words(process, 1)[0] for process in self.processes]

    def check(self, model):
        """Raises Wrong, or returns the workers' counters."""
        if not self.ready:
            return self.counters()
        self.objects |= {address: ACCOUNT_BYTES for address in self.accounts}
        self.objects |= {address: PROCESS_BYTES for address in self.processes}
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
        left = dict(places)
        self.check_tree(self.tree, 0, MASK, MASK, left)
        if left:
            raise Wrong(f"{len(left)} nodes are not in the tree (CL5)")
        return counters

    def check_account(self, model, counters, index, address, wanted):
        amount, process, number = struct.unpack("<qII", self.memory.read(address, 16))
        if amount != wanted:
            raise Wrong(f"account {index} holds {amount} instead of {wanted} (CL1)")
        if number and (process >= WORKERS or number > counters[process]):
            raise Wrong(f"account {index} remembers transfer {process}.{number}, which is not "
                        f"counted (CL4)")
        if number and index not in model.step(process, number)[:2]:
            raise Wrong(f"account {index} remembers transfer {process}.{number} of others (CL4)")

    def check_node(self, process, slot, place, wanted):
        if not place or not wanted:
            if place or wanted:
                raise Wrong(f"process {process} slot {slot}: node {place:#x}, wanted {wanted} (CL2)")
            return
        owner, number, count, own_slot = struct.unpack("<4I", self.memory.read(place + 32, 16))
        if (owner, own_slot, number, count) != (process, slot) + wanted:
            raise Wrong(f"process {process} slot {slot}: a node of {owner}.{number}, {count} "
                        f"bytes, wanted {wanted} (CL2)")
        if self.memory.read(place + 48, count) != text_of(process, number, count)[:count]:
            raise Wrong(f"process {process} slot {slot}: the node's bytes changed (CL2)")
        self.objects[place] = NODE_BYTES + count

    def check_ring(self, places):
        at, left = self.ring, dict(places)
        while True:
            after, _ = self.memory.words(at, 2)
            if self.memory.words(after, 2)[1] != at:
                raise Wrong(f"the list's links differ at {at:#x} and {after:#x} (CL3)")
            if after == self.ring:
                break
            if not left.pop(after, None):
                raise Wrong(f"the list holds {after:#x}, which nobody has, or twice (CL3)")
            at = after
        if left:
            raise Wrong(f"{len(left)} nodes are not in the list (CL3)")

    def check_tree(self, place, low, high, top, left):
        """CL5 of the tree at `place`: keys from low to below high, priorities below top."""
        while place:
            if not left.pop(place, None):
                raise Wrong(f"the tree holds {place:#x}, which nobody has, or twice (CL5)")
            before, behind = self.memory.words(place + 16, 2)
            process, slot = struct.unpack("<I8xI", self.memory.read(place + 32, 16))
            key = slot * WORKERS + process
            priority = (key + 1) * 0x9e3779b97f4a7c15 & MASK
            priority = (priority ^ priority >> 29) * 0xbf58476d1ce4e5b9 & MASK
            if not low <= key < high or priority >= top:
                raise Wrong(f"the tree is not in order at {place:#x} (CL5)")
            self.check_tree(before, low, key, priority, left)
            place, low, top = behind, key + 1, priority


def large_counter(memory, root):
    """CL8: how many steps the container of the sixth process tells of."""
    if not root:
        return 0
    number, pages, words = memory.words(root, 3)
    for index in range(pages if number else 0):
        page = words + index * PAGE_BYTES
        found = memory.words(page, 1) + memory.words(page + 8 * (1 + number % MOVES), 1)
        if found != (number, number * OTHER + index):
            raise Wrong(f"page {index} of the large object says {found}, its root {number} (CL8)")
    objects = {root: LARGE_BYTES}
    if words:
        objects[words] = pages * PAGE_BYTES - 64
    check_space(LARGE, memory, objects, set())
    return number


class Volumes:
    """CL6: the containers of the fifth process. found: {name: (pages, memory, root or None)}."""

    def __init__(self, found):
        self.found = {name: self.look(name, *of) for name, of in found.items()}

    @staticmethod
    def look(name, pages, memory, root):
        """(has two segments, what `filled` says, what `reached` says)"""
        grown = pages > SEGMENT_PAGES
        if not root:
            return grown, 0, 0
        filled, reached, bulk, far = memory.words(root, 4)
        objects = {root: VOLUME_BYTES}
        if filled:
            objects[bulk] = 8 * BULK_WORDS
            if memory.words(bulk, BULK_WORDS) != tuple(range(filled, filled + BULK_WORDS)):
                raise Wrong(f"{name}: the words of its object changed (CL6)")
        if reached and memory.words(far, 1)[0] != reached:
            raise Wrong(f"{name}: its far word is not what its root says (CL6)")
        if reached and not grown:
            objects[far] = UNIT_BYTES
        check_space(name, memory, objects, {far & -PAGE_BYTES} if reached and grown else set())
        return grown, filled, reached

    @staticmethod
    def wanted(counter):
        """What so many steps leave."""
        volumes = {}
        for index in range(max(0, counter // PHASES - KEPT), (counter + PHASES - 1) // PHASES):
            first = index * PHASES
            step = min(counter - first, PHASES)
            reached = first + FAR if step >= FAR else 0
            if step == DELETE and index < KEPT:
                reached = first + DELETE
            age = "old" if step >= RENAME else "new"
            grown = step >= GROW and index % GROWS == 0
            filled = 0 if step < FILL else first + FILL if step < GROW or grown else first + GROW
            volumes[f"crash-{age}-{index}"] = (grown, filled, reached)
        return volumes

    def counter(self):
        """Raises Wrong, or returns how many steps were made."""
        if not self.found:
            return 0
        last = max(int(name.rsplit("-", 1)[1]) for name in self.found)
        for counter in range(last * PHASES + MAKE, last * PHASES + DELETE + 1):
            if self.wanted(counter) == self.found:
                return counter
        raise Wrong(f"these volumes are what no step leaves (CL6): {self.found}")


def seal_of(page, data):
    return struct.unpack_from("<I", data)[0] ^ page // PAGE_BYTES & 0xffffffff


def objects_in(page, data):
    """(address, bytes) of the objects in a slotted page, and how many pages follow that are theirs."""
    tail, slots = struct.unpack_from("<IB", data, 4)
    objects = []
    header, slot = SLOT_SEALS[seal_of(page, data)]
    for at in range(header, header + slot * slots, slot):
        start, units = data[at:at + 2]
        if units:
            address = page + UNIT_BYTES * (start or 256)
            end = page + PAGE_BYTES * (1 + tail) if units == SLOT_RUNS_ON \
                else address + UNIT_BYTES * units
            objects.append((address, end - address))
    return objects, tail


def size_of(address, count):
    """Bytes that libpstore gives to an object of so many; a large one ends where its last page ends."""
    if count > 253 * UNIT_BYTES:
        return -(-(address + count) // PAGE_BYTES) * PAGE_BYTES - address
    return -(-count // UNIT_BYTES) * UNIT_BYTES


def check_space(name, memory, wanted, raw):
    """CL7: the pages hold the wanted objects {address: bytes}, no other, none over another; the pages
    in `raw` hold none."""
    found, after = {}, 0
    for page in sorted(memory.pages):
        data = memory.pages[page]
        if page < after or page in raw:
            continue
        if seal_of(page, data) not in SLOT_SEALS:
            raise Wrong(f"{name}: the page {page:#x} belongs to nobody (CL7)")
        objects, tail = objects_in(page, data)
        after = page + PAGE_BYTES * (1 + tail)
        found |= dict(objects)
    wanted = {address: size_of(address, count) for address, count in wanted.items()}
    if found != wanted:
        odd = sorted(set(found.items()) ^ set(wanted.items()))[0]
        where = "is there, and nobody has it" if odd[0] in found else "is not there"
        raise Wrong(f"{name}: an object at {odd[0]:#x} of {odd[1]} bytes {where} (CL7)")
    end = 0
    for address, count in sorted(found.items()):
        if address < end:
            raise Wrong(f"{name}: the object at {address:#x} begins inside another (CL7)")
        end = address + count
