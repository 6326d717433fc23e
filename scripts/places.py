#!/usr/bin/env python3
"""Say what lies at the addresses in a text: below each line the functions and source lines that it names.

  scripts/run -c 'trace --print bank 60' | scripts/places.py

An address is PROGRAM+0x4011be, of a program of this tree, or one that `scripts/run --add` added last under that name
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


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1:] == ["--help"] else 2
    for line in sys.stdin:
        print(line, end="", flush=True)
        for name, address in USER_ADDRESS.findall(line):
            elf = program(name)
            texts = lookup(elf, [int(address, 16)]) if elf else {}
            for text in texts.values():
                print("\n".join("                    " + part.strip() for part in text.splitlines()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
