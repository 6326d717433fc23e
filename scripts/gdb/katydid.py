"""katydid.py - gdb commands for a stopped Katydid: source it after `file build/kernel.elf`.

  kd-process [PID|NAME]    processes; one: its threads, containers, views
  kd-view [NUMBER]         views; one: its transaction, copies, waits
  kd-object [NAME|ADDRESS] memory objects; one: its users, and each page that is more than clean
  kd-page ADDRESS          the life of a page: frame, versions, rights, waiters
  kd-waits                 who waits for whom
  kd-log [LINES]           the tail of the kernel's log and of the store's log
  kd-program NAME          symbols of a program; with `main` behind it: stops there
"""

import os
import re
import subprocess
import sys

import gdb

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.dirname(HERE))
import places                                                             # noqa: E402
import kernel as k                                                        # noqa: E402


class Command(gdb.Command):
    """One command: a function of its words. Its help is the function's."""

    def __init__(self, function):
        self.function, self.__doc__ = function, function.__doc__
        super().__init__("kd-" + function.__name__, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        words = gdb.string_to_argv(argument)
        try:
            self.function(*words)
        except TypeError as error:
            if "positional argument" not in str(error):
                raise
            raise gdb.GdbError("usage: " + self.__doc__.splitlines()[0]) from error


# --- processes -----------------------------------------------------------------------------------

@Command
def process(which=None):
    """kd-process [PID|NAME]: lists processes, as `ps` does; or one with its threads and containers."""
    found = [p for p in k.processes() if which in (None, str(int(p["pid"])), k.text(p["name"]))]
    if not found:
        raise gdb.GdbError(f"no process {which}")
    print("  pid parent threads handles views     KiB name")
    for p in found:
        handles, views, memory = (int(p["limits"]["used"][k.value(f"KD_LIMIT_{kind}")])
                                  for kind in ("HANDLES", "VIEWS", "MEMORY"))
        print(f"{int(p['pid']):5} {int(p['parent']):6} {int(p['thread_count']):7} "
              f"{handles:7} {views:5} {(int(p['frames']) + memory) * 4:7} "
              f"{k.text(p['name'])}{' (ended)' if p['ended'] else ''}")
        if which is not None:
            print_process(p)


def print_process(p):
    for t in k.threads(p):
        where = f"CPU {int(t['cpu'])}, {k.THREAD_STATES[int(t['state'])]}"
        frame = t["user_frame"]
        where += f", user rip {int(frame['rip']):#x}" if int(frame) else ""
        where += f", in view {int(t['view']['id'])}" if int(t["view"]) else ""
        print(f"  thread {int(t['id'])}: {where}")
    for i in range(int(p["attachment_count"])):
        a = p["attachments"][i]
        print(f"  container {k.text(a['object']['name'])} at {int(a['object']['base']):#x}")
    for v in k.views():
        if int(v["process"]) == int(p.address):
            print(f"  {k.view_name(v['id'])}")


# --- views and waits -----------------------------------------------------------------------------

def transaction(v):
    """What a line about a view says of its transaction."""
    if int(v["state"]) not in (k.VIEW_ACTIVE, k.VIEW_COMMITTING):
        return ""
    parts = [k.MODES[int(v["txn"]["mode"]) & 3], f"ticket {int(v['txn']['ticket'])}"]
    if int(v["copies"]["count"]):
        parts.append(f"{int(v['copies']['count'])} copies")
    if int(v["copies"]["spilled_count"]):
        parts.append(f"{int(v['copies']['spilled_count'])} spilled")
    if int(v["snapshot"]["seen"]["link"]["next"]) != int(v["snapshot"]["seen"]["link"].address):
        parts.append(f"sees publication {int(v['snapshot']['at'])}")
    if int(v["wait"]["page"]):
        parts.append(f"in the queue of {int(v['wait']['at']):#x} to {k.WANTS[int(v['wait']['want'])]}")
    if int(v["wait"]["object"]):
        parts.append(f"in the queue of container {k.text(v['wait']['object']['name'])}")
    if int(v["doom"]):
        parts.append(f"to be aborted: errno {int(v['doom'])}")
    return ", ".join(parts)


@Command
def view(which=None):
    """kd-view [NUMBER]: lists views and their transactions, as `txns` does; or one with its copies."""
    found = [v for v in k.views() if which in (None, str(int(v["id"])))]
    if not found:
        raise gdb.GdbError(f"no view {which} is in use" if which else "no view is in use")
    print("view  state        pid program      transaction")
    for v in found:
        p = v["process"]
        pid, name = (int(p["pid"]), k.text(p["name"])) if int(p) else (0, "?")
        print(f"{int(v['id']):4}  {k.VIEW_STATES[int(v['state'])]:10} {pid:5} {name:12.12} {transaction(v)}")
        if which is not None:
            print_view(v)


def print_view(v):
    for kind in ("resident", "spilled"):
        for c in k.each(v["copies"][kind], "struct copy", "link"):
            frame = f"in frame {k.frame_address(c['frame']):#x}" if int(c["frame"]) else "in the log"
            print(f"  copy of {int(c['at']):#x} {frame}")
    for i in range(int(v["locks"]["count"])):
        print(f"  has locked container {k.text(v['locks']['held'][i]['name'])}")
    for other in k.mask(v["wait"]["holders"]):
        print(f"  waits for {k.view_name(other)}")
    for i in range(min(int(v["owed"]["count"]), len(range(16)))):
        print(f"  gives up {int(v['owed']['at'][i]):#x} at its end")
    if int(v["owner"]):
        print(f"  owner: thread {int(v['owner']['id'])} of {k.process_name(v['process'])}, "
              f"{k.THREAD_STATES[int(v['owner']['state'])]}")


@Command
def waits():
    """kd-waits: the waits-for graph: who waits for whom, and for what; and its cycles."""
    edges = {int(v["id"]): k.mask(v["wait"]["holders"]) for v in k.views()}
    for number, others in edges.items():
        v = k.value(f"views[{number}]")
        wanted = f"page {int(v['wait']['at']):#x} to {k.WANTS[int(v['wait']['want'])]}" if int(v["wait"]["page"]) \
            else f"container {k.text(v['wait']['object']['name'])}" if int(v["wait"]["object"]) \
            else "credits" if v["credits"]["waiting"] else "something else"
        for other in others:
            print(f"{number} -> {other}: {k.view_name(number)} waits for {k.view_name(other)}: {wanted}")
    if not any(edges.values()):
        print("no view waits")
    for number in edges:
        reached, todo = set(), list(edges[number])
        while todo:
            other = todo.pop()
            if other not in reached:
                reached.add(other)
                todo += edges.get(other, [])
        if number in reached:
            print(f"view {number} is in a cycle")


# --- objects and pages ---------------------------------------------------------------------------

def page_counts(one):
    """Pages resident, dirty, being written, and old versions."""
    resident = dirty = written = old = 0
    for leaf in k.leaves(one):
        for slot in range(k.LEAF_PAGES):
            p = leaf["pages"][slot]
            flags = int(p["flags"])
            here = bool(int(p["frame"])) and not flags & 4
            resident += here
            dirty += here and flags & 1
            written += int(p["writer"]) >= 0
            old += sum(1 for _ in k.versions(p))
    return resident, dirty, written, old


@Command
def object(which=None):
    """kd-object [NAME|ADDRESS]: lists memory objects, as `objects` does; or one with its pages."""
    address = int(which, 0) if which and re.fullmatch(r"0x[0-9a-fA-F]+|\d+", which) else None
    found = [o for o in k.objects() if which in (None, k.text(o["name"])) or
             (address is not None and int(o["base"]) == address)]
    if not found and address is not None and (one := k.object_at(address)):
        found = [one]
    if not found:
        raise gdb.GdbError(f"no object {which}" if which else "there are no objects")
    print("address        resident  dirty  held  old users    seq  clust random name")
    for o in found:
        resident, dirty, written, old = page_counts(o)
        users, touches = k.length(o["attachments"]), [int(o["touches"][i]) for i in range(3)]
        print(f"0x{int(o['base']):012x} {resident:8} {dirty:6} {written:5} {old:4} {users:5} "
              f"{touches[0]:6} {touches[1]:6} {touches[2]:6} {object_kind(o)}{k.text(o['name'])}")
        if which is not None:
            print_object(o)


def object_kind(o):
    """What `objects` says before the name of an object that is not an ordinary container."""
    plain = not int(o["flags"]) & k.OBJECT_TRANSACTIONAL
    kinds = (", plain" if plain else "") + (", dead" if o["dead"] else "")
    return kinds and kinds + "  "


def print_object(o):
    print(f"  {int(o['pages'])} pages")
    for a in k.each(o["attachments"], "struct attachment", "object_link"):
        print(f"  used by {k.process_name(a['process'])}")
    for leaf in k.leaves(o):
        for slot in range(k.LEAF_PAGES):
            p = leaf["pages"][slot]
            writer, flags = int(p["writer"]), int(p["flags"])
            if writer >= 0 or flags or int(p["versions"]) or int(p["queue"]):
                number = int(leaf["first"]) + slot
                print(f"  page {number} at {int(o['base']) + number * k.PAGE_BYTES:#x}: {flag_names(flags)}"
                      f"{f', written by view {writer}' if writer >= 0 else ''}")


def flag_names(flags):
    return ", ".join(name for i, name in enumerate(k.PAGE_FLAGS) if flags >> i & 1) or "clean"


@Command
def page(address):
    """kd-page ADDRESS: the life of a page of a container: frame, versions, rights, waiters."""
    where = int(k.value(address)) & (1 << 64) - 1
    o = k.object_at(where)
    if o is None:
        raise gdb.GdbError(f"{where:#x} is in no memory object")
    number = (where - int(o["base"])) // k.PAGE_BYTES
    start = int(o["base"]) + number * k.PAGE_BYTES
    print(f"page {number} of {k.text(o['name'])}, at {start:#x}")
    leaf = k.leaf_of(o, number)
    if leaf is None:
        print("  never touched since the object was made")
        return
    p = leaf["pages"][number % k.LEAF_PAGES]
    print_frame(p)
    print_versions(p)
    print_rights(p, start)
    first = int(p["queue"]) and k.value(f"views[{int(p['queue']) - 1}]")
    for v in [first, *k.each(first["wait"]["link"], "struct view", "wait.link")] if first else []:
        print(f"  waiting: {k.view_name(v['id'])} to {k.WANTS[int(v['wait']['want'])]}")


def print_frame(p):
    flags = int(p["flags"])
    if not int(p["frame"]):
        print(f"  not resident; {flag_names(flags)}")
        return
    frame = p["frame"]
    print(f"  frame {k.frame_address(frame):#x}, {k.FRAME_STATES[int(frame['state'])]}, "
          f"{int(frame['pins'])} pins; {flag_names(flags)}")


def print_versions(p):
    print(f"  current version: number {int(p['csn'])}, publication {int(p['sequence'])}")
    for c in k.versions(p):
        print(f"  old version: for snapshots {int(c['sequence'])} to {int(c['superseded']) - 1}, "
              f"frame {k.frame_address(c['frame']):#x}")


def print_rights(p, start):
    writer = int(p["writer"])
    if writer >= 0:
        print(f"  writer: {k.view_name(writer)}")
    hinted = k.mask(p["mask"])
    for v in k.views():
        entry = k.pte(v, start)
        if entry:
            missing = "" if int(v["id"]) in hinted or v["snapshot_rights"] else "; NOT IN THE PAGE'S MASK"
            print(f"  right: {k.view_name(v['id'])}: {k.right(v, entry)}{missing}")
    without = [v for v in hinted if not k.pte(k.value(f"views[{v}]"), start)]
    if without:
        print(f"  in the mask without an entry: {len(without)} views")


# --- logs ----------------------------------------------------------------------------------------

@Command
def log(lines="10"):
    """kd-log [LINES]: the tail of the kernel's log, and of the store's log as it is on the disk now."""
    ring = k.static("log", "kernel/base/printk.c")
    size, end = ring["ring"].type.sizeof, int(ring["end"])
    data = k.memory(int(ring["ring"].address), size)
    kept = data[end % size:] + data[:end % size] if end > size else data[:end]
    print("kernel:")
    print("\n".join("  " + line for line in kept.decode("utf-8", "replace").splitlines()[-int(lines):]))
    path = store_path()
    print(f"store, {path}:")
    tool = os.path.join(ROOT, "build", "host", "kstore")
    result = subprocess.run([tool, "log", path], capture_output=True, text=True, check=False)
    kept = (result.stdout or result.stderr).splitlines()[-int(lines):]
    print("\n".join("  " + line for line in kept))


def store_path():
    """The image that QEMU has open as the store: its monitor knows."""
    told = gdb.execute("monitor info block", to_string=True)
    block = re.search(r"^store\b.*?(?=^\S|\Z)", told, re.M | re.S)
    names = [re.search(pattern, block[0]) for pattern in
             (r'"filename": "(?!json)([^"]+)"', r"^store[^:]*: (?!json)(.*) \(\w+")] if block else []
    names = [match[1] for match in names if match]
    if not names:
        raise gdb.GdbError("no store disk is attached")
    return names[0]


# --- programs ------------------------------------------------------------------------------------

class StopInMain(gdb.Breakpoint):
    """All programs lie at the same addresses: stops only where the right one runs."""

    def __init__(self, name):
        super().__init__("main")
        self.name = name

    def stop(self):
        thread = k.current()
        return thread is not None and int(thread["process"]) != 0 and \
            k.text(thread["process"]["name"]) == self.name


loaded = []


@Command
def program(name, stop=None):
    """kd-program NAME|FILE [main]: reads a program's symbols, instead of another one's, and with `main`
    stops where the program begins with it. All programs lie at the same addresses."""
    path = name if "/" in name else places.program(name)
    if not path or not os.path.exists(path):
        raise gdb.GdbError(f"{name}: no such program: is it built, or of `scripts/run --add`?")
    while loaded:
        gdb.execute(f"remove-symbol-file {loaded.pop()}", to_string=True)
    gdb.execute(f"add-symbol-file {path}", to_string=True)
    loaded.append(path)
    if stop == "main":
        StopInMain(os.path.basename(path))
