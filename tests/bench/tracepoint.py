#!/usr/bin/env python3
"""What a trace point costs that is off: the instructions that look at trace_on, or at trace_keeps,
and pass the point by, the most of all points in build/kernel.elf. Prints a row of `make bench`.

What the compiler put between the look and the jump runs with or without the point.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARES = re.compile(r"\tcmpb\s+\$0x0,.*<trace_(on|keeps)>")
LOADS = re.compile(r"\tmov[a-z]*\s+[^%$].*<trace_(on|keeps)>")         # a test of the register follows
SETS = re.compile(r"\tmov[a-z]*\s+[%$][^,(]+,.*<trace_(on|keeps)>")    # trace.c switches it on and off


def costs(lines):
    """The cost of each point, in the order of their addresses."""
    found = []
    for number, line in enumerate(lines):
        if not re.search(r"<trace_(on|keeps)>", line) or SETS.search(line):
            continue
        if not COMPARES.search(line) and not LOADS.search(line):
            raise ValueError(f"what is this? {line}")
        between = lines[number + 1:number + 20]
        jump = next(n for n, later in enumerate(between) if re.search(r"\tj[a-z]+\s", later))
        if not re.search(r"\tj(e|ne)\s", between[jump]):
            raise ValueError(f"no jump behind {line}")
        found.append(2 + bool(LOADS.search(line)))
    return found


def main():
    tool = os.environ.get("CROSS_COMPILE", "") + "objdump"
    text = subprocess.run([tool, "-d", "--no-show-raw-insn", os.path.join(ROOT, "build/kernel.elf")],
                          check=True, text=True, stdout=subprocess.PIPE).stdout
    found = costs([line for line in text.splitlines() if "\t" in line])
    if not found:
        print("tracepoint.py: no trace points in build/kernel.elf", file=sys.stderr)
        return 1
    print(f"trace point, off: the most of {len(found)} in the kernel\tinstructions\t{max(found)}\t3")
    return 0


if __name__ == "__main__":
    sys.exit(main())
