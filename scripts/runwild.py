"""runwild - wild writes into a guest's memory, where a program of the guest asks for them (scripts/run --wild).

The guest's memory is a file that QEMU shares with us, so a write here is to the guest what the DMA of a broken device is.
What it asks for stands in a page of its own, `struct wild_box` of tests/guest/lib/wild.c: change a word of each page of
memory in which two words have these values."""

import mmap
import os
import struct
import threading
import time

PAGE, PART = 4096, 1 << 20
MAGIC = struct.pack("<QQ", 0x57494c44424f5831 ^ 0x5a5a5a5a5a5a5a5a, 0x6d656d6f72792121 ^ 0x5a5a5a5a5a5a5a5a)
WORDS = "<9Q"       # request, done, i, v, j, w, word, mask, found; behind the magic


def options(args, scratch):
    """Words for QEMU; whoever writes begins to wait."""
    path = os.path.join(scratch, "memory")
    size = args.memory if args.memory[-1:] in "MGmg" else args.memory + "M"
    threading.Thread(target=serve, args=(path,), daemon=True).start()
    return ["-object", f"memory-backend-file,id=wild,size={size},mem-path={path},share=on", "-machine", "memory-backend=wild"]


def pages_with(memory, i, v):
    """Where the pages begin whose word i is v."""
    wanted = struct.pack("<Q", v)
    for start in range(0, len(memory), PART):
        part = memory[start:start + PART]       # mmap.find is slow
        at = part.find(wanted)
        while at >= 0:
            if at % PAGE == 8 * i:
                yield start + at - 8 * i
            at = part.find(wanted, at + 1)


def answer(memory, box):
    request, done, i, v, j, w, word, mask, found = struct.unpack_from(WORDS, memory, box + 16)
    if request == done:
        return
    found = 0
    for page in pages_with(memory, i, v):
        if page != box and struct.unpack_from("<Q", memory, page + 8 * j)[0] == w:
            old, = struct.unpack_from("<Q", memory, page + 8 * word)
            struct.pack_into("<Q", memory, page + 8 * word, old ^ mask)
            found += 1
    struct.pack_into("<Q", memory, box + 16 + 8 * 8, found)
    struct.pack_into("<Q", memory, box + 16 + 8, request)


def serve(path):
    while not os.path.exists(path) or not os.path.getsize(path):
        time.sleep(0.1)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        box = -1
        while True:
            if box < 0 or memory[box:box + 16] != MAGIC:
                box = next((page for page in pages_with(memory, 0, struct.unpack("<Q", MAGIC[:8])[0])
                            if memory[page:page + 16] == MAGIC), -1)
                time.sleep(0.3)
            else:
                answer(memory, box)
                time.sleep(0.001)
