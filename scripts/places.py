#!/usr/bin/env python3
"""Say what lies at the addresses in a text: below each line the functions and source lines that it names.

  scripts/run -c 'trace --print bank 60' | scripts/places.py

A field of an object, (struct node)+8 of PROGRAM, is named, too. An address is PROGRAM+0x4011be, of a program of this tree, or one that `scripts/run --add` added last under that name
and that is still there. scripts/run and scripts/trace2json use this, too.
"""

import functools
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
USER_ADDRESS = re.compile(r"\b([A-Za-z0-9_.-]+)\+0x([0-9a-f]+)\b")
FIELD = re.compile(r"\(([A-Za-z_][\w ]*)\)\+(\d+) of ([A-Za-z0-9_.-]+)")
# in gdb: the member of a type that has the byte at an offset, through structs and arrays
FIELD_PATH = """
import gdb
def path(t, at):
    t = t.strip_typedefs()
    if t.code == gdb.TYPE_CODE_ARRAY and t.target().sizeof:
        return "[%d]" % (at // t.target().sizeof) + path(t.target(), at % t.target().sizeof)
    for f in t.fields() if t.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) else []:
        low = f.bitpos // 8
        if low <= at < low + f.type.sizeof or (f.type.code == gdb.TYPE_CODE_ARRAY and at >= low and not f.type.sizeof):
            return "." + (f.name or "") + path(f.type, at - low)
    return ""
print("field " + path(gdb.lookup_type(KIND), OFFSET))
"""
EVENT = re.compile(r"(: )([A-Z]+) ([0-9a-f]+), ([0-9a-f]+), ([0-9a-f]+)$")     # kernel/look/report.c


def remember(name, path):
    """A program that is not of the tree: program() finds it by its name from now on."""
    os.makedirs(os.path.join(BUILD, "added"), exist_ok=True)
    link = os.path.join(BUILD, "added", os.path.basename(name))
    os.symlink(os.path.abspath(path), f"{link}.{os.getpid()}")
    os.replace(f"{link}.{os.getpid()}", link)


def program(name):
    """The file with the symbols of a program, of the tree or added to it; or None."""
    for folder in ("user", "tests/guest", "added"):
        path = os.path.join(BUILD, folder, name)
        if os.path.isfile(path):
            return path
    return None


def lookup(elf, addresses):
    """{address: "function at file:line" or, without lines, "function", perhaps of several lines} of those that addr2line knows."""
    tool = os.environ.get("CROSS_COMPILE", "") + "addr2line"
    addresses = sorted(set(addresses))
    try:
        result = subprocess.run([tool, "-apfie", elf], text=True, check=False,
                                input="".join(f"{address:#x}\n" for address in addresses),
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return {}
    text = re.sub(r" \(discriminator \d+\)|(?<= )\./| at \?\?:[?0]", "", result.stdout)
    answers = re.split(r"^0x([0-9a-f]+): ", text, flags=re.M)[1:]
    found = {int(at, 16): answer.strip() for at, answer in zip(answers[::2], answers[1::2])}
    return {at: answer for at, answer in found.items() if answer and "??" not in answer}


@functools.cache
def field(elf, kind, offset):
    """The field of a type at that offset, as gdb knows it from a program: "left", "slot[3].n"; "" if it does not."""
    script = f"KIND, OFFSET = {kind!r}, {offset}\n" + FIELD_PATH
    try:
        result = subprocess.run(["gdb", "-nx", "-batch", "-ex", "python exec(" + repr(script) + ")", elf], text=True,
                                check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    found = re.search(r"^field \.(\S+)$", result.stdout, re.M)
    return found[1] if found else ""


@functools.cache
def event_labels():
    """{event: what its c, a and b are}, from the list that the kernel is built with."""
    with open(os.path.join(ROOT, "kernel/include/katydid/trace.h"), encoding="utf-8") as header:
        return {name: labels for name, *labels in
                re.findall(r'X\((\w+), *"([^"]*)", *"([^"]*)", *"([^"]*)", *\d\)', header.read())}


def labelled(line):
    """An event of a crash report with what its numbers are; other lines as they are."""
    match = EVENT.search(line)
    if not match:
        return line
    words = [f"{label} 0x{value}" for label, value in
             zip(event_labels().get(match[2], "cab"), match.groups()[2:])
             if label != "-"]
    return f"{line[:match.start()]}: {match[2]} {', '.join(words)}"


def with_fields(line):
    """A line in which (TYPE)+OFFSET of PROGRAM has become TYPE.FIELD of PROGRAM, where that is known."""
    def named(match):
        elf = program(match[3])
        name = field(elf, match[1], int(match[2])) if elf else ""
        return f"{match[1]}.{name} of {match[3]}" if name else match[0]
    return FIELD.sub(named, line)


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1:] == ["--help"] else 2
    for line in sys.stdin:
        print(with_fields(line), end="", flush=True)
        for name, address in USER_ADDRESS.findall(line):
            elf = program(name)
            texts = lookup(elf, [int(address, 16)]) if elf else {}
            for text in texts.values():
                print("\n".join("                    " + part.strip() for part in text.splitlines()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
