#!/usr/bin/env python3
"""rooms.py - kernel/ is a house of rooms, one folder each: includes and calls run downwards only.

  scripts/rooms.py            prints each include and each call that runs upwards, and what is wrong with
                              headers; status 1 if there is anything
  scripts/rooms.py --lines    prints the lines of each room
  scripts/rooms.py --knots    prints the largest knot: source files that all call each other

A room may use those before it in ORDER; what must go up nevertheless goes by the tables of kernel/seams.c. arch/ stands
below all of them, and kernel/arch.h is its interface: what that header declares for arch/ to call (traps, the timer, the
first C function) is its one way up, but for page frames, and the threads whose registers it saves. Static functions of one
name in two files are told apart.

Headers are small and speak for their own room: one of kernel/ has at most HEADER_LINES lines, a structure (of disk/,
libpstore/ and user/, too) at most MEMBERS members, and a function is declared once, in a header of the room that defines it, if another file uses it.
A room has one header for the others: that of its name, store/store.h; all others are for its own files only. PUBLIC has
the rooms of which that is not so, and why.
"""

import collections
import os
import re
import subprocess
import sys

ORDER = "include arch base memory thread virtio block file process message store block_io stream linux look top".split()
BESIDE_ARCH = {"base", "memory", "thread"}     # tables and stacks are frames, and a thread has registers
HEADER_LINES, MEMBERS = 150, 40
PUBLIC = {
    "include": None,    # what programs see
    "base": None,       # a library, not a room: lists, locks, the log, the boot loader's word, each in a header of its own
    # The interface, and with it what another machine would have, too, under the same names: the parts of it that are
    # inline, PCI, the serial port, how a panic stops other CPUs
    "arch": {"arch.h", "cpu_words.h", "interrupt.h", "pci.h", "serial.h", "switch.h", "words.h"},
    "memory": {"frame.h"},              # its only one
    # Five ideas, of which most users want one or two: together they have 430 lines. Limits come with process.h
    "process": {"process.h", "handle.h", "vm.h", "descriptor.h", "process_make.h"},
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sources(*folders):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders], stdout=subprocess.PIPE,
                            text=True, check=True).stdout.split()
    return sorted(name for name in listed if name.endswith((".c", ".h")) and os.path.exists(name))


def room(path):
    if path.startswith("kernel/include/"):
        return "include"
    if path.startswith("arch/") or path == "kernel/arch.h":
        return "arch"
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else "top"


def above(here, there):
    return ORDER.index(there) > ORDER.index(here) and not (here == "arch" and there in BESIDE_ARCH)


def read(files):
    """{file: its lines}, with comments and strings blanked out."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    code = {}
    for name in files:
        with open(name, encoding="utf-8") as source:
            code[name] = re.sub(r'/\*.*?\*/|"(\\.|[^"\\\n])*"', blank, source.read(), flags=re.S).split("\n")
    return code


def functions(files, code):
    """[(file, name, first line, last line)], {name: its file if it is public}, {file: all its names}"""
    tags = subprocess.run(["ctags", "--c-kinds=f", "--fields=+ne", "-x", "--_xformat=%{input}\t%{name}\t%{line}\t%{end}",
                           *files], stdout=subprocess.PIPE, text=True, check=True).stdout
    spans, public, names = [], {}, collections.defaultdict(set)
    for line in tags.splitlines():
        name, function, first, last = line.split("\t")
        if not last:
            continue
        first, last = int(first), int(last)
        spans.append((name, function, first, last))
        names[name].add(function)
        head = " ".join(code[name][max(0, first - 2):first])
        if not (name.endswith(".c") and re.search(r"\bstatic\b|\bHOT\b", head)):
            public.setdefault(function, name)
    return spans, public, names


def calls(spans, public, names, code):
    """(file, function, callee, the callee's file) of each call of a function that another file has."""
    for name, function, first, last in spans:
        for match in re.finditer(r"(?<![.>])\b([a-z_][a-z0-9_]*)\s*\(", "\n".join(code[name][first - 1:last])):
            callee = match.group(1)
            if callee not in names[name] and callee in public:
                yield name, function, callee, public[callee]


def contract():
    """What arch/ may call above it: the functions that kernel/arch.h declares as the upward ones."""
    with open("kernel/arch.h", encoding="utf-8") as header:
        upward = header.read().split("the upward calls", 1)[-1]
    return set(re.findall(r"\b([a-z_][a-z0-9_]*)\s*\(", upward))


def knot(arrows):
    """The largest strongly connected set of files (a header counts as its source)."""
    index, low, stack, found, best = {}, {}, [], [0], [set()]

    def visit(node):
        index[node] = low[node] = found[0]
        found[0] += 1
        stack.append(node)
        for other in arrows.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = set()
            while True:
                member = stack.pop()
                group.add(member)
                if member == node:
                    break
            if len(group) > len(best[0]):
                best[0] = group

    for node in list(arrows):
        if node not in index:
            visit(node)
    return best[0]


def by_include(files):
    """{what stands in an include: the file that it is}"""
    found = {}
    for name in files:
        for prefix in ("kernel/include/", "kernel/", "arch/x86_64/", ""):
            if name.startswith(prefix):
                found.setdefault(name[len(prefix):], name)
    return found


def private(header):
    """Is it for the files of its own room only?"""
    public = PUBLIC.get(room(header), {room(header) + ".h"})
    return public is not None and os.path.basename(header) not in public


def bad_includes(files, headers):
    for name in files:
        with open(name, encoding="utf-8") as source:
            for number, line in enumerate(source, 1):
                match = re.match(r'\s*#\s*include ["<]([^">]+)', line)
                beside = match and os.path.normpath(os.path.join(os.path.dirname(name), match.group(1)))
                there = match and (headers.get(match.group(1)) or headers.get(beside))
                if there and above(room(name), room(there)):
                    yield f"{name}:{number}: includes {there}, which lies above {room(name)}"
                if there and room(name) != room(there) and private(there):
                    yield f"{name}:{number}: includes {there}, which is for {room(there)} alone"


def declarations(header, code):
    """The names of functions that the header declares: what stands outside of braces and macros, before a (."""
    flat = re.sub(r"^\s*#(.*\\\n)*.*", "", "\n".join(code[header]), flags=re.M)
    before = None
    while before != flat:
        before, flat = flat, re.sub(r"\{[^{}]*\}", ";", flat)
    return set(re.findall(r"[\w*]\s+\**([a-z_][a-z0-9_]*)\s*\((?!\*)", flat))


def used(function, defined, header, words):
    return any(function in there for name, there in words.items() if name not in (defined, header)) or words[header][function] > 1


def bad_headers(files, code, public, allowed):
    declared = {}
    words = {name: collections.Counter(re.findall(r"\w+", "\n".join(lines))) for name, lines in code.items()}
    for name in files:
        if not name.endswith(".h") or room(name) == "include":
            continue
        if room(name) != "arch" and len(code[name]) - 1 > HEADER_LINES:
            yield f"{name}: {len(code[name]) - 1} lines"
        for function in declarations(name, code):
            if function not in public:
                continue
            defined = public[function]
            if function in declared:
                yield f"{name}: {function} is declared in {declared[function]}, too"
            elif defined != name and room(defined) != room(name) and function not in allowed:
                yield f"{name}: {function} is defined in {defined}"
            elif room(name) != "arch" and defined.endswith(".c") and not used(function, defined, name, words):
                yield f"{name}: {function} is used in {defined} only"
            declared[function] = name


def bad_structures(files):
    tags = subprocess.run(["ctags", "--c-kinds=m", "-x", "--_xformat=%{input}\t%{scope}\t%{name}", *files], stdout=subprocess.PIPE,
                          text=True, check=True).stdout
    for (name, structure), members in collections.Counter(tuple(line.split("\t")[:2]) for line in tags.splitlines()).items():
        if members > MEMBERS:
            yield f"{name}: struct {structure} has {members} members"


def main(words):
    if words and words[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    if words not in ([], ["--lines"], ["--knots"]):
        print("usage: scripts/rooms.py [--lines | --knots]", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    files = sources("kernel", "arch")
    code = read(files)
    if words == ["--lines"]:
        lines = collections.Counter()
        for name in files:
            lines[room(name)] += len(code[name]) - 1
        for name in ORDER:
            print(f"{lines[name]:6} {name}")
        return 0
    spans, public, names = functions(files, code)
    allowed, arrows, bad = contract(), collections.defaultdict(set), []
    for name, function, callee, there in calls(spans, public, names, code):
        if callee in allowed:
            continue
        arrows[name.rsplit(".", 1)[0]].add(there.rsplit(".", 1)[0])
        if above(room(name), room(there)):
            bad.append(f"{name}: {function} calls {callee} of {there}")
    if words == ["--knots"]:
        largest = knot(arrows)
        rooms = collections.Counter(room(unit + ".c") for unit in largest)
        print(f"largest knot: {len(largest)} units:", ", ".join(f"{r} {rooms[r]}" for r in ORDER if rooms[r]))
        return 0
    bad += bad_includes(files, by_include(files))
    bad += bad_headers(files, code, public, allowed)
    bad += bad_structures(files + sources("disk", "libpstore", "user"))
    print("\n".join(sorted(bad)) if bad else "no include and no call runs upwards; headers speak for their rooms")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
