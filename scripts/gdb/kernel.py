"""kernel.py - reads the stopped kernel's structures: for the commands in katydid.py.

Nothing is called in the guest, and no lock is taken: a list may be seen in the middle of a change. What
cannot be read ends the command with an error of gdb's, never with a wrong answer made up.
"""

import struct

import gdb

DIRECT_BASE = 0xffff800000000000        # arch_types.h: all RAM is mapped there
PAGE_BYTES, LEAF_PAGES, LEAF_TABLE = 4096, 64, 512
OBJECT_TRANSACTIONAL = 1
PRESENT, ACCESSED, USED, COPY, HELD = 1, 1 << 5, 1 << 9, 1 << 10, 1 << 11    # right.h
FRAME = 0x000ffffffffff000
VIEW_FREE, VIEW_IDLE, VIEW_ACTIVE, VIEW_COMMITTING, VIEW_PLAIN = range(5)
VIEW_STATES = ["free", "idle", "active", "committing", "plain"]
MODES = ["serialisable", "snapshot", "dirty read", "container lock"]
WANTS = ["read", "write", "read for write"]
PAGE_FLAGS = ["dirty", "asked for", "being filled", "being cleaned", "pinned", "no write",
              "mapped for writing", "away"]
THREAD_STATES = ["ready", "running", "parked", "dead"]
FRAME_STATES = ["reserved", "free", "used", "dying", "used"]                     # enum frame_state; the last: listed


def value(text):
    return gdb.parse_and_eval(text)


def static(name, source):
    """A static variable of one source file."""
    return value(f"'{source}'::{name}")


def memory(address, count):
    return bytes(gdb.selected_inferior().read_memory(address, count))


def words(address, count):
    return struct.unpack(f"<{count}Q", memory(address, 8 * count))


def text(array):
    """What a char array holds up to its NUL; any process may have put bytes there."""
    return array.string("utf-8", "replace")


def at(type_name, address):
    return gdb.Value(int(address)).cast(gdb.lookup_type(type_name).pointer()).dereference()


def each(head, type_name, member):
    """The elements of a struct list, by the member that links them: "link", or "part.link"."""
    kind, offset = gdb.lookup_type(type_name), 0
    for name in member.split("."):
        field = kind[name]
        kind, offset = field.type, offset + field.bitpos // 8
    link = head["next"]
    while int(link) != int(head.address):
        yield at(type_name, int(link) - offset)
        link = link["next"]


def length(head):
    count, link = 0, head["next"]
    while int(link) != int(head.address):
        count, link = count + 1, link["next"]
    return count


def mask(vmask):
    """The views in a struct vmask."""
    bits = int(vmask["word"][0]) | int(vmask["word"][1]) << 64
    return [v for v in range(128) if bits >> v & 1]


# --- processes and threads -----------------------------------------------------------------------

def processes():
    return each(static("process_table", "kernel/process/process.c")["all"], "struct process", "link")


def threads(process):
    return each(process["threads"], "struct thread", "process_link")


def current():
    """The thread that runs on the CPU that gdb has selected; None: the kernel has not got there."""
    cpu = gdb.selected_thread().num - 1
    thread = value(f"cpus[{cpu}].current")
    return thread.dereference() if int(thread) else None


def process_name(process):
    """NAME[PID] of a struct process pointer."""
    return f"{text(process['name'])}[{int(process['pid'])}]" if int(process) else "kernel"


# --- views ---------------------------------------------------------------------------------------

def views():
    """Those in use."""
    for number in range(128):
        view = value(f"views[{number}]")
        if int(view["state"]) != VIEW_FREE:
            yield view


def view_name(number):
    view = value(f"views[{int(number)}]")
    state = VIEW_STATES[int(view["state"])]
    return f"view {int(number)} ({process_name(view['process'])}, {state})"


def pte(view, address):
    """The view's page table entry for an address; 0: EMPTY."""
    table = int(view["table"])
    for shift in (39, 30, 21, 12):
        if not table:
            return 0
        entry, = words(DIRECT_BASE + table + (address >> shift & 511) * 8, 1)
        if shift == 12:
            return entry
        table = entry & FRAME if entry & PRESENT else 0
    return 0


def right(view, entry):
    """What an entry means (right.h): the view's right, used or not."""
    if not entry:
        return "EMPTY"
    if not entry & PRESENT:
        return "SPILLED" if entry & COPY else "HELD" if entry & HELD else f"entry {entry:#x}"
    kind = "COPY" if entry & COPY else "SNAPSHOT" if view["snapshot_rights"] else "SHARED"
    used = "used" if entry & (ACCESSED | USED) else "not used"
    return f"{kind}, frame {entry & FRAME:#x}, {used}"


# --- objects and pages ---------------------------------------------------------------------------

def objects():
    """All, by address."""
    above, at = [], static("tree", "kernel/store/overlap.c")
    while above or int(at):
        while int(at):
            above.append(at)
            at = at["place"]["left"]
        at = above.pop()
        yield at
        at = at["place"]["right"]


def object_at(address):
    for one in objects():
        base = int(one["base"])
        if base <= address < base + int(one["pages"]) * PAGE_BYTES:
            return one
    return None


def leaf_of(one, page):
    """The leaf of an object's page, or None."""
    table = int(one["tables"][page // LEAF_PAGES // LEAF_TABLE])
    leaf = table and words(table + 8 * (page // LEAF_PAGES % LEAF_TABLE), 1)[0]
    return at("struct leaf", leaf) if leaf else None


def leaves(one):
    for number in range(int(one["table_count"])):
        table = int(one["tables"][number])
        for leaf in words(table, LEAF_TABLE) if table else ():
            if leaf:
                yield at("struct leaf", leaf)


def versions(page):
    copy = page["versions"]
    while int(copy):
        yield copy.dereference()
        copy = copy["next"]


def frame_address(frame):
    """The physical address of a struct frame pointer."""
    size = gdb.lookup_type("struct frame").sizeof
    return (int(frame) - int(value("frame_all"))) // size * PAGE_BYTES
