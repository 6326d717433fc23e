#!/usr/bin/env python3
"""Tests of scripts/test: what counts as passed, and what as failed."""

import argparse
import contextlib
import io
import os
import tempfile

from tap import load, run_tests

runner = load("test")


def counts(status, text):
    passed, failures = runner.judge(status, text)
    return passed, len(failures)


def test_plain_tap_is_counted():
    assert counts(0, "1..2\nok 1 - a\nok 2 - b\n") == (2, 0)
    assert counts(1, "1..2\nok 1 - a\nnot ok 2 - b\n") == (1, 1)


def test_plan_may_come_last_and_in_parts():
    assert counts(0, "ok 1\nok 2\n1..2\n") == (2, 0)
    assert counts(0, "1..1\nok 1\n1..1\nok 1\n") == (2, 0)


def test_silence_fails():
    assert counts(0, "") == (0, 1)
    assert counts(0, "1..0\n") == (0, 1)


def test_missing_plan_fails():
    assert counts(0, "ok 1 - a\n") == (1, 1)


def test_missing_and_surplus_results_fail():
    assert counts(0, "1..3\nok 1\nok 2\n") == (2, 1)
    assert counts(0, "1..1\nok 1\nok 2\n") == (2, 1)


def test_status_fails_even_if_all_is_ok():
    assert counts(122, "1..1\nok 1 - a\n") == (1, 1)
    assert counts("timeout after 9 s", "1..1\nok 1 - a\n") == (1, 1)


def test_bail_out_fails():
    assert counts(0, "1..1\nok 1\nBail out! no disk\n") == (1, 1)


def test_failure_keeps_its_remarks():
    _, failures = runner.judge(1, "1..1\nnot ok 1 - a\n# seed 41\n# step 17\n")
    assert failures == [["not ok 1 - a", "# seed 41", "# step 17"]]


def test_a_panic_is_shown_however_long_its_report_is():
    report = "PANIC: rank of a lock\ncpu 1 of 4\n" + "  a line of the report\n" * 200 + "scripts/run: the kernel panicked\n"
    _, failures = runner.judge(122, "1..2\nok 1 - a\n" + report)
    assert failures[0][1:3] == ["PANIC: rank of a lock", "cpu 1 of 4"] and len(failures[0]) < 40, failures
    assert failures[0][-1] == "scripts/run: the kernel panicked", failures


def test_what_failed_is_kept_when_it_runs_again():
    os.environ["TEST_TIER"] = "test"
    os.makedirs(runner.LOGS, exist_ok=True)
    kept = []
    for text in ("one", "two"):
        _, _, failures, _, _ = runner.run_counted(("runner-kept", ["sh", "-c", f"echo 1..1; echo not ok 1 - {text}; exit 1"]), 2, {})
        kept.append(os.path.join(runner.ROOT, failures[-1][-1].split("kept: ")[1]))
    for text, path in zip(("one", "two"), kept):
        with open(path, encoding="utf-8") as log:
            assert f"not ok 1 - {text}" in log.read(), path
        os.remove(path)


def test_a_program_does_not_see_the_pattern_of_make():
    os.environ["TEST_TIER"] = "test"
    os.environ["ONLY"] = "test_runner"
    try:
        _, text, _ = runner.run_item("runner-only", ["sh", "-c", "echo ${ONLY-none}"], 2)
    finally:
        del os.environ["ONLY"]
    assert text.strip() == "none", text


def test_words_that_only_look_like_results_do_not_count():
    assert counts(0, "1..1\nok 1\nokay\nnot okay\n  ok 7\n") == (1, 0)


def test_a_part_gives_its_cpus_to_each_item_and_closes_with_its_counts():
    os.environ["TEST_TIER"] = "test"
    item = ("runner-cpus", ["sh", "-c", 'echo 1..2; echo "ok 1"; [ "$CPUS" = 4 ] && echo "ok 2" || echo "not ok 2"'])
    os.makedirs(runner.LOGS, exist_ok=True)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        four, two = runner.run_part("a part", [item], 1, 4), runner.run_part("another", [item], 1)
    assert (four[:2], two[:2]) == ((2, []), (1, ["runner-cpus: not ok 2"])), (four, two)
    assert list(four[2]) == ["runner-cpus"], four
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("[1/1] runner-cpus: 2 passed, 0 failed"), lines
    assert lines[1].startswith("a part: 1 programs, 2 passed, 0 failed"), lines
    assert "    again: scripts/test --only runner-cpus" in lines, lines


def test_the_last_lines_name_what_failed():
    two = ["one: not ok 1 - a", "other: not ok - b"]
    assert runner.what_failed(two) == ["what failed:", *two]
    many = runner.what_failed([f"it: not ok {n}" for n in range(100)])
    assert len(many) == runner.SAID + 2 and many[-1] == f"and {100 - runner.SAID} more, above", many


def test_an_item_that_waits_runs_beside_the_others():
    assert runner.waits("tests/system/sites-lost") and runner.waits("tests/system/engine")
    assert runner.waits("tests/guest/pstore/fire_cells") and runner.waits("tests/disk/copies/test_copy") and not runner.waits("tests/guest/pstore/pstore_txn")
    before, runner.waits = runner.waits, lambda name: name == "runner-waits"
    with tempfile.TemporaryDirectory() as folder:
        names = ["waits", "one", "two"]         # each waits for both others
        script = " && ".join(f"[ -e {folder}/{name} ]" for name in names)
        items = [(f"runner-{name}", ["sh", "-c", f"touch {folder}/{name}; for i in $(seq 4000); do {script} && break; sleep 0.05; done; "
                                     f"{script} && echo ok 1; echo 1..1"]) for name in names]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                passed, failed, _ = runner.run_part("a part", items, 2)
        finally:
            runner.waits = before
    assert (passed, failed) == (3, []), (passed, failed)


def test_what_waits_runs_several_at_a_time_when_all_others_have_ended():
    before, runner.waits = runner.waits, lambda name: name != "runner-other"
    with tempfile.TemporaryDirectory() as folder:
        meet = f"for i in $(seq 4000); do [ $(ls {folder} | wc -l) = 3 ] && echo ok 1 && break; sleep 0.05; done; echo 1..1"
        items = [(f"runner-{n}", ["sh", "-c", f"touch {folder}/{n}; {meet}"]) for n in range(3)]
        items.append(("runner-other", ["sh", "-c", f"[ $(ls {folder} | wc -l) -le 2 ] && echo ok 1; echo 1..1"]))
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                passed, failed, took = runner.run_part("a part", items, 2)
        finally:
            runner.waits = before
    assert (passed, failed, len(took)) == (4, [], 4), (passed, failed, took)


def counted(script, table, slack="2"):
    """One item under these budgets: (passed, failures, CPU seconds)."""
    os.environ["TEST_TIER"] = "test"
    os.makedirs(runner.LOGS, exist_ok=True)
    before = runner.BUDGETS, runner.SLACK
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as budgets:
        budgets.write(table)
        budgets.flush()
        runner.BUDGETS, runner.SLACK = budgets.name, float(slack)
        try:
            _, passed, failures, _, seconds = runner.run_counted(("runner-budget", ["sh", "-c", script]), 2, {})
        finally:
            runner.BUDGETS, runner.SLACK = before
    return passed, failures, seconds


BUSY = "python3 -c 'import time\nwhile time.process_time() < 0.5: pass'; echo ok 1; echo 1..1"


def test_a_run_that_was_cut_off_goes_on():
    with tempfile.TemporaryDirectory() as folder:
        kept, runner.LOGS = runner.LOGS, folder
        try:
            runner.Record("long", False).add(2, "a", 1.5)
            with open(os.path.join(folder, "passed-long"), "a", encoding="ascii") as record:
                record.write("2 b 3")                                   # the power went
            again = runner.Record("long", True)
            assert again.left(2, [("a", []), ("b", [])]) == [("b", [])] and again.left(4, [("a", [])]) == [("a", [])]
            assert sum(again.seconds.values()) == 1.5
            again.add(2, "b", 2)
            assert runner.Record("long", True).left(2, [("a", []), ("b", [])]) == []
            assert runner.Record("long", False).left(2, [("a", [])]) == [("a", [])]         # a new run forgets
            assert runner.Record("long", True).seconds == {}
        finally:
            runner.LOGS = kept


def test_an_item_over_its_budget_fails():
    passed, failures, seconds = counted(BUSY, "runner-budget\ttest\t0.1\n*\ttest\t9\n")
    assert passed == 1 and seconds >= 0.5, (passed, seconds)
    assert len(failures) == 1 and "runner-budget took" in failures[0][0], failures
    assert len(counted(BUSY, "*\ttest\t0.1\n")[1]) == 1


def test_an_item_within_its_budget_passes():
    assert counted(BUSY, "*\ttest\t0.1\nrunner-budget\ttest\t9\n")[:2] == (1, [])
    assert counted(BUSY, "runner-budget\ttest\t0.1\n", slack="90")[:2] == (1, [])
    assert counted(BUSY, "runner-budget\tcheck\t0.1\n*\tlong\t0.1\n")[:2] == (1, [])


def test_time_that_an_item_waits_is_not_counted():
    passed, failures, seconds = counted("sleep 1; echo ok 1; echo 1..1", "*\ttest\t0.2\n")
    assert (passed, failures) == (1, []) and seconds < 0.5, (failures, seconds)


def test_shares_add_up_by_folder():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runner.show_shares({"a/b": 1.0, "a/c": 98.5, "lint": 0.5})
    lines = [line.split() for line in said.getvalue().splitlines()]
    assert lines == [["CPU", "seconds"], ["99.5", "99.5", "%", "a:", "2", "programs"], ["98.5", "98.5", "%", "c"],
                     ["0.5", "0.5", "%", "lint:", "1", "programs"]], lines


def test_each_budget_is_of_an_item():
    for tier in ("check", "test", "long"):
        os.environ["TEST_TIER"] = tier
        names = {name for items in (runner.host_items, runner.guest_items, runner.system_items) for name, _ in items()}
        stale = set(runner.read_budgets(runner.BUDGETS, tier)) - names - {"*", "total", "lint"}
        assert not stale, stale


def test_attacks_are_known_by_their_names():
    os.environ["TEST_TIER"] = "test"
    names = [name for items in (runner.host_items, runner.guest_items, runner.system_items) for name, _ in items()]
    found = [os.path.basename(name) for name in names if runner.ATTACKS.search(name)]
    wanted = {"hostile_calls", "hostile_memory", "fuzz", "protection", "bad-input", "kernel_kills", "test_parsers"}
    assert wanted <= set(found) and len(found) < len(names) / 5, found


def test_the_fuzzers_run_in_all_tiers_but_check():
    found = {}
    for tier in ("check", "test", "long"):
        os.environ["TEST_TIER"] = tier
        found[tier] = "tests/fuzz/fuzz" in [name for name, _ in runner.host_items()]
    assert found == {"check": False, "test": True, "long": True}, found


def test_what_names_its_cpus_runs_once():
    os.environ["TEST_TIER"] = "long"
    for counts, place in (((1, 2, 4), 2), ((1, 4), 1), ((4,), 4)):
        found = {count: {os.path.basename(name) for name, _ in runner.system_items(count, counts)} for count in counts}
        assert [count for count in counts if "kernel-bugs" in found[count]] == [place], (counts, found)
        assert all("bad-input" in names for names in found.values()), found
    assert {name for name, _ in runner.system_items()} == {name for name, _ in runner.system_items(2, (1, 2, 4))}


def test_other_numbers_of_cpus_take_samples():
    item = ("runner-samples", ["sh", "-c", 'echo 1..1; echo "ok 1 $TEST_TIER"'])
    before = os.environ.pop("TIMES", None)
    seen = {}
    for times in ("", "2"):
        os.environ.update(TEST_TIER="long", TIMES=times)
        for cpus in (1, 2, 4):
            words = dict(runner.guest_items(cpus))["tests/guest/kernel/kernel_history"]
            seen[times, cpus] = runner.run_item(*item, cpus)[1].split()[-1], any("TEST_TIER=long" in word for word in words)
    os.environ.pop("TIMES") if before is None else os.environ.update(TIMES=before)
    fully, partly = ("long", True), ("test", False)
    assert seen == {("", 1): partly, ("", 2): fully, ("", 4): partly, ("2", 1): fully, ("2", 2): fully, ("2", 4): fully}, seen
    os.environ["TEST_TIER"] = "test"


def test_the_dearest_items_begin_first():
    os.environ["TEST_TIER"] = "long"
    names = [name for name, _ in runner.dearest_first([*runner.host_items(), *runner.guest_items(), *runner.system_items()])]
    assert names[:len(runner.LONGEST)] == runner.LONGEST and len(names) == len(set(names)), names
    os.environ["TEST_TIER"] = "test"
    names = [name for name, _ in runner.dearest_first([*runner.host_items(), *runner.guest_items(), *runner.system_items()])]
    budgets = runner.read_budgets(runner.BUDGETS, "test")
    dear = [budgets[name] for name in names[len(runner.LONGEST):] if name in budgets]
    assert dear == sorted(dear, reverse=True) and len(names) == len(set(names)), names


def test_numbers_of_cpus_are_read():
    assert runner.cpu_counts("1,2,4") == [1, 2, 4]
    for text in ("", "0", "9", "1,,2", "two"):
        try:
            runner.cpu_counts(text)
        except argparse.ArgumentTypeError:
            continue
        raise AssertionError(f"{text!r} was taken")


if __name__ == "__main__":
    run_tests(globals())
