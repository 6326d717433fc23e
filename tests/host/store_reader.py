"""store_reader.py - reads a store image. Written from disk/format.md alone, and used to test it.

  Store(bytes).containers    {id: name}
  Store(bytes).pages()       {(id, page): (version, CRC)} of every page that recovery would leave
  Store(bytes).claimed()     {(id, page)} of those that are somebody's and were never written

Whatever does not verify raises Damaged. Simple rather than fast; data pages are verified, too.
"""

import struct

BLOCK = 4096


class Damaged(Exception):
    pass


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc_table()


def crc(start, data):
    state = start ^ 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ TABLE[(state ^ byte) & 255]
    return state ^ 0xFFFFFFFF


def seed(uuid, kind, address, epoch):
    return crc(0, uuid + struct.pack("<IIQ", kind, epoch, address))


def field(data, offset, form):
    return struct.unpack_from("<" + form, data, offset)[0]


def need(condition, what):
    if not condition:
        raise Damaged(what)


def unpacked(data):
    """A block of LZ4."""
    out, at = bytearray(), 0
    while at < len(data):
        counts = [data[at] >> 4, data[at] & 15]
        at += 1
        for which in (0, 1):
            more = counts[which] == 15
            if which:
                if at >= len(data):
                    break
                back = field(data, at, "H")
                at += 2
            while more:
                counts[which] += data[at]
                more = data[at] == 255
                at += 1
            if not which:
                out += data[at:at + counts[0]]
                at += counts[0]
            else:
                need(0 < back <= len(out), "packed data leads to before its beginning")
                for _ in range(counts[1] + 4):
                    out.append(out[-back])
    return bytes(out)


def operate(page, data):
    """Operations of a record, on the version before."""
    before, at, end = bytes(page), 0, 0

    def number():
        nonlocal at
        value, at = data[at], at + 1
        if value > 127:
            value, at = value % 128 + 128 * data[at], at + 1
        return value

    while at < len(data):
        head, size = number(), number()
        start = end + head // 4
        if head % 4 == 0:
            made, at = data[at:at + size], at + size
        elif head % 4 == 1:
            far = number()
            place = start + far // 2 if far % 2 else start - far // 2
            need(place >= 0, "an operation leaves its page")
            made = before[place:place + size]
        else:
            need(head % 4 == 2, "there is no such operation")
            made, at = data[at:at + 1] * size, at + 1
        end = start + size
        need(len(made) == size and end <= BLOCK, "an operation leaves its page")
        page[start:end] = made


class Slot:
    """A superblock slot; valid() says whether to believe it (the ranges are not all checked)."""

    def __init__(self, data, offset):
        self.data, self.offset = data, offset
        self.uuid = data[16:32]
        self.slot, self.flags, self.generation = struct.unpack_from("<IIQ", data, 40)
        self.disk_bytes, self.slot_b, self.log_start, self.log_bytes, self.extent_bytes = \
            struct.unpack_from("<QQQQI", data, 56)
        self.area_start = struct.unpack_from("<QQ", data, 96)
        self.area_pages, _, _, self.newest = struct.unpack_from("<IIII", data, 112)
        self.data_start, self.extents = struct.unpack_from("<QQ", data, 128)
        self.checkpoints = [struct.unpack_from("<QQIIIIQ", data, 144 + 40 * i) for i in range(2)]
        self.end_lsn, _, count = struct.unpack_from("<QII", data, 224)
        self.epochs = [struct.unpack_from("<IIQ", data, 240 + 16 * i) for i in range(min(count, 8))]

    def valid(self):
        return field(self.data, 0, "Q") == 0x6269644B53746F31 and field(self.data, 12, "I") == 4 \
            and crc(seed(self.uuid, 1, self.slot, 0), self.data[12:]) == field(self.data, 8, "I") \
            and field(self.data, 32, "Q") == 0 and self.slot == self.generation & 1 \
            and self.offset == (self.slot_b if self.slot else 0)


class Store:
    def __init__(self, image):
        self.image = image
        self.super = self.choose()
        self.n = self.super.extent_bytes // BLOCK
        newest = self.super.newest
        try:
            self.load(newest)
        except Damaged:
            self.load(1 - newest)
        self.forget()
        self.replay()

    def block(self, offset, count=1):
        need(offset + count * BLOCK <= len(self.image), f"there is no byte {offset}")
        return self.image[offset:offset + count * BLOCK]

    def choose(self):
        a = Slot(self.block(0), 0)
        place = a.slot_b if a.valid() else self.signpost()
        b = Slot(self.block(place), place)
        slots = [slot for slot in (a, b) if slot.valid()]
        if len(slots) == 2 and a.uuid != b.uuid:
            slots = [a]
        need(slots, "no valid superblock")
        return max(slots, key=lambda slot: slot.generation)

    def signpost(self):
        post = self.block(BLOCK)
        if field(post, 0, "Q") == 0x6E6769534B646931 and \
                crc(seed(post[16:32], 5, 4096, 0), post[12:]) == field(post, 8, "I"):
            return field(post, 32, "Q")
        return len(self.image) // 2 // BLOCK * BLOCK

    # --- the metadata of a checkpoint ---

    def load(self, area):
        s = self.super
        self.redo, self.scan, root, pages, self.prev_crc, self.scan_crc, _ = s.checkpoints[area]
        need(self.redo and 1 <= pages <= s.area_pages, "no such checkpoint")
        blocks = (pages * 16 + BLOCK - 1) // BLOCK
        table = self.block(s.area_start[area], blocks)
        need(crc(seed(s.uuid, 3, self.redo, 0), table) == root, "the map is damaged")
        first = s.area_start[area] + (s.area_pages * 16 + BLOCK - 1) // BLOCK * BLOCK
        self.containers, self.leaves, self.durability = {}, {}, {}
        for i in range(pages):
            page_crc, kind = struct.unpack_from("<IH", table, 16 * i)
            if kind == 0:
                continue
            page = self.block(first + i * BLOCK)
            need(crc(seed(s.uuid, 4, i, 0), page) == page_crc, f"metadata page {i} is damaged")
            if kind == 2:
                self.directory(page)
            elif kind == 4:
                self.bucket(page)

    def directory(self, page):
        for at in range(0, BLOCK, 512):
            if field(page, at, "Q"):
                self.containers[field(page, at, "Q")] = page[at + 8:at + 72].split(b"\0")[0].decode()
                self.durability[field(page, at, "Q")] = field(page, at + 260, "H")

    def bucket(self, page):
        size = 40 + 12 * self.n
        for at in range(16, 16 + field(page, 0, "I") * size, size):
            key = struct.unpack_from("<QQ", page, at)
            need(key not in self.leaves, "an extent is mapped twice")
            crcs = struct.unpack_from(f"<{self.n}I", page, at + 40)
            lsns = struct.unpack_from(f"<{self.n}Q", page, at + 40 + 4 * self.n)
            mask, _, claimed = struct.unpack_from("<IHH", page, at + 32)
            need(mask | claimed and not mask & claimed, "a leaf's masks are wrong")
            self.leaves[key] = {
                "physical": field(page, at + 16, "Q"),
                "claimed": {p for p in range(self.n) if claimed >> p & 1},
                "pages": {p: (lsns[p], crcs[p], None) for p in range(self.n) if mask >> p & 1}}

    # --- the log ---

    def epoch_fits(self, epoch, lsn):
        known = self.super.epochs
        return epoch == max((e for e, _, first in known if first <= lsn), default=0) or \
            known[-1][0] < epoch < 2**32 - 2 and lsn >= known[-1][2]

    def group(self, lsn, before):
        s = self.super
        place = lsn % s.log_bytes
        head = self.block(s.log_start + place)
        blocks, size = field(head, 44, "I"), field(head, 52, "I")
        if field(head, 0, "Q") != 0x70726F75474B6431 or head[32:36] != s.uuid[:4] or not blocks or \
                blocks * BLOCK > min(s.log_bytes // 2, s.log_bytes - place) or \
                size > blocks * BLOCK - 64 or field(head, 8, "Q") != lsn or \
                not self.epoch_fits(epoch := field(head, 36, "I"), lsn) or field(head, 40, "I") != before:
            return None
        data = self.block(s.log_start + place, blocks)
        start = seed(s.uuid, 2, lsn, epoch)
        if crc(crc(start, data[:60]), data[64:]) != field(data, 60, "I"):
            return None
        if epoch > s.epochs[-1][0]:     # the superblock that began it is lost
            s.epochs = [e for e in s.epochs if e[2] < lsn] + [(epoch, 0, lsn)]
            need(len(s.epochs) <= 8, "there are too many epochs")
        return data

    def groups(self):
        lsn, before, ring = self.scan, self.scan_crc, self.super.log_bytes
        while True:
            data = self.group(lsn, before)
            if data is None and lsn % ring:
                start = lsn + ring - lsn % ring
                data = self.group(start, before)
                lsn = start if data else lsn
            if data is None and lsn < self.redo:
                lsn, before = self.redo, self.prev_crc
                continue
            if data is None or lsn + len(data) - self.scan > ring:
                break
            yield lsn, data
            lsn, before = lsn + len(data), field(data, 60, "I")
        known = self.super.checkpoints[self.super.newest][0]
        if self.super.flags & 1:
            known = max(known, self.super.end_lsn)
        need(lsn >= known, f"history is lost from LSN {lsn} on")

    def replay(self):
        self.images = {}                    # LSN of a spilled image: its bytes
        for lsn, data in self.groups():
            at, pending = 64, []
            for _ in range(field(data, 48, "I")):
                length, kind, _, size = struct.unpack_from("<IHHI", data, at)
                need(length >= 48 and at + length <= len(data), "a record leaves its group")
                record = (kind, data[at:at + 48], data[at + 48:at + 48 + size])
                if kind == 13:
                    self.spill(lsn, data, at, size)
                elif kind == 11 and lsn >= self.redo:
                    for one in pending:
                        self.apply(lsn + at, *one)
                    pending = []
                elif kind != 12 and lsn >= self.redo:
                    pending.append(record)
                at += length

    def spill(self, lsn, data, at, size):
        end = at + 48 + size
        for offset in range((at + 72 + BLOCK - 1) // BLOCK * BLOCK, end, BLOCK):
            self.images[lsn + offset] = data[offset:offset + BLOCK]

    def forget(self):
        """Pages that are in no log, before that is followed."""
        newest = self.redo == self.super.checkpoints[self.super.newest][0]
        same = newest and all(lsn < self.redo for lsn, _ in self.groups())
        for key in list(self.leaves):
            if self.durability[key[0]] == 2 or self.durability[key[0]] > 2 and not same:
                del self.leaves[key]

    def apply(self, csn, kind, head, data):
        obj, page, base, physical = struct.unpack_from("<QQQQ", head, 16)
        if kind in (1, 2, 3, 14, 16, 20, 21, 25) and self.durability.get(obj, 0) >= 2:
            return
        if kind in (1, 2) and field(head, 6, "H") & 1:
            data = unpacked(data)
        if kind in (1, 2, 14, 21):
            leaf = self.leaf(obj, page // self.n, physical)
            leaf["claimed"].discard(page % self.n)
            old = leaf["pages"].get(page % self.n, (0, 0, None))[2]
            leaf["pages"][page % self.n] = (csn, 0, self.built(kind, head, data, base, old))
        elif kind == 16:
            for p in range(page, page + base):
                leaf = self.leaf(obj, p // self.n, physical + p // self.n - page // self.n)
                if p % self.n not in leaf["pages"]:
                    leaf["claimed"].add(p % self.n)
        elif kind == 25:
            leaf = self.leaves[obj, page // self.n]
            leaf.update(physical=physical, claimed=leaf["claimed"] | set(leaf["pages"]), pages={})
        elif kind == 20:
            for i, p in enumerate(range(page, page + base)):
                leaf = self.leaf(obj, p // self.n, physical + p // self.n - page // self.n)
                need(p % self.n not in leaf["pages"], "a page is home twice")
                leaf["claimed"].discard(p % self.n)
                leaf["pages"][p % self.n] = (csn, field(data, 4 * i, "I"), None)
        elif kind == 3:
            self.free(obj, page, page + base)
        elif kind == 4:
            self.containers[obj] = data[8:72].split(b"\0")[0].decode()
            self.durability[obj] = field(data, 260, "H")
        elif kind == 19:
            self.durability[obj] = page
        elif kind == 5:
            self.free(obj, 0, 1 << 64)
            del self.containers[obj]
        elif kind == 6:
            self.containers[obj] = data.split(b"\0")[0].decode()

    def leaf(self, obj, index, physical):
        leaf = self.leaves.setdefault((obj, index),
                                      {"physical": physical, "claimed": set(), "pages": {}})
        need(leaf["physical"] == physical, "a page moved")
        return leaf

    def built(self, kind, head, data, base, old):
        if kind == 1:
            return data
        if kind == 14:
            need(crc(0, self.images[base]) == field(head, 12, "I"), "a spilled image is damaged")
            return self.images[base]
        need(old is not None or not base, "a difference has no base")
        page = bytearray(old if base else BLOCK)
        if kind == 21:
            operate(page, data)
            data = b""
        while data:
            offset, length = struct.unpack_from("<HH", data, 0)
            page[offset:offset + length] = data[4:4 + length]
            data = data[4 + length:]
        return bytes(page)

    def free(self, obj, first, end):
        for key in [key for key in self.leaves if key[0] == obj]:
            pages, claimed = self.leaves[key]["pages"], self.leaves[key]["claimed"]
            for p in [p for p in range(self.n) if first <= key[1] * self.n + p < end]:
                pages.pop(p, None)
                claimed.discard(p)
            if not pages and not claimed:
                del self.leaves[key]

    # --- pages ---

    def claimed(self):
        return {(obj, index * self.n + p) for (obj, index), leaf in self.leaves.items()
                for p in leaf["claimed"]}

    def pages(self):
        found = {}
        for (obj, index), leaf in self.leaves.items():
            home = self.super.data_start + leaf["physical"] * self.super.extent_bytes
            for p, (lsn, page_crc, image) in leaf["pages"].items():
                if image is None:
                    data = self.block(home + p * BLOCK)
                    need(crc(0, data) == page_crc, f"page {index * self.n + p} of {obj} is damaged")
                else:
                    page_crc = crc(0, image)
                found[obj, index * self.n + p] = (lsn, page_crc)
        return found
