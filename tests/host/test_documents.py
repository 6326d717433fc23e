#!/usr/bin/env python3
"""Tests of tests/system/documents.py: which commands it finds, and which outputs it accepts."""

from tap import load, run_tests

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


if __name__ == "__main__":
    run_tests(globals())
