#!/usr/bin/env python3
# Waits: for servers that do not answer.
# Runs once: what is tried is the disk, not the guest.
"""A store on an NBD server: one machine alone, servers that die, hang and forget under load, and what is said of it (disk/ceph.md)."""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import threading
import time

from acks import TMP, Load, check_image, found, nothing_lost, run
from machine import Machine
import tap

IMAGE, SOCKET = os.path.join(TMP, "image"), os.path.join(TMP, "socket")
STORE = f"nbd:unix:{SOCKET}"
IMAGE_BYTES = 64 << 20
ROUNDS = 25 if os.environ.get("TEST_TIER") == "long" else 10


class Server:
    """qemu-nbd."""

    def __init__(self, *options):
        self.options, self.process = options, None
        self.start()

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(SOCKET)
        where = [] if "-p" in self.options else ["-k", SOCKET]
        self.process = subprocess.Popen(["qemu-nbd", "-f", "raw", "--persistent", *where, *self.options, IMAGE],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while where and not os.path.exists(SOCKET):
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def server(*options):
    it = Server(*options)
    try:
        yield it
    finally:
        it.kill()


def fresh():
    with contextlib.suppress(FileNotFoundError):
        os.remove(IMAGE)
    with open(IMAGE, "wb") as image:
        image.truncate(IMAGE_BYTES)


def test_a_store_on_a_server_is_there_after_a_boot_and_one_machine_alone_has_it():
    fresh()
    with server():
        load = Load(STORE, 100000)
        load.more(20)
        status, text = run(STORE, "true")
        assert status == 120 and "in use by another machine of this host" in text, text
        load.kill()
        nothing_lost(load, found(STORE))
    check_image(IMAGE)


def test_a_server_that_is_killed_under_load_ends_commits_and_loses_none():
    fresh()
    with server() as it:
        load = Load(STORE, 100000)
        load.more(50)
        it.kill()
        assert load.end() != 0 and "the outcome is unknown" in load.said, load.said
        it.start()
        nothing_lost(load, found(STORE))
    check_image(IMAGE)


def test_with_patience_a_server_that_is_killed_and_comes_back_is_a_stall():
    fresh()
    with server() as it:
        load = Load(STORE, 400, "--patience", "60", "--log", os.path.join(TMP, "log"), processes=2)
        for _ in range(3):
            load.more(30)
            it.kill()
            it.start()
        assert load.end() == 0, load.said
        with open(os.path.join(TMP, "log"), encoding="utf-8", errors="replace") as log:
            assert "segments a request, write cache off" in log.read()
        assert found(STORE) == {0: 400, 1: 400}
    check_image(IMAGE)


def test_a_server_that_hangs_is_told_of_and_goes_on():
    fresh()
    with server() as it:
        load = Load(STORE, 300)
        load.more(50)
        it.process.send_signal(signal.SIGSTOP)
        load.until(lambda load: "scripts/run: disk store does not answer for " in load.said, 60)
        it.process.send_signal(signal.SIGCONT)
        assert load.end() == 0 and "scripts/run: disk store answers after " in load.said, load.said
        assert found(STORE) == {0: 300}


def test_and_at_the_end_of_patience_its_outcome_is_unknown():
    fresh()
    with server() as it:
        load = Load(STORE, 100000, "--patience", "11")
        load.more(50)
        it.process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        status = load.end()
        took = time.monotonic() - start
        it.process.send_signal(signal.SIGCONT)
        assert status not in (0, 124) and took > 9 and "the outcome is unknown" in load.said and \
            "disk store fails after " in load.said, f"{took} s: {load.said}"
        nothing_lost(load, found(STORE))
    check_image(IMAGE)


def test_at_a_terminal_the_kernels_log_is_shown_and_patience_counts():
    fresh()
    with server() as it:
        machine = Machine(STORE, "--patience", "10")
        try:
            machine.type("todo add milk; todo\n", "- milk")
            it.process.send_signal(signal.SIGSTOP)
            machine.type("todo add bread\n", r"\] disk store does not answer for \d+ s")
            machine.expect(r"\] disk store fails after \d+ s")
            machine.expect("the outcome is unknown")
        finally:
            machine.kill()
            it.process.send_signal(signal.SIGCONT)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_of_the_network_must_keep_a_second_client_out():
    fresh()
    for options, wanted, text in (["--shared=1"], 0, "hello"), (["--shared=2"], 120, "lets a second client in"), (["-r"], 120, "read alone"):
        port = free_port()
        with server("-p", str(port), "-b", "127.0.0.1", *options):
            for _ in range(2000):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            status, said = run(f"nbd:127.0.0.1:{port}", "echo hello")
            assert status == wanted and text in said, f"{options}: {status} {said}"


class Forgetful:
    """A server whose host loses power: what it had completed and not flushed is gone, and it is there again at once."""

    def __init__(self):
        self.disk, self.cache, self.lock = bytearray(IMAGE_BYTES), {}, threading.Lock()
        self.listener, self.connection, self.forgotten, self.clients = socket.socket(socket.AF_UNIX), None, 0, 0
        with contextlib.suppress(FileNotFoundError):
            os.remove(SOCKET)
        self.listener.bind(SOCKET)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def forget(self):
        with self.lock:
            self.forgotten += len(self.cache)
            self.cache = {}
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def serve(self):
        while True:
            self.connection, _ = self.listener.accept()
            self.clients += 1
            with contextlib.suppress(OSError, struct.error), self.connection, self.connection.makefile("rwb") as stream:
                self.greet(stream)
                while self.answer(stream):
                    pass

    @staticmethod
    def greet(stream):
        stream.write(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
        stream.flush()
        stream.read(4)
        while True:
            _, option, size = struct.unpack(">8sII", stream.read(16))
            stream.read(size)
            reply = lambda kind, data=b"": stream.write(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)
            if option == 7:             # GO: has flags, flush, forced unit access
                reply(3, struct.pack(">HQH", 0, IMAGE_BYTES, 1 | 4 | 8))
            reply(1 if option == 7 else 0x80000001)
            stream.flush()
            if option == 7:
                return

    def answer(self, stream):
        _, flags, kind, handle, at, size = struct.unpack(">IHHQQI", stream.read(28))
        data = stream.read(size) if kind == 1 else b""
        if kind == 2:
            return False
        with self.lock:
            back = self.read(at, size) if kind == 0 else b""
            if kind == 1 and not flags & 1:
                self.cache.update((at + n, data[n:n + 512]) for n in range(0, size, 512))
            elif kind == 1:
                self.write(at, data)
            elif kind == 3:
                for place, sector in self.cache.items():
                    self.disk[place:place + 512] = sector
                self.cache = {}
        stream.write(struct.pack(">IIQ", 0x67446698, 0, handle) + back)
        stream.flush()
        return True

    def read(self, at, size):
        back = bytearray(self.disk[at:at + size])
        for n in range(0, size, 512):
            back[n:n + 512] = self.cache.get(at + n, back[n:n + 512])
        return back

    def write(self, at, data):
        for n in range(0, len(data), 512):
            self.cache.pop(at + n, None)
        self.disk[at:at + len(data)] = data


def forgets(store, *options):
    """Rounds of a server that forgets under load. How many acknowledged commits were lost, and how many sectors forgotten."""
    it = Forgetful()
    load = Load(store, 100000, *options)
    load.more(20)
    for _ in range(ROUNDS):
        load.more(10)
        it.forget()
    load.more(20)
    load.kill()
    clients = it.clients
    status, text = run(STORE, "acknowledged check")
    kept = [int(line.split()[2]) for line in text.splitlines() if line.startswith("found 0 ")]
    it.listener.close()
    assert clients >= ROUNDS, clients
    return (load.last[0] - kept[0] if status == 0 and kept else load.last[0]), it.forgotten


def test_a_server_that_forgets_what_it_had_not_flushed_loses_nothing_acknowledged():
    lost, _ = forgets(STORE, "--patience", "60")
    assert lost <= 0, f"{lost} acknowledged commits are lost"


def test_and_would_if_writes_stayed_in_its_cache():
    """The disk as nobody should have it: a connection that is made again, and a write cache."""
    disk = f"-blockdev driver=nbd,node-name=store,server.type=unix,server.path={SOCKET},reconnect-delay=60 " \
           "-device virtio-blk-pci,drive=store,serial=store,disable-legacy=on,werror=report,rerror=report"
    for _ in range(8):
        lost, forgotten = forgets(None, "--no-store", "--qemu", disk)
        if lost > 0:
            print(f"# {lost} acknowledged commits lost, {forgotten} sectors forgotten")
            return
    raise AssertionError(f"{forgotten} sectors forgotten in the last round, and nothing lost: the test sees nothing")


if __name__ == "__main__":
    tap.run_tests(globals(), turns=2)
