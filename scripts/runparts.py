"""What goes into the machine of scripts/run: programs of --add, and disks as QEMU wants them said."""

import os
import re
import shutil
import socket
import subprocess
import tempfile

import runreplay

BUILD = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build")
KSTORE = os.path.join(BUILD, "host/kstore")
STORE_BYTES_MIN = 512 << 10     # what the store manager can format
GUEST_NAME_MAX = 90             # of a program in the initrd
OWN_LOG_BYTES = 1 << 36         # place for a disk's own log, sparse, behind several that are recorded


class RunError(Exception):
    """A run that cannot start; the text says what to do."""


def need_file(path, hint):
    if not os.path.exists(path):
        raise RunError(f"{os.path.relpath(path)} is missing: {hint}")
    return path


def added_programs(args):
    """Pairs (path on the host, name in the guest) of --add."""
    pairs = []
    for text in args.add:
        path, _, name = text.partition(":")
        name = name or os.path.basename(path)
        if not os.path.exists(path):
            raise RunError(f"--add {path}: no such file")
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            raise RunError(f"--add {path}: no file that can be read")
        if "/" in name or name in ("", ".", "..") or len(os.fsencode(name)) > GUEST_NAME_MAX:
            raise RunError(f"--add {text}: a name in the guest's /bin has at most {GUEST_NAME_MAX} bytes, and no slash")
        pairs.append((path, name))
    return pairs


# --- disks ---

def more_stores(args):
    """Pairs (name, file) of the store disks beside the first."""
    named = [("store2", args.store2), ("store3", args.store3), ("store4", args.store4)]
    return [(name, path) for name, path in named if path is not None]


def size_bytes(text):
    match = re.fullmatch(r"(\d+)([KMGT]?)", text.upper())
    if not match:
        raise RunError(f"{text}: a size is a number with K, M, G or T")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2]]


def make_blank(path, size):
    with open(path, "wb") as disk:
        disk.truncate(size)


def make_import(directory, scratch):
    if os.path.isfile(directory):
        return directory                # an archive, or any image, is taken as it is
    if not os.path.isdir(directory):
        raise RunError(f"--import {directory}: no such folder")
    path = os.path.join(scratch, "import.tar")
    tar = subprocess.run(["tar", "--format=ustar", "--sort=name", "-C", directory, "-cf", path, "."],
                         stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if tar.returncode:
        raise RunError(f"--import {directory}: {(tar.stderr.strip() or 'tar fails').splitlines()[0]}")
    return path


def option_path(path):
    return path.replace(",", ",,")      # how QEMU quotes a comma


def disk(args, name, more="", device=""):
    """The guest finds a disk by its serial; an I/O error is the guest's to handle."""
    node, replayed = name, []
    if args.rr:
        node = name + "-replay"
        replayed = ["-blockdev", f"driver=blkreplay,node-name={node},image={name}{more}"]
    return replayed + ["-device", f"virtio-blk-pci,drive={node},serial={name},disable-legacy=on,"
                       "werror=report,rerror=report" + device]


def file_disk(args, name, path, more=""):
    return ["-blockdev", f"node-name={name},driver=file,filename={option_path(path)}{more}"] + \
        disk(args, name, more)


def store_disk(args, scratch, name, path, more=""):
    """Of a file, made if missing, or on a block engine."""
    if name in args.engines.engines:
        words = args.engines.begin(name)
        return words + disk(args, name, device=args.engines.engines[name].device)
    return file_disk(args, name, store_file(args, scratch, name, path), more)


def store_file(args, scratch, name, path):
    """A store disk's file, made if missing; a replay works on a copy of the one that was kept."""
    if args.replay:
        kept, path = path, os.path.join(scratch, name)
        runreplay.copy_disk(kept, path)
    elif not os.path.exists(path):
        size = size_bytes(args.store_size)
        if size < STORE_BYTES_MIN:
            raise RunError(f"--store-size {args.store_size}: a store has 512K at least; say K, M, G or T")
        make_blank(path, size)
    if args.replay_record:
        runreplay.copy_disk(path, os.path.join(args.rr, name))
    return path


def span_make(args):
    """The disks of a store over several are made together, or are all there."""
    paths = [args.store] + args.span
    there = [os.path.exists(path) for path in paths]
    if not any(there):
        tool = need_file(KSTORE, "build it with `make`")
        subprocess.run([tool, "create", "--size", str(size_bytes(args.store_size) >> 20)] + paths, check=True)
    elif not all(there):
        raise RunError(f"{paths[there.index(False)]} is missing: give all disks of the store, or none that is there")


def span_disks(args):
    options = []
    for number, path in enumerate(args.span, 2):
        options += file_disk(args, f"store.{number}", path)
    return options


def further_stores(args, scratch):
    options = span_disks(args) if not args.record else []
    for name, path in [] if args.record else more_stores(args):
        options += store_disk(args, scratch, name, path)
    return options


def backup_disk(args, store):
    """The copy is one disk like the store's, or like all of them; one that is there keeps its size."""
    if args.backup is None:
        return []
    if not os.path.exists(args.backup):
        make_blank(args.backup, args.engines.engines["store"].size if "store" in args.engines.engines else
                   sum(map(os.path.getsize, [store] + args.span)))
    return file_disk(args, "backup", args.backup)


def store_options(args, scratch):
    if args.no_store:
        return []
    more = ",cache.no-flush=on" if args.store is None else ""
    if args.span:
        span_make(args)
    path = args.store or os.path.join(scratch, "store")
    if not args.record:
        return store_disk(args, scratch, "store", path, more) + further_stores(args, scratch) + backup_disk(args, path)
    path = store_file(args, scratch, "store", path)
    more_disks = further_stores(args, scratch) + backup_disk(args, path)
    make_blank(args.record, 0)          # an old log is not truncated: its entries would be read
    for name, other in more_stores(args):
        store_file(args, scratch, name, other)
    if args.span or more_stores(args):
        return whole_disks(args, whole_serve(args, scratch)) + more_disks
    return ["-blockdev", f"node-name=data,driver=file,filename={option_path(path)}",
            "-blockdev", f"node-name=log,driver=file,filename={option_path(args.record)}",
            "-blockdev", "driver=blklogwrites,node-name=store,file=data,log=log,log-sector-size=512"] + \
        disk(args, "store") + more_disks


def whole_copy(source, source_at, target, target_at, size):
    with open(source, "rb") as old, open(target, "r+b") as new:
        old.seek(source_at)
        new.seek(target_at)
        while size:
            data = old.read(min(size, 1 << 20))
            new.seek(len(data), os.SEEK_CUR) if not any(data) else new.write(data)
            size -= len(data)


def whole_places(args):
    """(path, its place in the whole, bytes) of each disk that is recorded: of a store over several, or of several
    stores."""
    paths = [args.store] + args.span + [path for _, path in more_stores(args)]
    sizes = [os.path.getsize(path) for path in paths]
    return [(path, sum(sizes[:i]), size) for i, (path, size) in enumerate(zip(paths, sizes))]


def whole_serve(args, scratch):
    """Several disks in one file, one after the other, so that one log has the order of all their writes. Behind them is
    place for a log of each disk's own. QEMU lets nothing else write where it writes a log, so another process has the file.
    Returns the place of the socket where it listens."""
    whole = os.path.join(scratch, "whole")
    places_of = whole_places(args)
    make_blank(whole, sum(size + OWN_LOG_BYTES for _, _, size in places_of))
    for path, at, size in places_of:
        whole_copy(path, 0, whole, at, size)
    files = ",".join(f"{child}.driver=file,{child}.filename={option_path(path)}" for child, path in (("file", whole), ("log", args.record)))
    if not shutil.which("qemu-nbd"):
        raise RunError("qemu-nbd is missing, which several disks are recorded with: scripts/setup test")
    args.whole_place = tempfile.mkdtemp(prefix="katydid-")
    place = os.path.join(args.whole_place, "whole")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        args.whole_server = subprocess.Popen(   # it takes what listens already, as systemd passes it: nobody waits
            ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS=1 exec qemu-nbd "$@" 3<&{listening.fileno()}', "sh", "--shared=0", "--image-opts",
             f"driver=blklogwrites,log-sector-size=512,{files}"], pass_fds=[listening.fileno()], start_new_session=True)
    return option_path(place)


def whole_end(args):
    """When it has ended, what was recorded is in the files. QEMU has ended by now, if it began."""
    server, args.whole_server = args.whole_server, None
    if server:
        server.terminate()
        server.wait()
    if args.whole_place:
        shutil.rmtree(args.whole_place, ignore_errors=True)


def whole_disks(args, place):
    """Each disk is a part of the file that is recorded. A flush of a part is one of the whole to QEMU, and says not whose
    it was; so each disk has a log of its own, in the same file: the log of that has where each flush of each disk
    ended (scripts/cut --part)."""
    options = []
    names = ["store"] + [f"store.{number}" for number in range(2, len(args.span) + 2)] + [name for name, _ in more_stores(args)]
    end = sum(size for _, _, size in whole_places(args))
    for number, (name, (_, at, size)) in enumerate(zip(names, whole_places(args))):
        for node, offset, length in (f"part{number}", at, size), (f"own{number}", end + number * OWN_LOG_BYTES, OWN_LOG_BYTES):
            options += ["-blockdev", f"driver=raw,node-name={node},offset={offset},size={length},"
                        f"file.driver=nbd,file.server.type=unix,file.server.path={place}"]
        options += ["-blockdev", f"driver=blklogwrites,node-name={name},file=part{number},log=own{number},log-sector-size=512"]
        options += disk(args, name, device=",share-rw=on")
    return options


def whole_split(args, scratch):
    whole_end(args)
    for path, at, size in whole_places(args):
        make_blank(path, size)
        whole_copy(os.path.join(scratch, "whole"), at, path, 0, size)
