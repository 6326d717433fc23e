#!/usr/bin/env python3
"""The table in tests/model/model.md against the model's rules, the kernel's bugs and what finds them; and the tests that
bugs of disk/ and libpstore/ name."""

import glob
import os
import re
import subprocess
import sys

import tap

RUNNER = os.path.join(tap.ROOT, "tests/system/kernel-bugs.py")


def text(name):
    with open(os.path.join(tap.ROOT, name), encoding="utf-8") as source:
        return source.read()


RULES = [rule for rule in re.findall(r"X\((\w+),", text("tests/model/rules.h")) if rule != "name"]
BUGS = {os.path.basename(path)[:-6]: re.search(r"^Rule: (\S+)$", text(path), re.M)[1]
        for path in glob.glob(os.path.join(tap.ROOT, "tests/bugs/kernel/*.patch"))}
ROWS = re.findall(r"^\| ((?:TEXT|BUG)_\w+) \| (\S+) \| (.+) \|$", text("tests/model/model.md"), re.M)


def test_the_table_has_each_rule_once():
    assert sorted(row[0] for row in ROWS) == sorted(RULES), set(RULES) ^ {row[0] for row in ROWS}


def test_each_bug_of_the_kernel_names_a_rule_or_none():
    assert all(rule == "-" or rule in RULES for rule in BUGS.values())


def test_each_row_has_the_kernels_bug_and_what_finds_it():
    of_rule = {rule: bug for bug, rule in BUGS.items()}
    module = tap.load("../tests/system/kernel-bugs.py")
    for rule, bug, note in ROWS:
        assert bug == of_rule.get(rule, "-"), f"{rule}: {bug}"
        assert bug == "-" or note == module.test_of(bug), f"{rule}: {note} does not find {bug}"


def test_bugs_without_a_rule_are_explained():
    rest = text("tests/model/model.md").split("Some bugs have no rule", 1)[1]
    assert all(bug in rest for bug, rule in BUGS.items() if rule == "-")


def test_the_chapter_of_sites_has_the_rules_and_scenarios_of_its_models():
    chapter = text("tests/model/sites.md")
    labels = set(re.findall(r"^- \*\*(N[MSRCVDHU]\d+)\*\* ", chapter, re.M)) | {"planted"}
    models = [("sites", "tests/model/site_state.h", "tests/model/site_scenarios.h"),
              ("spare", "tests/model/spare_state.h", "tests/model/spare_scenarios.h")]
    for model, rules, scenarios in models:
        found = re.findall(r"^    X\((\w+), \"(\w+): ", text(rules), re.M)
        count = len(re.findall(r"^    \{\"\w+\", \"", text(scenarios), re.M))
        assert found and not {label for _, label in found} - labels, (model, found)
        assert f"model-{model} check       {count} scenarios" in chapter, (model, count)
        assert f"model-{model} teeth       its {len(found)} rules" in chapter, (model, len(found))


def test_the_runner_names_no_bug_that_does_not_exist():
    module = tap.load("../tests/system/kernel-bugs.py")
    assert {*module.SURVIVED, *(bug for *some, _ in module.SOME for bug in some)} <= set(BUGS)


def test_the_runner_refuses_a_bug_that_does_not_exist():
    for tier in ["test", "long"]:
        run = subprocess.run([sys.executable, RUNNER, "NO_INVLPG", "NO_SUCH_BUG"], stdin=subprocess.DEVNULL, timeout=60,
                             env={**os.environ, "TEST_TIER": tier}, capture_output=True, text=True, check=False)
        assert run.returncode == 2 and not run.stdout and "NO_SUCH_BUG" in run.stderr, (tier, run)


def test_the_tests_that_bugs_of_libraries_and_programs_name_are_there():
    missing = []
    for path in sorted(path for kind in ["disk", "libpstore", "user"]
                       for path in glob.glob(os.path.join(tap.ROOT, f"tests/bugs/{kind}/*.patch"))):
        name = os.path.basename(path)
        for test in re.search(r"^Test: (.+)$", text(path), re.M)[1].split(";"):
            program, *words = test.split()
            places = [f"tests/{program.replace('/', '/*/', 1)}{end}" for end in [".c", "/*.c"]] if "/" in program else \
                [f"tests/disk/*/{program}.c", f"tests/host/{program}.c"]
            sources = [text(source) for place in places for source in glob.glob(os.path.join(tap.ROOT, place))]
            missing += [f"{name}: {program}"] if "/" in program and not sources else []
            missing += [f"{name}: {word}" for word in words
                        if program != "lives" and "=" not in word and "*" not in word and word not in "".join(sources)]
        programs = re.search(r"^With: (.+)$", text(path), re.M)
        missing += [f"{name}: {program}" for program in (programs[1].split() if programs else [])
                    if not glob.glob(os.path.join(tap.ROOT, program + ".c")) + glob.glob(os.path.join(tap.ROOT, program)) +
                    glob.glob(os.path.join(tap.ROOT, program.replace("/", "/*/", 1) + "*"))]
    assert not missing, missing


tap.run_tests(globals())
