#!/usr/bin/env python3
"""Tables and rows for scripts/bench of what tests/bench/sites-modes.sh has left in a folder: one program by the place of
its functions, and by the mode of coherence.

  sites-modes.py DIR
"""

import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("figures", os.path.join(HERE, "sites-figures.py"))
FIGURES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FIGURES)
NAMES = ("operation-local", "operation-server", "functions-local", "functions-mix", "functions-log-there", "functions-log-here",
         "functions-server")
CHANGED = 4                             # as in tests/sites/modes.c


def calls(path):
    """{name of a window: how often the server was asked in it}"""
    with open(path, encoding="utf-8") as file:
        words = [line.split() for line in file]
    return {w[2]: int(w[3]) for w in words if len(w) == 4 and w[1] == "calls"}


def main(folder):
    here, far = os.path.join(folder, "here"), os.path.join(folder, "far")
    one, two, asked = FIGURES.read(here)["a"], FIGURES.read(far)["b"], calls(here)
    rows = [("a transaction", "calls", "one machine", "messages", "site", "home")]
    for name in NAMES:
        w, v = one[name], two[name]
        rows.append((name, asked[name] / w.count, w.each(w.instructions), f"{v.each(v.messages() + v.said['ASK'] * 2):.1f}",
                     v.each(v.here()), v.each(v.home[0] - v.home[1])))
    FIGURES.table(*rows)
    local, shipped = one["operation-local"], one["operation-server"]
    FIGURES.row("an operation at a server of the same machine, of one in its own process", "times",
                shipped.instructions / local.instructions, 1.5, 2)
    FIGURES.row("the same by functions, all at the server", "times", one["functions-server"].instructions / local.instructions, "-", 2)
    far_op = two["operation-server"]
    FIGURES.row("an operation at the home: messages", "messages", far_op.each(far_op.messages() + far_op.said["ASK"] * 2), 2, 2)
    idle = two["nothing-seen"]
    for mode in ("ownership", "updates"):
        w = two[f"{mode}-seen"]
        pages = w.count * CHANGED
        # a GONE with a GET in it is one message
        told = sum(w.said[k] - idle.said[k] for k in ("GET", "GRANT", "CALL", "GONE"))
        reach = {"ownership": "-", "updates": 3.1}[mode]
        FIGURES.row(f"a page that the home changes and a site reads, by {mode}: messages", "messages", told / pages, reach, 2)
        FIGURES.row(f"the same: round trips that the reader waits for, by {mode}", "round trips",
                    (w.said["GET"] - idle.said["GET"]) / pages, "-" if mode == "ownership" else 0.05, 2)
        FIGURES.row(f"the same, here, beside link, by {mode}", "instructions", (w.here() - idle.here()) / pages)


main(sys.argv[1])
