#!/usr/bin/env python3
"""Disks that take their time: files served by NBD, as disks with a service time on controllers that they share.

  slow-disks.py FOLDER CONTROLLERS SEEK_US TRANSFER_US FILE...

FOLDER/0, FOLDER/1, ... are the sockets of the files' disks, FOLDER/signal that of a small disk of its own; `ready` is
printed when all listen. While the first byte that was written to the signal disk is 1, a read occupies its disk for
SEEK_US microseconds, then disk and controller for TRANSFER_US; disk i is at controller i % CONTROLLERS. Writes and all
other reads take no time. It ends when its standard input does.
"""

import os
import socket
import struct
import sys
import threading
import time

READ, WRITE, DISCONNECT = 0, 1, 2
OPTION_GO, REPLY_ACK, REPLY_INFO, REPLY_UNSUPPORTED = 7, 1, 3, 0x80000001
HAS_FLAGS, SEND_FLUSH = 1, 4
SIGNAL_BYTES = 4096


class Resource:
    """A disk's arm, or a controller: does one thing at a time."""

    def __init__(self):
        self.lock, self.free_at = threading.Lock(), 0.0

    def reserve(self, start, seconds):
        """When it has done that, begun at `start` or when it is free."""
        with self.lock:
            self.free_at = max(start, self.free_at) + seconds
            return self.free_at


class Disk:
    slow = False

    def __init__(self, path, controller, seek_s, transfer_s):
        self.file = os.open(path, os.O_RDWR) if path else None
        self.bytes = os.fstat(self.file).st_size if path else SIGNAL_BYTES
        self.controller, self.seek_s, self.transfer_s = controller, seek_s, transfer_s

    def read(self, offset, length):
        if self.file is None:
            return bytes(length)
        if Disk.slow:
            ready = time.monotonic() + self.seek_s
            end = self.controller.reserve(ready, self.transfer_s)
            time.sleep(max(0.0, end - time.monotonic()))
        data = os.pread(self.file, length, offset)
        return data + bytes(length - len(data))

    def write(self, offset, data):
        if self.file is None:
            Disk.slow = data[0] == 1
        else:
            os.pwrite(self.file, data, offset)


def take(link, count):
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def greet(link, disk):
    link.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    take(link, 4)
    while True:
        magic, option, length = struct.unpack(">8sII", take(link, 16))
        assert magic == b"IHAVEOPT"
        take(link, length)

        def answer(kind, data=b"", option=option):
            link.sendall(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)
        if option == OPTION_GO:
            answer(REPLY_INFO, struct.pack(">HQH", 0, disk.bytes, HAS_FLAGS | SEND_FLUSH))
            answer(REPLY_ACK)
            return
        answer(REPLY_UNSUPPORTED)


def serve(link, disk):
    """One thread for each disk: a request waits for the one before."""
    greet(link, disk)
    while True:
        _, _, kind, handle, offset, length = struct.unpack(">IHH8sQI", take(link, 28))
        if kind == DISCONNECT:
            return
        data = b""
        if kind == WRITE:
            disk.write(offset, take(link, length))
        elif kind == READ:
            data = disk.read(offset, length)
        link.sendall(struct.pack(">II8s", 0x67446698, 0, handle) + data)


def listen(path, disk):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)

    def accept():
        while True:
            link, _ = server.accept()
            try:
                serve(link, disk)
            except (EOFError, ConnectionError):
                link.close()
    threading.Thread(target=accept, daemon=True).start()


def main(words):
    if len(words) < 5:
        sys.exit(__doc__.strip())
    folder, controllers, seek_us, transfer_us, files = words[0], int(words[1]), *map(float, words[2:4]), words[4:]
    shared = [Resource() for _ in range(controllers)]
    for i, path in enumerate(files):
        listen(os.path.join(folder, str(i)), Disk(path, shared[i % controllers], seek_us / 1e6, transfer_us / 1e6))
    listen(os.path.join(folder, "signal"), Disk(None, None, 0, 0))
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
