#!/usr/bin/env python3
"""Tests of tests/system/documents.py: which commands it finds, and which outputs it accepts; and of what papers*.md name."""

import glob
import os
import re

from tap import ROOT, load, run_tests

documents = load("../tests/system/documents.py")


def test_only_console_blocks_are_sessions():
    text = "    $ indented\n```\n$ plain\n```\n```console\n$ one\nout\n$ two \\\n  more\n```\n$ text\n"
    assert documents.sessions(text) == [[6, "one", ["out"]], [8, "two \\\n  more", []]]


def test_output_is_compared_as_a_whole():
    assert documents.matches(["a", "b"], "a\nb\n")
    assert not documents.matches(["a"], "a\nb\n")
    assert not documents.matches(["a.c"], "abc\n")


def test_dots_stand_for_any_text_or_lines():
    assert documents.matches(["took ... s"], "took 0.3 s\n")
    assert not documents.matches(["took ... s"], "took 0.3\ns\n")
    assert documents.matches(["a", "...", "z"], "a\nb\nc\nz\n")


def test_no_expectation_accepts_all():
    assert documents.matches([], "anything")
    assert documents.matches([""], "anything")


def test_a_document_can_say_that_nothing_is_printed():
    assert documents.matches(["(nothing)"], "")
    assert not documents.matches(["(nothing)"], "warning: ...\n")
    assert not documents.matches(["(nothing)", "more"], "")


def test_ports_become_free_ones():
    text = documents.with_free_ports("--gdb 4711 a 14711 4711b\n:4711 GDB_PORT=4712 4712")
    ports = text.split()[1], text.split()[-1]
    assert "a 14711 4711b\n:" + ports[0] in text and "4712" not in text and ports[0] != ports[1]


def test_other_numbers_are_no_ports():
    text = "find(4711)->name\nn4711\n"
    assert documents.with_free_ports(text) == text


def test_what_is_typed_after_make_run():
    text = "Text.\n\n    make run\n\nbuilds. Type\n\n    todo add x\n    halt\n\nand\n\n    more\n"
    assert documents.typed_lines(text) == ["todo add x", "halt"]


def text(path):
    with open(path, encoding="utf-8", errors="replace") as source:
        return source.read()


def test_the_tests_that_the_papers_pages_name_are_there():
    """Files, and results in quotation marks, of the last column; printed rows may be those of the figures of sites."""
    sources = {path: text(path) for path in glob.glob(os.path.join(ROOT, "tests/**/*"), recursive=True) if os.path.isfile(path)}
    built = [re.sub(r"/\w+/(\w+)\.c$", r"/\1", path) for path in sources]     # a folder's program lies beside the others
    names, missing = " ".join([*sources, *built]), []
    everything = "\n".join([*sources.values(), text(os.path.join(ROOT, "user/sites/figures.md"))])
    rows = [line for page in ("papers", "papers-sites") for line in text(os.path.join(ROOT, f"libpstore/{page}.md")).splitlines()]
    for row in [line for line in rows if line.startswith("| ")]:
        shown = row.rstrip(" |").split("|")[-1]
        files = re.findall(r"\b(?:test|pstore|kernel|store|manager|fire|subject)_\w+(?:\.\w+)?", shown)
        files += [path for path in re.findall(r"\btests/[\w/.-]+\w", shown) if not path.endswith("fire_")]
        missing += [name for name in files if name not in names]
        missing += [quote for quote in re.findall(r'"([^"]+?)(?: \.\.\.)?"', shown) if quote not in everything]
    assert len(names) > 1000 and not missing, missing


if __name__ == "__main__":
    run_tests(globals())
