#!/usr/bin/env python3
"""Tests of scripts/plots: where it sees lines cross, and that what it draws is well-formed."""

import xml.etree.ElementTree

from tap import load, run_tests

plots = load("plots")

RISING = [(1, 10.0), (4, 160.0)]
LEVEL = [(1, 40.0), (4, 40.0)]


def test_lines_cross_where_they_are_equal():
    (x, y), = plots.crossings(LEVEL, RISING)
    assert abs(x - 2) < 1e-6 and abs(y - 40) < 1e-6


def test_lines_that_do_not_meet_do_not_cross():
    assert plots.crossings(LEVEL, [(1, 41.0), (4, 400.0)]) == []


def test_lines_that_are_nearly_the_same_do_not_cross():
    assert plots.crossings(LEVEL, [(1, 39.9), (4, 40.1)]) == []


def test_every_plot_is_well_formed():
    for name in plots.TITLES:
        text = "\n".join(plots.svg(name, {"level": LEVEL, "rising": RISING}))
        root = xml.etree.ElementTree.fromstring(text)
        circles = [e for e in root if e.tag.endswith("circle")]
        assert len([e for e in circles if e.get("stroke") == "black"]) == 1, name   # where they cross
        assert len([e for e in circles if not e.get("stroke")]) == 4, name          # what was measured


if __name__ == "__main__":
    run_tests(globals())
