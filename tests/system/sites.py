#!/usr/bin/env python3
"""Several guests as one system: HELLO, frames there and back, breaks at each place of a frame, guests that are killed, that
stand still, that have no place in it.

Method  scripts/sites runs plans of two and three guests without stores, or with, and has the faults on their links;
        tests/sites/echoes.c sends frames up to the largest, and looks whether each comes back as it was, in order. What
        happens is counted in frames, not in time; the lease is long where a busy host could be taken for silence. `make test`
        has most of it in one plan; make test-long has each alone.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../host"))
import tap

RUN, SITES = os.path.join(tap.ROOT, "scripts/run"), os.path.join(tap.ROOT, "scripts/sites")
LONG = os.environ.get("TEST_TIER") == "long"
COMMON = f"--add {tap.ROOT}/build/tests/sites/echoes --link agent=/bin/echoes --link remote= --link open=all --cpus 1 --memory 96"
FAST, SLOW = "--link lease=300", "--link lease=20000"
TIMEOUT_S = 400


def run(plan, *options, status=0):
    """What the guests print."""
    plan = "\n".join(line.strip() for line in plan.splitlines())
    done = subprocess.run([sys.executable, SITES, "--timeout", str(TIMEOUT_S), "--verbose", *options, "-"], input=plan, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == status, f"status {done.returncode}\n{plan}\n{done.stdout}"
    return done.stdout


def site(name, commands, options=SLOW, kind="site", store="--no-store"):
    return f"{kind} {name} {store} {COMMON} {options} : {commands}\n"


def sessions(said):
    """How many a had with b. Behind its client's close the next one may have begun."""
    return int(re.findall(r"^a:     sessions: (\d+)", said, re.M)[0])


def server(name, peer="a", options=SLOW):
    return site(name, f"echoes {peer} frames=0 stay again", options, kind="server")


def test_frames_through_all_that_can_happen():
    """What `make test` has of the next five."""
    said = run(site("a", "echoes b frames=60 again; sites -v") + server("b") +
               "link a b\nat a>b 4 cut byte=64\nat b>a 20 flip\nat a>b 28 drop\nat a>b 45 kill b again\nat b>a 50 cut byte=9\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 5, said
    line = [words for words in map(str.split, said.splitlines()) if words[:3] == ["a:", "b", "site.1"]][0]
    assert min(int(word) for word in line[line.index("us") + 1 if "us" in line else 5:][:4]) > 60, said


def long_frames_go_both_ways():
    said = run(site("a", "echoes b frames=60 seed=5; sites -v") + site("b", "echoes a frames=30 seed=6 stay") + "link a b\n")
    assert "a: a to b: 60 frames" in said and "b: b to a: 30 frames" in said, said


def long_connections_that_break_inside_frames():
    cuts = "".join(f"at {way} {frame} cut byte={byte}\n" for way, frame, byte in
                   [("a>b", 4, 0), ("b>a", 6, 1), ("a>b", 20, 63), ("b>a", 25, 64), ("a>b", 40, 65), ("a>b", 60, 10000)])
    said = run(site("a", "echoes b frames=80 again; sites") + server("b") + "link a b\n" + cuts)
    assert "a: a to b: 80 frames" in said and said.count(": cut") == 6, said


def long_frames_that_are_lost_or_changed_end_the_session():
    said = run(site("a", "echoes b frames=60 again; sites -v") + server("b") + "link a b\nat a>b 9 drop\nat b>a 20 flip\nat a>b 45 flip\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 3, said


def long_a_guest_that_is_killed_and_started_again():
    said = run(site("a", "echoes b frames=60 again; sites -v") + server("b") + "link a b\nat a>b 30 kill b again\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 2, said


def test_a_run_ends_while_a_server_is_to_be_started_again():
    """In a minute; or just now: that one is ended, too."""
    begin = time.monotonic()
    for after in 60000, 700:
        run(site("a", "sleep 1") + server("b") + f"link a b\nat a>b 1 kill b again after={after}\n")
    assert time.monotonic() - begin < TIMEOUT_S / 2


def long_a_guest_that_stands_still_is_lost_and_comes_back():
    said = run(site("a", "echoes b frames=60 again; sites -v", FAST) + server("b", options=FAST) + "link a b\nat a>b 30 stop b ms=1500\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 2, said


def long_a_guest_that_stands_still_while_its_connection_breaks_comes_back():
    """QEMU leaves its port without output then; scripts/sites gets over that."""
    said = run(site("a", "echoes b frames=60 again; sites -v", FAST) + server("b", options=FAST) +
               "link a b\nat a>b 15 stop a ms=500\nat a>b 16 cut down=1000\nat a>b 30 stop a ms=500\nat a>b 31 cut down=1000\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 3, said


def long_a_half_open_connection_is_lost():
    said = run(site("a", "echoes b frames=60 again; sites -v", FAST) + server("b", options=FAST) + "link a b\nat b>a 30 hold ms=1500\n")
    assert "a: a to b: 60 frames" in said and sessions(said) >= 2, said


def long_three_sites_and_one_too_many():
    store = "--store-size 64M"
    plan = site("a", "echoes b frames=20; echoes c frames=20; echoes d frames=1; sites", store=store)
    plan += "".join(site(name, "echoes a frames=0 stay again || echoes nobody", kind="server", store=store + zone)
                    for name, zone in (("b", ""), ("c", ""), ("d", " --zone 0"))) + "link a b\nlink a c\nlink a d\n"
    said = run(plan)
    assert "a: a to b: 20 frames" in said and "a: a to c: 20 frames" in said, said
    assert "a: echoes: 0 of 1 frames, then: Connection refused" in said, said
    assert re.search(r"a: site d: refused: .*zone 0 of [ad]'s store is that of [ad]'s: a new store gets another by "
                     "scripts/run --zone N", said), said


def long_a_site_that_refuses_takes_no_other_one_along():
    common = f"--add {tap.ROOT}/build/tests/sites/shared --store-size 64M --cpus 1 --memory 96 {SLOW}"
    said = run(f"""site a {common} : shared c:box open sum; shared b:box fail=111 sum; shared c:box counts sum phase=1
                   server b {common} --zone 0 : shared box create=1 await=1
                   server c {common} : shared box create=3; store export box a write; shared box await=2
                   link a b
                   link a c""")
    assert said.count("a: 3 accounts, 3000") == 2 and "remote ended" not in said, said


def long_only_who_has_the_key():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("one", "a very secret key of sites"), ("two", "another very secret key")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                out.write(text + "\n")
        key = f"{SLOW} --site-key {folder}/"
        said = run(site("a", "echoes b frames=20; sites", key + "one") + server("b", options=key + "one") +
                   site("c", "echoes a frames=0 stay || echoes nobody", key + "two", kind="server") + "link a b\nlink a c\n")
    assert "a: a to b: 20 frames" in said, said
    assert "it has another key" in said, said


def test_addresses_that_others_reach_want_a_key():
    for words in (["--listen", "0.0.0.0:4000"], ["--join", "10.0.0.1:4000"], ["--listen", "[::]:4000"]):
        done = subprocess.run([RUN, "--site", "a", *words, "-c", "true"], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2 and "--site-key" in done.stderr, (words, done)


def test_an_address_has_a_port():
    for address in "127.0.0.1", "localhost", "[::1]":
        done = subprocess.run([RUN, "--site", "a", "--join", address, "-c", "true"], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2 and f"{address}:4000" in done.stderr, (address, done)


def test_a_listener_takes_nobodys_place():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one")
        for option in "--listen", "--join":
            with open(path, "w", encoding="utf-8") as out:
                out.write("a store")
            done = subprocess.run([RUN, "--site", "a", "--no-store", option, path, "-c", "true"], stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 120 and "something else than a socket" in done.stderr, (option, done)
            with open(path, encoding="utf-8") as text:
                assert text.read() == "a store"
        os.remove(path)
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(path)
            taken.listen()
            done = subprocess.run([RUN, "--site", "a", "--no-store", "--listen", path, "-c", "true"], stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 120 and "another machine listens there" in done.stderr, done
        done = subprocess.run([RUN, "--site", "a", "--no-store", "--memory", "96", "--listen", path, "-c", "echo on"], stdout=subprocess.PIPE,
                              text=True, check=False)
        assert done.stdout == "on\n", done         # a socket that somebody has left


def test_no_site_no_link():
    done = subprocess.run([RUN, "--no-store", "--memory", "96", "-c", "sites; ps"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert "sites: this machine is no site: scripts/run --site NAME makes it one" in done.stdout and " link" not in done.stdout, done


def test_plans_that_make_no_sense():
    for plan, what in (("", "no site"), ("site a : x\nlink a b", "no site b"), ("site a : x\nsite b : y\nlink a b\nat a>b x cut", "line 4"),
                       ("site a : x\nsite b : y\nlink a b\nat a>b 3 burn", "no such action"), ("site a : x\nsite b : y\nlink a b\nat a>b 3 fail b", "no --store FILE"), ("bogus", "no such line"),
                       ("site a: x", "it has to be: site NAME"), ("site a : x\nsite a : y", "two sites a"), ("site a : x\nsite b : y\nlink a a", "a link is between"),
                       ("site a : x\nsite b : y\nlink a b\nlink b a", "a link is between"), ("site a : x\nsite b : y\nlink a b\nat a>b 3 kill", "line 4: it has to be: at A>B"),
                       ("site a : x\nsite b : y\nlink a b\nat a>b comit 3 cut", "comit: neither")):
        assert what in run(plan, status=2), plan


def long_random_faults():
    for seed in range(1, 13):
        said = run(site("a", "echoes b frames=60 again; sites -v", FAST) + server("b", options=FAST) + "link a b\nrandom a b 6\n",
                   "--seed", str(seed))
        assert "a: a to b: 60 frames" in said, said


if LONG:
    globals().update({"test_" + name[5:]: value for name, value in list(globals().items()) if name.startswith("long_")})
tap.run_tests(globals())
