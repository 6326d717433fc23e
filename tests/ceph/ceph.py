#!/usr/bin/env python3
"""A store on a Ceph cluster of three OSDs on this machine (disk/ceph.md): OSDs are killed one after the other and all at once
under load, guests are cut off and another takes the store; nothing that was acknowledged is lost. `make test-ceph` runs it."""

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from acks import ROOT, TMP, Load, check_image, found, nothing_lost, run    # noqa: E402
import tap                                                                 # noqa: E402

ceph = tap.load("ceph")
CLUSTER = ceph.Cluster(os.path.join(TMP, "ceph"))
STORE = f"rbd:kd/store:conf={CLUSTER.conf}"
OTHER = f"rbd:kd/other:conf={CLUSTER.conf}"
ALL = range(ceph.OSDS)
WATCH_S = 30                    # after which Ceph takes the watch of a client that is silent from the list


def sound(store):
    """What the tools say of the image."""
    image = os.path.join(TMP, "image")
    CLUSTER.run("rbd", "export", "--no-progress", store.split(":")[1], image)
    check_image(image)
    os.remove(image)


def test_a_store_is_there_after_a_boot_also_at_once():
    status, text = run(STORE, "todo add milk; todo")
    assert status == 0 and "- milk" in text, text
    start = time.monotonic()
    status, text = run(STORE, "todo")
    took = time.monotonic() - start
    assert status == 0 and "- milk" in text, text
    assert took < WATCH_S - 5, f"{took:.1f} s: the machine before was waited for"
    print(f"# booted anew in {took:.1f} s, fence and all")


def test_an_image_without_an_exclusive_lock_is_refused():
    CLUSTER.run("rbd", "create", "--size", "64M", "--image-feature", "layering", "kd/open")
    status, text = run(f"rbd:kd/open:conf={CLUSTER.conf}", "true")
    assert status == 120 and "has no exclusive lock" in text, text


def test_osds_are_killed_one_after_the_other_under_load():
    load = Load(STORE, 100000, processes=3)
    try:
        load.more(200)
        for osd in ALL:
            CLUSTER.signal(signal.SIGKILL, [osd])
            load.more(200)
            CLUSTER.start([osd])
            CLUSTER.clean()
            load.more(100)
    finally:
        load.kill()
    nothing_lost(load, found(STORE))
    sound(STORE)
    print(f"# {load.count} acknowledged, all there; the longest stall {load.longest_s:.1f} s")


def test_osds_are_killed_all_at_once_and_the_machine_with_them():
    for _ in range(2):
        load = Load(STORE, 100000, processes=3)
        try:
            load.more(300)
            CLUSTER.signal(signal.SIGKILL, ALL)
        finally:
            load.kill()
        CLUSTER.start(ALL)
        nothing_lost(load, found(STORE))
        print(f"# {load.count} acknowledged, all there")
    sound(STORE)


def test_the_machine_goes_on_when_all_come_back():
    load = Load(STORE, 100000, processes=3)
    try:
        load.more(200)
        CLUSTER.signal(signal.SIGKILL, ALL)
        load.until(lambda load: "scripts/run: disk store does not answer for 1" in load.said)
        CLUSTER.start(ALL)
        load.until(lambda load: "scripts/run: disk store answers after" in load.said)
        load.more(200)
    finally:
        load.kill()
    nothing_lost(load, found(STORE))
    print(f"# {load.count} acknowledged, all there; the longest stall {load.longest_s:.1f} s")


def test_an_osd_whose_host_is_cut_off_is_a_stall():
    load = Load(STORE, 100000)
    try:
        load.more(100)
        CLUSTER.signal(signal.SIGSTOP, [1])
        load.more(100)
        CLUSTER.signal(signal.SIGCONT, [1])
        load.more(100)
    finally:
        load.kill()
    CLUSTER.clean()
    nothing_lost(load, found(STORE))
    print(f"# {load.count} acknowledged, all there; the longest stall {load.longest_s:.1f} s")


def test_at_the_end_of_patience_the_outcome_is_unknown():
    load = Load(STORE, 100000, "--patience", "10")
    try:
        load.more(100)
        CLUSTER.signal(signal.SIGKILL, [0, 1])
        assert load.end() not in (0, 124) and "the outcome is unknown" in load.said, load.said
    finally:
        load.kill()
        CLUSTER.start([0, 1])
    nothing_lost(load, found(STORE))
    sound(STORE)


def test_a_cluster_that_answers_nobody_is_said_and_not_waited_for():
    CLUSTER.signal(signal.SIGSTOP, ALL)
    start = time.monotonic()
    status, text = run(STORE, "true")
    CLUSTER.signal(signal.SIGCONT, ALL)
    assert status == 120 and "the cluster does not answer within 30 s" in text, text
    assert time.monotonic() - start < 60
    CLUSTER.clean()


def takes_over(cut_off_s):
    """A machine is cut off under load; another one takes its store; then the first one wakes."""
    first = Load(OTHER, 100000, processes=2)
    try:
        first.more(200)
        status, text = run(OTHER, "true")
        assert status == 120 and "in use by process" in text and "--takeover" in text, text
        first.more(10)                  # it is none the worse
        first.qemu(signal.SIGSTOP)
        time.sleep(max(cut_off_s, 0.5))     # what it has said is read
        start = time.monotonic()
        second = Load(OTHER, 100000, "--takeover", processes=2)
        second.more(1)
        took = time.monotonic() - start
        second.until(lambda load: len(load.first) == 2)
        nothing_lost(first, {process: value - 1 for process, value in second.first.items()})
        acknowledged = first.count
        second.more(200)
        first.qemu(signal.SIGCONT)
        assert first.end() not in (0, 124), first.said
        assert "the outcome is unknown" in first.said and "another machine has taken the store" in first.said, first.said
        assert first.count - acknowledged <= 2, f"{first.count - acknowledged} more were acknowledged"
        second.more(200)
        second.kill()
        now = found(OTHER)
        nothing_lost(second, now)
        for process, value in first.last.items():
            assert now[process] >= value, f"process {process}: {value} acknowledged, {now[process]} found"
    finally:
        first.kill()
    sound(OTHER)
    print(f"# {acknowledged} acknowledged by the first, {second.count - acknowledged} by the second, whose first came after {took:.1f} s")


def test_another_machine_takes_the_store_of_one_that_is_cut_off():
    takes_over(0)


def test_also_of_one_that_the_cluster_has_forgotten_by_then():
    takes_over(WATCH_S + 8)


def test_of_machines_that_take_it_from_each_other_no_two_write():
    """Any of them, or none, may be left, and whoever comes next has all that any of them acknowledged."""
    before = found(OTHER)
    for _ in range(3):
        loads = [Load(OTHER, 100, "--takeover") for _ in range(3)]
        for load in loads:
            load.process.wait()
            load.kill()
            load.reader.join()
        last = Load(OTHER, 100, "--takeover")
        assert last.end() == 0, last.said
        now = found(OTHER)
        acknowledged = sorted(load.last[0] for load in loads + [last] if load.last)
        assert now[0] == acknowledged[-1] == last.last[0], f"{acknowledged} acknowledged, {now} found"
        made = now[0] - before[0]
        assert 100 * len([load for load in loads if load.process.returncode == 0]) + 100 <= made, f"{made} of {[load.said for load in loads]}"
        before = now
    sound(OTHER)


def main():
    try:
        CLUSTER.up()
    except (ceph.CephError, OSError, subprocess.SubprocessError) as error:
        print(f"Bail out! no cluster: {error}")
        return
    try:
        tap.run_tests(globals())
    finally:
        CLUSTER.down()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))     # the cluster does not outlive us
    main()
