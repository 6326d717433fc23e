#!/usr/bin/env python3
"""Tests of scripts/runengine.py without an engine: who may write to an image, as a protocol; addresses; what servers say.

Machines that begin, run and end share an image in memory. Each step that one does at the image is a point at which others may
come first; one that is not at its turn is cut off for so long that the engine has forgotten its watch. All orders with at most
two changes of turn are tried, and random ones. No machine writes again after another one did: and without any of the
rules EN1 to EN3 of runengine.py, some order must show that one does."""

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import socket
import struct
import subprocess
import tempfile
import threading

from tap import ROOT, load, run_tests

engine, runparts = load("runengine.py"), load("runparts.py")
WRITES = 2


class Image:
    """What Owner asks of Rbd, and clients that write. `turn` is called before each step."""

    address = "image"

    def __init__(self, turn):
        self.turn, self.lock, self.serial = turn, None, 0
        self.watchers, self.writer, self.blocked = {}, None, set()
        self.noted, self.past = {}, set()
        self.log = []

    def lock_get(self, cookie, said):
        self.turn()
        if self.lock is not None:
            return False
        self.serial += 1
        self.lock = {"name": f"client.{self.serial}", "cookie": cookie, "description": said}
        return True

    def lock_holder(self):
        self.turn()
        return self.lock

    def lock_break(self, holder):
        self.turn()
        if self.lock == holder:
            self.lock = None

    def clients(self):
        self.turn()
        return {client for client, here in self.watchers.items() if here} | ({self.writer} if self.writer else set())

    def notes(self):
        self.turn()
        return dict(self.noted), set(self.past)

    def note_client(self, nonce, client):
        self.turn()
        self.noted[nonce] = client

    def note_ended(self, nonce):
        self.turn()
        self.past.add(nonce)

    def note_drop(self, nonce):
        self.turn()
        self.noted.pop(nonce, None)
        self.past.discard(nonce)

    def blocklist(self, client, seconds):
        self.turn()
        assert seconds >= engine.ENDED_S
        self.blocked.add(client)
        if self.writer == client:
            self.writer = None

    # ---- QEMU's client: the exclusive lock goes to whoever writes, as RBD's does ----

    def open(self, client):
        self.turn()
        self.watchers[client] = True

    def write(self, client):
        self.turn()
        if client in self.blocked:
            raise OSError("blocklisted")
        self.writer = client
        self.log.append(client)

    def forget(self, client, here):
        if client in self.watchers:
            self.watchers[client] = here and client not in self.blocked


class Schedule:
    """Machines as threads of which one runs: the first, until a change of turn at the step that `changes` says."""

    def __init__(self, machines, changes, rng=None, owner=engine.Owner):
        self.changes, self.rng, self.owner_class = dict(changes), rng, owner
        self.image = Image(self.turn)
        self.step, self.now, self.ended = 0, 0, [False] * machines
        self.may_run = [threading.Semaphore(0) for _ in range(machines)]
        self.number = threading.local()
        self.refused = 0
        threads = [threading.Thread(target=self.machine, args=(n,), daemon=True) for n in range(machines)]
        for thread in threads:
            thread.start()
        self.may_run[0].release()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "no machine goes on"

    def turn(self):
        me = self.number.value
        self.step += 1
        jump = self.changes.get(self.step, 0)
        if self.rng is not None and self.rng.random() < 0.2:
            jump = self.rng.randrange(len(self.ended))
        if jump:
            self.give(me, (me + jump) % len(self.ended))

    def give(self, me, to):
        alive = [n % len(self.ended) for n in range(to, to + len(self.ended)) if not self.ended[n % len(self.ended)]]
        if not alive or alive[0] == me:
            return
        self.image.forget(f"qemu{me}", False)
        self.may_run[alive[0]].release()
        if not self.ended[me]:
            self.may_run[me].acquire()
            self.image.forget(f"qemu{me}", True)

    def machine(self, me):
        self.number.value = me
        self.may_run[me].acquire()
        owner = self.owner_class(self.image, True)
        try:
            with contextlib.suppress(engine.RunError, OSError), contextlib.redirect_stderr(io.StringIO()):
                owner.take()
                self.image.open(f"qemu{me}")
                owner.opened()
                for _ in range(WRITES):
                    self.image.write(f"qemu{me}")
            with contextlib.redirect_stderr(io.StringIO()):
                owner.ended()
        finally:
            self.ended[me] = True
            self.give(me, me)

    def writers(self):
        """Each once for each time that it began to write."""
        return [client for client, _ in itertools.groupby(self.image.log)]

    def broken(self):
        return len(self.writers()) != len(set(self.writers()))


def schedules():
    """All with at most two changes of turn between two machines."""
    steps = Schedule(2, {}).step
    yield {}
    yield from ({first: 1} for first in range(1, steps + 1))
    yield from ({first: 1, second: 1} for first in range(1, steps + 1) for second in range(first + 1, steps + 12))


def test_no_machine_writes_after_another_one_did():
    both, alone, count = 0, 0, 0
    for changes in schedules():
        run = Schedule(2, changes)
        assert not run.broken(), f"{changes}: {run.image.log}"
        both += len(run.writers()) == 2
        alone += len(run.writers()) == 1
        count += 1
    assert both > 100 and alone > 10, f"{both} orders of {count} in which both wrote, {alone} in which one did"


def test_nor_do_three_in_random_orders():
    rng = random.Random(1)
    wrote = 0
    for _ in range(400):
        run = Schedule(3, {}, rng)
        assert not run.broken(), run.image.log
        wrote += len(run.writers())
    assert wrote > 300, wrote


class NoLook(engine.Owner):
    """EN3: the lock is not looked at once more."""

    def holds(self):
        return True


class NoNote(engine.Owner):
    """EN3: the client is not noted."""

    def opened(self):
        noted, self.image.note_client = self.image.note_client, lambda nonce, client: self.image.turn()
        try:
            super().opened()
        finally:
            self.image.note_client = noted


class LateNote(engine.Owner):
    """EN3: the client is noted after the lock was looked at."""

    def opened(self):
        mine = self.image.clients() - self.before
        if not self.holds() or len(mine) != 1:
            raise engine.RunError("lost")
        self.image.note_client(self.nonce, mine.pop())


class NoFence(engine.Owner):
    """EN2: nobody is blocklisted."""

    def fence(self):
        self.before = self.image.clients()


class EarlyFence(engine.Owner):
    """EN2: the clients are blocklisted before the lock is taken."""

    fenced = False

    def take(self):
        super().fence()
        super().take()

    def fence(self):
        pass


class FenceOfWatchers(engine.Owner):
    """EN2: only those that are there now."""

    def fence(self):
        self.before = self.image.clients()
        for client in self.before:
            self.image.blocklist(client, engine.FENCED_S)


class NoLock(engine.Owner):
    """EN1: whoever comes may write."""

    def take(self):
        self.fence()

    def holds(self):
        return True


def test_each_rule_is_needed():
    for rule in NoLook, NoNote, LateNote, NoFence, EarlyFence, FenceOfWatchers, NoLock:
        orders = ((2, changes, None) for changes in schedules())
        seeds = ((3, {}, random.Random(seed)) for seed in range(300))
        assert any(Schedule(*how, owner=rule).broken() for how in itertools.chain(orders, seeds)), f"{rule.__name__} is not found"


def owned(description, takeover=False):
    image = Image(lambda: None)
    image.lock_get("other", description)
    try:
        engine.Owner(image, takeover).take()
    except engine.RunError as error:
        return str(error)
    return None


def test_a_lock_whose_owner_has_ended_is_taken_and_no_other():
    me = {"host": engine.this_host(), "pid": os.getpid(), "start": engine.started_at(os.getpid())}
    child = subprocess.Popen(["true"])
    child.wait()
    assert "process" in owned(json.dumps(me)) and owned(json.dumps(me), True) is None
    assert owned(json.dumps(dict(me, pid=child.pid))) is None
    assert owned(json.dumps(dict(me, start=me["start"] - 1))) is None, "the number is another process's by now"
    assert "host" in owned(json.dumps(dict(me, host="elsewhere 1 2")))
    for odd in "", "[]", "{}", '{"host": 1, "pid": "x", "start": null}', '{"host": 1, "pid": Infinity, "start": 1}', '{"host": null, "pid": 1, "start": 1}':
        assert "--takeover" in owned(odd), odd


def test_an_end_is_told_to_who_lost_the_lock_and_notes_it_short():
    image = Image(lambda: None)
    first, second = engine.Owner(image, False), engine.Owner(image, True)
    first.take()
    image.open("a")
    first.opened()
    second.take()
    assert image.blocked == {"a"}
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        first.ended()
    assert "another machine has taken the store" in said.getvalue() and image.lock["cookie"] == second.nonce
    image.open("b")
    second.opened()
    second.ended()
    assert image.lock is None
    times = {}
    image.blocklist = lambda client, seconds: times.update({client: seconds})
    engine.Owner(image, False).take()
    assert times["b"] == engine.ENDED_S and not image.noted and not image.past, (times, image.noted)


# --- addresses and options ---

ARGS = argparse.Namespace(takeover=False, patience=None, store_size="64M")


def refused(make, *words):
    try:
        make("store", *words)
    except engine.RunError as error:
        return str(error)
    return None


def test_addresses_are_read_and_others_refused_with_the_form():
    one = engine.Rbd("store", "rbd:kd/a.b-c:conf=/x/ceph.conf:id=me", ARGS)
    assert (one.pool, one.image, one.options) == ("kd", "a.b-c", {"conf": "/x/ceph.conf", "id": "me"})
    for wrong in "rbd:", "rbd:kd", "rbd:kd/", "rbd:kd/a:b", "rbd:kd/a@snap", "rbd:a/b/c/d", "rbd:kd/a,readonly=on":
        assert "POOL/IMAGE" in refused(engine.Rbd, wrong, ARGS), wrong
    for text, place in {"nbd:unix:/a/b": ("/a/b", "", 10809, ""), "nbd:unix:/a/b:exportname=x": ("/a/b", "", 10809, "x"),
                        "nbd:h:7": (None, "h", 7, ""), "nbd:[::1]:7:exportname=y": (None, "::1", 7, "y"),
                        "nbd://h/z": (None, "h", 10809, "z"), "nbd://h:9": (None, "h", 9, ""),
                        "nbd+unix:///e?socket=/s": ("/s", "", 10809, "e")}.items():
        it = engine.Nbd("store", text, ARGS)
        assert (it.path, it.host, it.port, it.export) == place, text
    for wrong in "nbd:", "nbd:h", "nbd:h:x", "nbd:h:0", "nbd:h:65536", "nbd+unix:///e":
        assert refused(engine.Nbd, wrong, ARGS), wrong
    assert not engine.is_engine("rbd.store") and not engine.is_engine(None) and engine.is_engine("rbd:a/b")


def test_patience_goes_to_ceph_and_makes_nbd_write_through():
    patient = argparse.Namespace(takeover=False, patience=12, store_size="64M")
    assert engine.Rbd("store", "rbd:kd/a", patient).options == {"rados_osd_op_timeout": "12"}
    assert engine.Nbd("store", "nbd:h:7", patient).device == ",write-cache=off"
    assert engine.Nbd("store", "nbd:h:7", ARGS).device == ""


def usage(*words):
    done = subprocess.run([os.path.join(ROOT, "scripts/run"), *words, "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stderr.splitlines()[-1]


def test_what_makes_no_sense_with_an_engine_is_usage():
    for words, text in ((["--patience", "20"], "rbd:POOL/IMAGE or nbd:HOST:PORT"), (["--takeover", "--store", "x"], "rbd:POOL/IMAGE or nbd:HOST:PORT"),
                        (["--store", "nbd:h:7", "--patience", "9"], "10 at least"), (["--store", "nbd:h:7", "--record", "x"], "these are of files"),
                        (["--store", "nbd:h:7", "--span", "x"], "these are of files"), (["--backup", "nbd:h:7"], "may be on a block engine"),
                        (["--store", "rbd:kd"], "POOL/IMAGE")):
        status, said = usage(*words)
        assert status == 2 and text in said, (words, said)


def test_an_engine_that_nobody_answers_for_ends_the_run_with_its_address():
    with tempfile.TemporaryDirectory() as folder:
        status, said = usage("--store", f"nbd:unix:{folder}/none")
        assert status == 120 and "nobody answers there" in said, said
        status, said = usage("--store", f"nbd:unix:{folder}/none", "--takeover")
        assert status == 120 and "NBD has no way to keep a machine away" in said, said


def store_args(folder, **more):
    args = argparse.Namespace(no_store=False, store=None, store2=None, store3=None, store4=None, span=[], record=None, rr=None, replay=None,
                              replay_record=None, store_size="1M", backup=os.path.join(folder, "backup"), patience=None, gdb=None)
    vars(args).update(more)
    return args


def test_a_backup_is_as_large_as_a_store_of_any_kind():
    with tempfile.TemporaryDirectory() as folder:
        args = store_args(folder)
        args.engines = engine.Engines(args, {})
        runparts.store_options(args, folder)
        assert os.path.getsize(args.backup) == 1 << 20
        os.remove(args.backup)
        disk = argparse.Namespace(begin=lambda: ["words"], device="", size=3 << 20)
        args = store_args(folder, store="nbd:h:7")
        args.engines = engine.Engines(args, {"store": disk})
        assert runparts.store_options(args, folder)[0] == "words" and os.path.getsize(args.backup) == 3 << 20


# --- servers ---

def entered(*answers):
    """What enter() makes of a server that says these bytes and ends."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"".join(answers))
        there.shutdown(socket.SHUT_WR)
        here.settimeout(5)
        try:
            return engine.enter(here, "")
        except (engine.Refused, OSError) as error:
            return f"{type(error).__name__}: {error}"


GREETING = b"NBDMAGICIHAVEOPT\0\3"


def reply(kind, data=b"", option=engine.GO, magic=engine.REPLY_MAGIC, size=None):
    return struct.pack(">QIII", magic, option, kind, len(data) if size is None else size) + data


def test_a_server_that_lets_us_in_says_how_large_the_disk_is():
    assert entered(GREETING, reply(3, struct.pack(">HQH", 0, 1 << 26, 5)), reply(1)) == (1 << 26, 5)
    assert entered(GREETING, reply(3, struct.pack(">HIII", 3, 1, 2, 3)), reply(3, struct.pack(">HQH", 0, 512, 5)), reply(1)) == (512, 5)


def test_servers_that_lie_are_refused():
    for answers in ([b""], [b"x" * 16], [b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53"], [GREETING], [GREETING, reply(1)],
                    [GREETING, reply(1, magic=1)], [GREETING, reply(1, option=6)], [GREETING, reply(3, b"", size=1 << 30)],
                    [GREETING, reply(0x80000006, b"no such export")], [GREETING, reply(3, b"\0\0")], [GREETING[:9]]):
        assert entered(*answers).startswith("Refused"), (answers, entered(*answers))
    assert "no such export" in entered(GREETING, reply(0x80000006, b"no such export"))


def test_what_a_server_says_has_an_end_and_does_nothing_to_the_terminal():
    size = reply(3, struct.pack(">HQH", 0, 1 << 26, 5))
    assert entered(GREETING, *[size] * 1000, reply(1)).startswith("Refused"), "it may go on for ever"
    said = entered(GREETING, reply(0x80000006, b"\x1b]0;owned\7no\nsuch" + b"!" * 60000))
    assert said.startswith("Refused") and said.isprintable() and len(said) < 300, said


def heard(lines, patience=10):
    """What is shown of the kernel's log, and for whom patience has ended."""
    args = argparse.Namespace(patience=patience, gdb=None)
    ends = []
    disk = argparse.Namespace(out_of_patience=ends.append)
    engines = engine.Engines(args, {"store": disk})
    engines.monitor, shown = "monitor", io.StringIO()
    for line in lines:
        engines.heard(line, shown)
    for timer in list(engines.timers.values()):
        timer.join(5)
    return shown.getvalue(), ends


def test_what_the_kernel_says_of_a_disk_is_shown_and_ends_patience():
    text, ends = heard([b"[   12.000001] disk store does not answer for 10 s"])
    assert text == "scripts/run: disk store does not answer for 10 s\n" and ends == ["monitor"]
    text, ends = heard([b"[   12.000001] disk store does not answer for 10 s", b"[   13.000001] disk store answers after 11 s"], 300)
    assert text.count("\n") == 2 and not ends
    for other in b"disk store does not answer for 10 s", b"[  1.000001] disk export does not answer for 10 s", \
            b"[  1.000001] x disk store does not answer for 10 s":
        assert heard([other]) == ("", []), other


if __name__ == "__main__":
    run_tests(globals())
