"""runengine.py - a store of scripts/run on a block engine: Ceph's RBD, or an NBD server (disk/ceph.md).

Never do two machines write to one image. Of RBD, rules:
  EN1  A lock in the image's pool names who may write; who has it not ends before its guest runs.
  EN2  Who takes the lock blocklists every client of the image that there was: watchers, owner of the exclusive lock, and
       those that EN3 noted. Only then is the image opened.
  EN3  The guest stands still when the image has been opened; its client is noted beside the lock, and then that is looked at
       once more. So whoever takes the lock later finds the client, though it may have been cut off for an hour by then.
NBD has neither locks nor fences: a lock file of this host, and a server that lets nobody in beside us.
"""

import contextlib
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading

from runparts import RunError, option_path, size_bytes

ENGINE = re.compile(r"rbd:|nbd:|nbd://|nbd\+unix://")
COMMAND_S = 30                  # what a command of Ceph's may take: a cluster without a majority answers nothing
OPEN_S = 60                     # what QEMU may take to open its disks
ENDED_S, FENCED_S = 3600, 30 * 86400    # how long a client is kept away: one that has ended; one that may wake
PATIENCE_MIN_S = 10             # the guest's kernel says nothing earlier (BK5)
ATTEMPTS = 3
SAID = re.compile(rb"^\[ *\d+\.\d+\] (disk (\S+) (?:(does not answer) for (\d+) s|(?:answers|fails) after \d+ s))\r?$")


def is_engine(address):
    return bool(address and ENGINE.match(address))


def add_options(add):
    add("--patience", metavar="S", type=int, help="a store on a block engine that does not answer for so long, 10 s or more, has failed: commits "
        "say \"outcome unknown\" (for ever: they wait)")
    add("--takeover", action="store_true", help="a store on a block engine is taken from the machine that has it, which cannot write any more")


def check(parser, args):
    """Ends with what is wrong about the options."""
    named = {name: path for name, path in (("store", args.store), ("store2", args.store2), ("store3", args.store3),
                                           ("store4", args.store4)) if is_engine(path)}
    for path in args.span + [args.backup, args.record]:
        if is_engine(path):
            parser.error(f"{path}: only --store, --store2, --store3, --store4 may be on a block engine")
    if named and (args.rr or args.record or args.span):
        parser.error(f"{next(iter(named.values()))}: not with --record, --replay-record or --span: these are of files")
    if not named and (args.patience is not None or args.takeover):
        parser.error("--patience, --takeover: of a store on a block engine, rbd:POOL/IMAGE or nbd:HOST:PORT")
    if args.patience is not None and args.patience < PATIENCE_MIN_S:
        parser.error(f"--patience {args.patience}: seconds, {PATIENCE_MIN_S} at least")
    try:
        args.engines = Engines(args, {name: (Rbd if path.startswith("rbd:") else Nbd)(name, path, args) for name, path in named.items()})
    except RunError as error:
        parser.error(str(error))


# --- who owns an image ------------------------------------------------------------------------------------------------

def this_host():
    """Names the space in which a process number means something: a host's boot and, on it, a container."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        return f"{socket.gethostname()} {boot.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def started_at(pid):
    """Of a process, in ticks: with its number it names the process for as long as the host is up. None: there is none."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[19])
    return None


class Owner:
    """Who may write to an image. The image is asked by `image`, which has the methods of Rbd below the line there."""

    def __init__(self, image, takeover):
        self.image, self.takeover = image, takeover
        self.nonce, self.has = os.urandom(8).hex(), False
        self.before = set()             # clients that were kept away

    def take(self):
        """The lock is ours, and no client of before can write (EN1, EN2)."""
        said = json.dumps({"host": this_host(), "pid": os.getpid(), "start": started_at(os.getpid())})
        for _ in range(ATTEMPTS):
            if self.image.lock_get(self.nonce, said):
                self.has = True
                break
            holder = self.image.lock_holder()
            if holder is not None:
                self.may_break(holder["description"])
                self.image.lock_break(holder)
        else:
            raise RunError(f"{self.image.address}: others take it at the same time; it is theirs")
        self.fence()

    def may_break(self, said):
        """Ends if the lock's owner may be alive, and nobody said that the store is to be taken from it."""
        try:
            owner = json.loads(said)
            host, pid, start = owner["host"], int(owner["pid"]), owner["start"]
        except (ValueError, TypeError, KeyError, OverflowError):
            host, pid, start = "?", 0, None
        here = host == this_host()
        if self.takeover or (here and (started_at(pid) is None or started_at(pid) != start)):
            return
        where = f"process {pid} of this host" if here else f"a machine of the host {str(host).split(' ', 1)[0]}"
        raise RunError(f"{self.image.address}: the store is in use by {where}: leave that one first (`halt`), or take the store "
                       "from it with --takeover")

    def fence(self):
        noted, ended = self.image.notes()
        self.before = self.image.clients() | set(noted.values())
        past = {client for nonce, client in noted.items() if nonce in ended}
        for client in self.before:
            self.image.blocklist(client, ENDED_S if client in past else FENCED_S)
        for nonce in noted.keys() | ended:
            self.image.note_drop(nonce)

    def opened(self):
        """The image is open and the guest stands still: it may run when this returns (EN3)."""
        mine = self.image.clients() - self.before
        if len(mine) != 1:
            raise RunError(f"{self.image.address}: {'nobody' if not mine else 'somebody else, too,'} has the image open; try again")
        self.image.note_client(self.nonce, mine.pop())
        if not self.holds():
            raise RunError(f"{self.image.address}: another machine has taken the store meanwhile")

    def holds(self):
        holder = self.image.lock_holder()
        return holder is not None and holder["cookie"] == self.nonce

    def ended(self):
        """QEMU has ended. Its client is kept away all the same when the next one begins: its last write may be on its way."""
        if not self.has:
            return
        self.image.note_ended(self.nonce)
        holder = self.image.lock_holder()
        if holder is None or holder["cookie"] != self.nonce:
            print(f"scripts/run: {self.image.address}: another machine has taken the store", file=sys.stderr)
            return
        self.image.lock_break(holder)


# --- Ceph's RBD -------------------------------------------------------------------------------------------------------

class Rbd:
    """An image of a Ceph cluster: rbd:POOL/IMAGE[:OPTION=VALUE]..., as QEMU writes it; options are conf, id, and Ceph's own."""

    NAME = r"[A-Za-z0-9_.-]+"

    def __init__(self, name, address, args):
        match = re.fullmatch(rf"rbd:({self.NAME})/({self.NAME})((?::[a-z_]+=[^:]*)*)", address)
        if not match:
            raise RunError(f"{address}: rbd:POOL/IMAGE, then perhaps :conf=FILE, :id=USER and Ceph's options")
        self.name, self.pool, self.image = name, match[1], match[2]
        self.address = f"rbd:{self.pool}/{self.image}"
        self.options = dict(option.split("=", 1) for option in match[3].split(":")[1:])
        self.args, self.object = args, None
        self.owner = Owner(self, args.takeover)
        if args.patience is not None:
            self.options["rados_osd_op_timeout"] = str(args.patience)

    def command(self, program, *words, status=0):
        """What it prints, or None with a status that is expected."""
        flags = [f"--{name}={value}" for name, value in self.options.items() if name != "rados_osd_op_timeout"]
        try:
            done = subprocess.run([program, *flags, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=COMMAND_S, check=False)
        except FileNotFoundError:
            raise RunError(f"{self.address}: the command {program} is missing: scripts/setup ceph") from None
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.address}: the cluster does not answer within {COMMAND_S} s") from None
        if done.returncode == 0:
            return done.stdout
        if done.returncode == status:
            return None
        said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise RunError(f"{self.address}: {program} {words[0]}: {said}")

    def rbd(self, command, *words, **how):
        return self.command("rbd", *command.split(), f"{self.pool}/{self.image}", *words, **how)

    def begin(self):
        """Options of QEMU's disk, and its size."""
        info = self.rbd("info --format json", status=2)
        if info is None:
            self.rbd(f"create --size {-(-size_bytes(self.args.store_size) >> 20)}M --image-feature layering,exclusive-lock", status=17)
            info = self.rbd("info --format json")
        info = json.loads(info)
        if "exclusive-lock" not in info["features"]:
            raise RunError(f"{self.address}: the image has no exclusive lock, so that a machine which was cut off can write once more: "
                           f"rbd feature enable {self.pool}/{self.image} exclusive-lock")
        self.object, self.size = "katydid." + info["id"], info["size"]
        self.owner.take()
        words = [f"rbd:{self.pool}/{self.image}"] + [f"{name}={re.sub(r'([:@=/])', self.escaped, value)}"
                                                     for name, value in self.options.items()]
        return ["-drive", f"if=none,id={self.name},format=raw,cache=none,file={option_path(':'.join(words))}"]

    @staticmethod
    def escaped(match):
        return match[1] if match[1] == "/" else "\\" + match[1]

    device, lock_fd = "", None

    def opened(self):
        self.owner.opened()

    def ended(self):
        self.owner.ended()

    def out_of_patience(self, _):
        """Nothing: the cluster's client counts the time."""

    # ---- what Owner asks ----

    def lock(self, command, *words, **how):
        return self.command("rados", "-p", self.pool, "lock", command, self.object, "owner", *words, **how)

    def lock_get(self, cookie, said):
        with self.exists(" (16) "):
            self.lock("get", "--lock-cookie", cookie, "--lock-description", said)
            return True
        return False

    @staticmethod
    @contextlib.contextmanager
    def exists(code):
        """A command whose failure by this error of Ceph's says something. The status of `rados` is 1 for all of them."""
        try:
            yield
        except RunError as error:
            if code not in str(error):
                raise

    def lock_holder(self):
        with self.exists(" (2) "):
            lockers = json.loads(self.lock("info"))["lockers"]
            return lockers[0] if lockers else None
        return None

    def lock_break(self, holder):
        with self.exists(" (2) "):
            self.lock("break", holder["name"], "--lock-cookie", holder["cookie"])

    def clients(self):
        watchers = json.loads(self.rbd("status --format json"))["watchers"]
        lockers = json.loads(self.rbd("lock ls --format json"))
        return {each["address"] for each in watchers + lockers}

    def rados(self, command, *words):
        return self.command("rados", "-p", self.pool, command, self.object, *words)

    def notes(self):
        """Clients by the nonces of those who noted them, and the nonces of those that have ended."""
        keys = [key.split(" ") for key in self.rados("listomapkeys").splitlines()]
        return ({key[1]: key[2] for key in keys if key[0] == "client" and len(key) == 3},
                {key[1] for key in keys if key[0] == "ended" and len(key) == 2})

    def note_client(self, nonce, client):
        self.rados("setomapval", f"client {nonce} {client}", "1")

    def note_ended(self, nonce):
        self.rados("setomapval", f"ended {nonce}", "1")

    def note_drop(self, nonce):
        """The client first: one without `ended` is kept away for longer."""
        for key in self.rados("listomapkeys").splitlines():
            if key.startswith(f"client {nonce} "):
                self.rados("rmomapkey", key)
        self.rados("rmomapkey", f"ended {nonce}")

    def blocklist(self, client, seconds):
        self.command("ceph", "osd", "blocklist", "add", client, str(seconds))


# --- NBD --------------------------------------------------------------------------------------------------------------

MAGIC, OPTION_MAGIC, REPLY_MAGIC = b"NBDMAGIC", b"IHAVEOPT", 0x3e889045565a9
GO, ACK, INFO, INFO_EXPORT, READ_ONLY = 7, 1, 3, 0, 2
GREETING_S, SECOND_S = 10, 1    # what a server may take to greet; after what time a second client counts as kept waiting
ANSWER_MAX, ANSWERS_MAX, SAID_MAX = 1 << 16, 32, 200


class Refused(Exception):
    """A server does not let us in; the text says what it said."""


def read(stream, count):
    data = stream.read(count)
    if len(data) < count:
        raise Refused("it ends the connection")
    return data


def enter(connection, export):
    """Opens an export on a connection that was made (the protocol's newstyle negotiation): (bytes, flags)."""
    with connection.makefile("rwb") as stream:
        if read(stream, 16) != MAGIC + OPTION_MAGIC:
            raise Refused("it is no NBD server of today's")
        read(stream, 2)
        name = export.encode()
        data = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        stream.write(struct.pack(">I", 3) + OPTION_MAGIC + struct.pack(">II", GO, len(data)) + data)
        stream.flush()
        found = None
        for _ in range(ANSWERS_MAX):
            magic, option, kind, size = struct.unpack(">QIII", read(stream, 20))
            if magic != REPLY_MAGIC or option != GO or size > ANSWER_MAX:
                raise Refused("its answer makes no sense")
            payload = read(stream, size)
            if kind == INFO and size == 12 and payload[:2] == struct.pack(">H", INFO_EXPORT):
                found = struct.unpack(">QH", payload[2:])
            elif kind == ACK:
                if found is None:
                    raise Refused("it says no size")
                return found
            elif kind != INFO:
                said = payload[:SAID_MAX].decode("utf-8", "replace").strip() or f"error {kind & 0x7fffffff}"
                raise Refused("".join(letter if letter.isprintable() else " " for letter in said))
        raise Refused("its answers have no end")


class Nbd:
    """A disk that an NBD server exports: nbd:HOST:PORT[:exportname=NAME], nbd:unix:PATH[:exportname=NAME], nbd://HOST[:PORT]/NAME."""

    FORMS = "nbd:HOST:PORT, nbd:unix:PATH (each perhaps with :exportname=NAME), nbd://HOST[:PORT]/NAME or nbd+unix:///NAME?socket=PATH"

    def __init__(self, name, address, args):
        self.name, self.address, self.args = name, address, args
        self.lock_fd = None
        match = (re.fullmatch(r"nbd:unix:(?P<path>[^:]+)(?::exportname=(?P<export>.*))?", address) or
                 re.fullmatch(r"nbd:(?P<host>\[[0-9a-fA-F:]+\]|[^:/\[]+):(?P<port>\d+)(?::exportname=(?P<export>.*))?", address) or
                 re.fullmatch(r"nbd://(?P<host>\[[0-9a-fA-F:]+\]|[^:/\[]+)(?::(?P<port>\d+))?/?(?P<export>.*)", address) or
                 re.fullmatch(r"nbd\+unix:///(?P<export>[^?]*)\?socket=(?P<path>.+)", address))
        if not match:
            raise RunError(f"{address}: {self.FORMS}")
        parts = match.groupdict()
        self.export = parts["export"] or ""
        self.path = parts.get("path")
        self.host, self.port = (parts.get("host") or "").strip("[]"), int(parts.get("port") or 10809)
        if self.path is None and not 0 < self.port < 1 << 16:
            raise RunError(f"{address}: a port is from 1 to 65535")

    def connect(self, seconds):
        try:
            if self.path is None:
                return socket.create_connection((self.host, self.port), seconds)
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(seconds)
            connection.connect(self.path)
            return connection
        except OSError as error:
            raise RunError(f"{self.address}: nobody answers there: {error.strerror or error}") from None

    def begin(self):
        if self.args.takeover:
            raise RunError(f"{self.address}: NBD has no way to keep a machine away: end it, or its server, then run without --takeover")
        self.lock_file()
        with self.connect(GREETING_S) as first:
            try:
                self.size, flags = enter(first, self.export)
            except TimeoutError:
                raise RunError(f"{self.address}: the server does not greet within {GREETING_S} s: another client has it, or it hangs") from None
            except (Refused, OSError) as error:
                raise RunError(f"{self.address}: the server refuses: {error}") from None
            if flags & READ_ONLY:
                raise RunError(f"{self.address}: the server exports it to be read alone")
            if self.path is None:
                self.check_alone()
        where = f"server.type=unix,server.path={option_path(self.path)}" if self.path is not None else \
            f"server.type=inet,server.host={option_path(self.host)},server.port={self.port}"
        return ["-blockdev", f"driver=nbd,node-name={self.name},{where},export={option_path(self.export)},"
                f"reconnect-delay={self.args.patience or 0}"]

    @property
    def device(self):
        """A connection that is made again may be to a server that has forgotten what it completed: then each write must be durable."""
        return ",write-cache=off" if self.args.patience else ""

    def lock_file(self):
        """Two machines of this host; whoever has a socket's path is of this host, too. The lock goes with the last process that has it."""
        at = os.path.realpath(self.path) if self.path is not None else f"{self.host}:{self.port}"
        folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"katydid-locks-{os.getuid()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.stat(folder).st_uid != os.getuid():
            raise RunError(f"{folder}: it belongs to somebody else")
        import hashlib                  # here: it costs each start of a guest 5 ms
        name = hashlib.sha256(f"{at}\0{self.export}".encode()).hexdigest()[:32]
        self.lock_fd = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"{self.address}: the store is in use by another machine of this host: leave that one first (`halt`)") from None

    def check_alone(self):
        """A server of the network must keep others away while we are there."""
        with self.connect(SECOND_S) as second, contextlib.suppress(Refused, OSError):
            enter(second, self.export)
            raise RunError(f"{self.address}: the server lets a second client in, so that two machines could write: let it serve one "
                           "(qemu-nbd --shared=1, nbdkit --filter=limit)")

    def opened(self):
        """Nothing: the server lets nobody in beside us."""

    def ended(self):
        if self.lock_fd is not None:
            os.close(self.lock_fd)
            self.lock_fd = None

    def out_of_patience(self, monitor):
        """A server that hangs is given up as if the connection had ended; one that has gone is by QEMU's reconnect-delay."""
        monitor.ask("yank", instances=[{"type": "block-node", "node-name": self.name}])


# --- what scripts/run does with them ----------------------------------------------------------------------------------

class Monitor:
    """QEMU's, by QMP."""

    def __init__(self):
        self.here, self.there = socket.socketpair()
        self.stream, self.lock = self.here.makefile("rwb"), threading.Lock()

    def greet(self):
        """Whether QEMU has come so far: its disks are open then."""
        self.there.close()
        self.here.settimeout(OPEN_S)
        try:
            greeted = bool(self.stream.readline())
        except TimeoutError:
            raise RunError(f"QEMU does not open the store's disk within {OPEN_S} s") from None
        self.here.settimeout(None)
        return greeted and self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        """Whether it did so."""
        with self.lock, contextlib.suppress(OSError, ValueError):
            self.stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
            self.stream.flush()
            while line := self.stream.readline():
                answer = json.loads(line)
                if "return" in answer or "error" in answer:
                    return "return" in answer
        return False


class Engines:
    """All of a run, from its start to its end."""

    def __init__(self, args, engines):
        self.engines, self.patience = engines, args.patience
        self.waits = not args.gdb       # with a debugger it is the one who lets the guest run
        self.monitor = Monitor() if self.engines else None
        self.timers, self.begun = {}, []
        self.log_read = self.log_write = None
        self.log = bytearray()

    def begin(self, name):
        """The words of QEMU for one of them."""
        self.begun.append(self.engines[name])
        return self.engines[name].begin()

    def options(self):
        if not self.engines:
            return []
        fd = self.monitor.there.fileno()
        return ["-S", "-chardev", f"socket,id=engine,fd={fd}", "-mon", "chardev=engine,mode=control"]

    def log_options(self):
        """Of QEMU at a terminal: the kernel's log comes by us, so that no program can say what the kernel says of a disk."""
        if not self.engines:
            return []
        self.log_read, self.log_write = os.pipe()
        return ["-chardev", f"file,id=com2,path=/dev/fd/{self.log_write}", "-serial", "chardev:com2"]

    def show_log(self):
        """Until QEMU ends, on the terminal."""
        os.close(self.log_write)
        self.log_write = None
        rest = b""
        with os.fdopen(self.log_read, "rb", buffering=0) as log:
            while chunk := log.read(65536):
                self.log += chunk
                with contextlib.suppress(OSError):
                    os.write(sys.stdout.fileno(), chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self.heard(line, None)

    def fds(self):
        """What QEMU gets of ours: its monitor, the log, and the locks, which it keeps should we be killed."""
        log = [self.log_write] if self.log_write is not None else []
        return log + [self.monitor.there.fileno(), *(each.lock_fd for each in self.begun if each.lock_fd is not None)] if self.engines else []

    def opened(self):
        """QEMU was started: the guest runs when every image is ours."""
        if not self.engines or not self.monitor.greet():
            return                      # it says itself what it lacks
        if self.log_write is not None:
            threading.Thread(target=self.show_log, daemon=True).start()
        for engine in self.begun:
            engine.opened()
        if self.waits:
            self.monitor.ask("cont")

    def heard(self, line, stream):
        """A line of the kernel's log: what it says of a disk of ours is shown, and may be the end of patience."""
        match = SAID.match(line)
        if not match or match[2].decode() not in self.engines:
            return
        if stream:
            print(f"scripts/run: {match[1].decode()}", file=stream, flush=True)
        name = match[2].decode()
        if not match[3] and name in self.timers:
            self.timers.pop(name).cancel()
        elif match[3] and self.patience and name not in self.timers:
            rest = max(self.patience - int(match[4]), 0)
            self.timers[name] = threading.Timer(rest, self.engines[name].out_of_patience, [self.monitor])
            self.timers[name].daemon = True
            self.timers[name].start()

    def ended(self):
        """QEMU has ended, or was never started."""
        for timer in self.timers.values():
            timer.cancel()
        for engine in self.begun:
            try:
                engine.ended()
            except RunError as error:
                print(f"scripts/run: {error}", file=sys.stderr)
        self.begun = []
