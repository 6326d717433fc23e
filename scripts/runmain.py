"""Boot Katydid in QEMU. This is the one place that knows QEMU's command line.

  scripts/run                                        boot to a shell on this terminal; Ctrl-] X leaves
  scripts/run -c 'echo hello'                        run commands, print only their output
  scripts/run --store FILE --import DIR --add PROGRAM -c 'PROGRAM /import'

The guest has the host's date, but not with --seed, --icount or a recording: these begin in 1970.
With -c the exit status is that of the last command. These end the run with another one, with the
reason and source lines on stderr:
  120 could not start    121 --kill-on text never came    122 panic    123 fault or reset
  124 timeout            141 nobody reads stdout any more    2 usage
After --kill-on has killed the machine the status is 0.
"""

import argparse
import contextlib
import os
import re
import select
import selectors
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

import places
import runengine
import runreplay
import runsites
from runlines import Output, SourceLines, where_it_hangs
from runparts import (RunError, added_programs, file_disk, make_blank, make_import, more_stores, need_file, option_path,
                      store_options, whole_end, whole_split)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
KERNEL = os.path.join(BUILD, "kernel.elf")
INITRD = os.path.join(BUILD, "initrd.tar")
STRETCH = os.path.join(BUILD, "tests/stretch.so")
# of the kernel, for tests/stretch: where user mode is left; what serves shootdowns and yields, or runs another thread;
# the call that ends a row
STRETCH_PLACES = {"entry": ["trap_common", "trap_page_fault_entry", "trap_syscall_entry"],
                  "point": ["arch_serve_shootdown", "sched_next", "thread_call_and_park", "thread_answer_and_park",
                            "thread_ask_and_park", "arch_idle"], "mark": ["linux_getppid"]}
ISO = os.path.join(BUILD, "katydid.iso")
CPUS_MAX = 8                    # kernel/arch.h
MEMORY_MIN_MIB, MEMORY_MAX_MIB = 16, 1 << 20
LARGE_PROGRAM = 224 << 10               # bytes
TAR_BLOCK, PAGE = 512, 4096
SITE_PROGRAMS = "link", "remote", "agent", "witness"
ALWAYS = "init", "store", "sh", "link", "agent", "remote", "witness"       # programs that others start
OVMF = ["OVMF_CODE_4M.fd", "OVMF_CODE.fd"]

EXIT_START, EXIT_KILL_ON, EXIT_PANIC, EXIT_FAULT, EXIT_TIMEOUT = 120, 121, 122, 123, 124
EXIT_PIPE = 128 + signal.SIGPIPE
QEMU_CLEAN, QEMU_PANIC = 33, 65         # isa-debug-exit: value * 2 + 1, of 0x10 and 0x20
DEFAULT_TIMEOUT_S = 120
LATE_S = 0.1                    # what is less than that does not lengthen a run's time
EXPORT_BYTES = 256 << 20
# what a store manager says when it does not serve its disk, or not to write; with -c nobody sees the log
STORE_TROUBLE = re.compile(r"\bstore[234]?\[\d+\]: (store[234]?: (?:refused|DAMAGED|the blank disk is left|the blank disk cannot).*)")
GUEST_LISTENS = b"Katydid: memory that stays"    # user/init's banner: the console takes keys by now
GUEST_STARTS = b"--- katydid starts ---\n\r"     # printed by the GRUB of a scripted ISO
LOG_TAIL_LINES = 30
ESCAPE_KEY = 0x1d                       # Ctrl-], as telnet's; QEMU's own, Ctrl-A, is the shell's "begin of line"


def arguments():
    parser = argparse.ArgumentParser(
        prog="scripts/run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-c", metavar="COMMANDS", dest="commands", help="run COMMANDS in the guest's shell; programs over 216 KiB (sqlite, map) "
        "are there if COMMANDS name them")
    add("--allow", metavar="WHAT", help="what the programs of -c may: disks,names,processes,look (`allow` of the "
        "shell), all or none (none)")
    add("--store", metavar="FILE", help="the store disk, made if missing (default: a blank one "
        "that is thrown away); rbd:POOL/IMAGE[:conf=FILE], nbd:HOST:PORT or nbd:unix:PATH: on a block engine (disk/ceph.md)")
    runengine.add_options(add)
    add("--store-size", metavar="SIZE", default="1G", help="size of a new store (1G)")
    add("--no-store", action="store_true", help="no store disk at all")
    add("--store2", metavar="FILE", help="a second store disk, made if missing: programs find it with "
        "ps_connect(\"store2\"), or with PS_STORE=store2 in their environment")
    for n in (3, 4):
        add(f"--store{n}", metavar="FILE", help=f"a further store disk, \"store{n}\"")
    add("--span", metavar="FILE", action="append", default=[], help="one disk more of the store that begins on --store FILE: one "
        "store over 2 to 4 disks; all are made if none is there")
    add("--backup", metavar="FILE", help="a disk for `store backup`, made if missing, as large as the store's")
    add("--import", metavar="DIR", dest="import_dir", help="attach a copy of DIR, read only")
    add("--export", metavar="DIR", help="bring what lies under /export at the end to DIR")
    add("--add", metavar="PROGRAM[:NAME]", action="append", default=[],
        help="put a program into the guest's /bin; repeatable")
    add("--cpus", type=int, metavar="N", help="(CPUS of the environment, or 2; 1 with "
        "--replay-record)")
    add("--memory", default="256", metavar="MIB")
    add("--accel", default=os.environ.get("ACCEL", "tcg"), metavar="tcg|kvm")
    add("--icount", action="store_true", help="count instructions exactly, on one thread")
    add("--stretch", metavar="N[,FILE[,COUNTS]]", help="with --icount and --cpus 1: end where the kernel runs N instructions without "
        "serving shootdowns (0: nowhere); FILE: a line at each getppid, the most since the last one; COUNTS: how often "
        "each instruction of the kernel ran since, for tests/bench/parts.py")
    add("--seed", type=int, metavar="N", help="all that is random in the guest comes from N; with "
        "--icount and --cpus 1 a run without disks repeats to the instruction")
    add("--replay-record", metavar="DIR", help="record the run, disks and keys included, for ...")
    add("--replay", metavar="DIR", help="... running it once more, also with --gdb")
    add("--record", metavar="FILE", help="write QEMU's log of the store's writes (see scripts/cut)")
    add("--timeout", type=float, metavar="S", help="seconds, without those for which it waits for a processor of "
        "the host (0: for ever; 120 unless interactive)")
    add("--kill-on", metavar="TEXT", help="SIGKILL QEMU when the guest prints TEXT")
    add("--iso", action="store_true", help="boot through GRUB instead of directly")
    add("--uefi", action="store_true", help="boot the ISO by OVMF; implies --iso")
    add("--kernel", metavar="FILE", default=KERNEL, help="another kernel, booted directly")
    add("--append", metavar="TEXT", action="append", default=[],
        help="more words for the kernel's command line")
    add("--gdb", nargs="?", const=1234, type=int, metavar="PORT", help="wait for gdb (1234)")
    add("--log", metavar="FILE", help="keep the kernel's log (with -c)")
    add("--wild", action="store_true", help="a program of the guest may have words of memory changed from outside "
        "(tests/guest/lib/wild.h)")
    runsites.add_options(add)
    add("--qemu", metavar="OPTIONS", default="", help="more options for QEMU")
    add("--verbose", action="store_true", help="show QEMU's command line, and how long it ran")
    args = parser.parse_args()
    args.iso = args.iso or args.uefi
    if args.replay:
        try:
            runreplay.recorded_arguments(args)
        except OSError as error:
            parser.error(f"--replay: {error.filename}: not a folder that --replay-record made")
    elif args.replay_record and (args.iso or args.cpus not in (None, 1) or args.accel != "tcg"):
        parser.error("--replay-record: QEMU can replay only one CPU, booted directly, by TCG")
    args.rr = args.replay or args.replay_record
    cpus = os.environ.get("CPUS") or "2"
    if not cpus.isdecimal():
        parser.error(f"CPUS={cpus} in the environment: a number of CPUs")
    args.cpus = (1 if args.rr else int(cpus)) if args.cpus is None else args.cpus
    check_ranges(parser, args)
    args.scripted = args.commands is not None or args.kill_on is not None
    args.piped = args.scripted or not sys.stdin.isatty()
    if args.timeout is None:
        args.timeout = DEFAULT_TIMEOUT_S if args.piped else 0
    if args.timeout < 0:
        parser.error("--timeout: a number of seconds, or 0 for ever")
    if args.backup and (args.no_store or args.rr):
        parser.error("--backup: not with --no-store or a recorded run")
    if more_stores(args) and args.no_store:
        parser.error("--store2: there is no second store with --no-store")
    if args.rr and (args.store3 or args.store4):
        parser.error("--store3, --store4: not with a recorded run")
    if args.span and (not args.store or args.rr or len(args.span) > 3):
        parser.error("--span: one to three disks beside --store FILE, and not with a recorded run")
    runsites.check(parser, args)
    runengine.check(parser, args)
    if args.record and args.no_store:
        parser.error("--record: there is nothing to record with --no-store")
    return args


def check_ranges(parser, args):
    """Ends with what is wrong, where QEMU would say it in its own words, or only the guest would notice."""
    if not 1 <= args.cpus <= CPUS_MAX:
        parser.error(f"--cpus {args.cpus}: a number from 1 to {CPUS_MAX}")
    memory = re.fullmatch(r"(\d{1,12})([MG]?)", args.memory.upper())
    mib = memory and int(memory[1]) << (10 if memory[2] == "G" else 0)
    if not memory or not MEMORY_MIN_MIB <= mib <= MEMORY_MAX_MIB:
        parser.error(f"--memory {args.memory}: MiB, from {MEMORY_MIN_MIB} to {MEMORY_MAX_MIB} (or 2G)")
    if args.seed is not None and not 0 <= args.seed < 1 << 32:
        parser.error(f"--seed {args.seed}: a number from 0 to {(1 << 32) - 1}")
    if args.gdb is not None and not 1 <= args.gdb < 1 << 16:
        parser.error(f"--gdb {args.gdb}: a port from 1 to 65535")


# --- what goes into the machine ------------------------------------------------------------------

def tar_member(name, data, mode, kind=b"0"):
    """A file of a tar archive, as its bytes; kind 5: a folder."""
    head = struct.pack("100s8s8s8s12s12s8sc100s8s", name.encode(), b"%07o" % mode, b"0" * 7, b"0" * 7, b"%011o" % len(data),
                       b"0" * 11, b" " * 8, kind, b"", b"ustar\00000").ljust(TAR_BLOCK, b"\0")
    head = head[:148] + b"%06o\0 " % sum(head) + head[156:]
    return head + data + bytes(-len(data) % TAR_BLOCK)


def align_program(archive):
    """So that a member's bytes begin a page, as far as folders that are there already fill it: the kernel then shows programs
    where they lie."""
    folder = tar_member("bin/", b"", 0o755, b"5")
    while archive.tell() and (archive.tell() + TAR_BLOCK) % PAGE:
        archive.write(folder)


def copy_initrd(copy, commands, replaced, site):
    """The built initrd without programs that others replace. It lies in the guest's memory, so large programs and benchmarks that -c
    does not name are left out, too, and what a site needs of a machine that is none. Members are copied as they are: Python's tarfile
    takes a twentieth of a guest's boot for them."""
    needed = ALWAYS + SITE_PROGRAMS if site else ALWAYS
    with open(INITRD, "rb") as built:
        while any(head := built.read(TAR_BLOCK)):
            path, size = head[:100].rstrip(b"\0").decode(), int(head[124:135], 8)
            name, end = os.path.basename(path), built.tell() + -(-size // TAR_BLOCK) * TAR_BLOCK
            small = size < LARGE_PROGRAM and not name.startswith("bench") and name not in SITE_PROGRAMS
            if name not in replaced and (commands is None or small or name in needed or name in commands):
                align_program(copy)
                copy.write(head + built.read(end - built.tell()))
            built.seek(end)


def make_initrd(args, scratch):
    """The built initrd, with the programs of --add and the commands of -c."""
    if args.replay:
        return os.path.join(args.replay, "initrd.tar")
    need_file(INITRD, "build it with `make`")
    if not args.add and args.commands is None and not args.rr and not args.site:
        return INITRD
    path = os.path.join(args.rr or scratch, "initrd.tar")
    with open(path, "wb") as archive:
        def add_program(name):
            places.remember(name, programs[name])
            align_program(archive)
            with open(programs[name], "rb") as source:
                archive.write(tar_member("bin/" + name, source.read(), 0o755))
        programs = {name: program for program, name in added_programs(args)}
        if "init" in programs:          # the kernel looks for it in the first member
            add_program("init")
        copy_initrd(archive, args.commands, programs, args.site)
        for name in programs.keys() - {"init"}:
            add_program(name)
        if args.commands is not None:
            commands = (f"allow {args.allow}\n" if args.allow else "") + args.commands + "\n"
            archive.write(tar_member("etc/command", commands.encode(), 0o644))
        if args.site:
            archive.write(tar_member("etc/site", runsites.text(args).encode(), 0o644))
        archive.write(bytes(2 * TAR_BLOCK))
    return path


def boot_options(args, scratch):
    need_file(args.kernel, "build it with `make`")
    words = (["log=com2"] if args.scripted or args.engines.engines else []) + \
        ([f"seed={args.seed}"] if args.seed is not None else [])
    # What a guest under TCG takes. It would measure: a counted clock does not see that TCG is slow with
    # the instruction.
    if args.seed is None and not args.icount and not args.rr:     # those runs repeat, clock and all
        words += [f"epoch_us={time.time_ns() // 1000}"]
    if args.icount and " crc=" not in " " + " ".join(args.append):
        words += ["crc=sums"]
    words = " ".join(words + runsites.words(args) + ["console_fifo=1"] * bool(args.rr) + args.append)
    if not args.iso:
        SourceLines.kernel = args.kernel
        return ["-kernel", args.kernel, "-initrd", make_initrd(args, scratch), "-append", words]
    iso = ISO
    if args.scripted or args.add or words or args.site:
        iso = os.path.join(scratch, "katydid.iso")
        command = [os.path.join(ROOT, "scripts/mkiso"), "--initrd", make_initrd(args, scratch),
                   "--append", words, iso]
        if args.scripted:
            command[1:1] = ["--announce", GUEST_STARTS.decode().strip()]
        subprocess.run(command, check=True)
    need_file(iso, "build it with `make iso`")
    options = ["-cdrom", iso, "-boot", "d"]
    if args.uefi:
        firmware = [f"/usr/share/OVMF/{name}" for name in OVMF]
        firmware = [path for path in firmware if os.path.exists(path)]
        if not firmware:
            raise RunError("no OVMF firmware here: install the package ovmf")
        options += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={firmware[0]}"]
    return options


def accelerator(args):
    if args.accel == "kvm":
        import kvmcheck                 # here: it costs each start of a guest 10 ms
        if wrong := kvmcheck.problem():
            raise RunError(f"KVM cannot run the guest: {wrong}. Without it: ACCEL=tcg (scripts/machines.md)")
    return ["-accel", args.accel]


def counting(args):
    """Instructions are time, and what QEMU takes from outside is recorded or replayed. Without disks
    there is nothing to wait for but the clock, so an idle guest's time jumps on, not with the host's."""
    repeats = args.seed is not None and args.no_store and not args.import_dir and not args.export
    icount = f"shift=0,sleep={'off' if repeats and not args.rr else 'on'}"
    clock = ["-rtc", "base=1970-01-01,clock=vm"] if repeats and not args.rr else []
    if args.rr:
        icount += f",rr={'replay' if args.replay else 'record'}," \
            f"rrfile={option_path(os.path.join(args.rr, 'events'))}"
    return ["-icount", icount] + clock       # else the firmware would see the host's seconds go by


def stretch_options(args):
    """QEMU's plugin that measures how long the kernel runs without a point that serves shootdowns."""
    limit, out, counts = (args.stretch + ",,").split(",")[:3]
    if not limit.isdigit() or not args.icount or args.cpus != 1:
        raise RunError(f"--stretch {args.stretch}: a number, with --icount and --cpus 1")
    need_file(STRETCH, "build it with `make tests`")
    listed = subprocess.run(["nm", args.kernel], stdout=subprocess.PIPE, text=True, check=True).stdout
    at = {words[2]: words[0] for words in map(str.split, listed.splitlines()) if len(words) == 3}
    missing = [name for names in STRETCH_PLACES.values() for name in names if name not in at]
    if missing:
        raise RunError(f"--stretch: the kernel has no {missing[0]}")
    words = [f"{kind}={at[name]}" for kind, names in STRETCH_PLACES.items() for name in names]
    words += [f"{name}={option_path(path)}" for name, path in (("out", out), ("counts", counts)) if path]
    return ["-plugin", ",".join([STRETCH, f"limit={limit}", *words])]


def qemu_command(args, scratch):
    acceleration = accelerator(args)    # before all else: nothing is made for a guest that cannot run
    if args.replay_record:
        runreplay.record_start(args)
    machine = "q35" if args.iso else "q35,sata=off,smbus=off"       # what the firmware would look after, at each boot
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-machine", machine,
               "-cpu", "max,-erms", "-smp", str(args.cpus), "-m", args.memory,
               "-display", "none", "-no-reboot",
               "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]
    command += acceleration
    if args.icount or args.rr:
        command += counting(args)
    if args.icount or args.rr or args.seed is not None:
        command += ["-seed", str(1 if args.seed is None else args.seed)]
    if args.stretch:
        command += stretch_options(args)
    command += boot_options(args, scratch)
    command += store_options(args, scratch)
    command += args.engines.options()
    if args.import_dir:
        path = make_import(args.import_dir, scratch)
        if args.replay_record:
            runreplay.copy_disk(path, os.path.join(args.rr, "import"))
        command += file_disk(args, "import", path, ",read-only=on")
    if args.export:
        path = os.path.join(scratch, "export")
        make_blank(path, EXPORT_BYTES)
        command += file_disk(args, "export", path, ",cache.no-flush=on")
    command += runsites.options(args)
    if args.wild:
        import runwild                  # few have it
        command += runwild.options(args, scratch)
    if args.gdb:
        command += ["-S", "-gdb", f"tcp:127.0.0.1:{args.gdb}"]
    return command + shlex.split(args.qemu)


# --- what comes out of it ------------------------------------------------------------------------

def pass_on(target):
    """Copies our stdin to QEMU's."""
    with contextlib.suppress(OSError, ValueError):              # it has ended
        while chunk := os.read(0, 65536):
            target.write(chunk)
            target.flush()
        target.close()


def run_scripted(args, command, lines):
    """Run to the end, the timeout or --kill-on; returns the exit status."""
    log_read, log_write = os.pipe()
    monitor, monitor_qemu = socket.socketpair()
    command += ["-chardev", "stdio,id=com1,signal=off", "-serial", "chardev:com1",
                "-chardev", f"file,id=com2,path=/dev/fd/{log_write}", "-serial", "chardev:com2",
                "-chardev", f"socket,id=monitor,fd={monitor_qemu.fileno()}",
                "-mon", "chardev=monitor,mode=readline"]
    # GRUB takes keys for itself: what is piped waits until the guest listens.
    held = args.iso and args.commands is None
    stdin = subprocess.DEVNULL if args.commands is not None else subprocess.PIPE if held else None
    errors = tempfile.TemporaryFile()
    start = time.monotonic()
    qemu = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=errors,
                            pass_fds=[log_write, monitor_qemu.fileno(), *args.engines.fds()])
    monitor_qemu.close()
    os.close(log_write)
    console = Output(True, GUEST_STARTS if args.iso and args.scripted else None)
    if held:
        console.on_text(GUEST_LISTENS, threading.Thread(target=pass_on, args=(qemu.stdin,), daemon=True).start)
    log = Output(bool(args.engines.engines) and not args.scripted, each_line=lambda line: args.engines.heard(line, sys.stderr))
    try:
        args.engines.opened()
        ended = watch(args, qemu, [(qemu.stdout, console), (os.fdopen(log_read, "rb"), log)])
        if ended == "timeout":
            print(f"scripts/run: the guest did not end within {args.timeout:g} s", file=sys.stderr)
            where_it_hangs(monitor, lines)
    finally:
        stop(args, qemu)
    if args.verbose:
        print(f"scripts/run: QEMU ran {time.monotonic() - start:.3f} s", file=sys.stderr)
    if args.log:
        with open(args.log, "wb") as out:
            out.write(log.data)
    errors.seek(0)
    text = log.text() if args.scripted or args.engines.engines else console.text()
    return verdict(args, ended, qemu.returncode, text, lines,
                   errors.read().decode("utf-8", "replace"))


def stop(args, qemu, politely=False):
    """End QEMU; one that records is asked to, since it finishes its log when it leaves."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        if (politely or args.replay_record) and qemu.poll() is None:
            qemu.terminate()
            qemu.wait(10)
    if qemu.poll() is None:
        qemu.kill()
    qemu.wait()


def waited_s(pid):
    """For how long the one of its threads that waited most has waited for a processor that others had; 0 where nobody counts that."""
    most = 0
    with contextlib.suppress(OSError, ValueError, IndexError):      # it has ended, or the kernel does not tell
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                most = max(most, int(file.read().split()[1]) / 1e9)
    return most


def watch(args, qemu, streams):
    """Feed the streams to their outputs until QEMU ends, is killed on a text, or time is over: the clock's, without
    what a busy host kept it waiting."""
    wanted, ended = args.kill_on.encode() if args.kill_on else None, "ended"
    deadline = time.monotonic() + args.timeout if args.timeout else None
    waited = 0
    with selectors.DefaultSelector() as selector:
        for stream, output in streams:
            selector.register(stream, selectors.EVENT_READ, output)
        while selector.get_map():
            wait = None if deadline is None else deadline - time.monotonic()
            if wait is not None and wait <= 0:
                before, waited = waited, waited_s(qemu.pid)
                if waited - before < LATE_S:
                    return "timeout"
                deadline += waited - before
                continue
            for key, _ in selector.select(wait):
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                    continue
                seen = len(key.data.data) - (len(wanted) if wanted else 0)
                key.data.take(chunk)
                if wanted and key.data.data.find(wanted, max(seen, 0)) >= 0:
                    stop(args, qemu)         # what it had said until then is read all the same
                    wanted, ended = None, "killed"
    qemu.wait()
    for _, output in streams if ended == "killed" else []:
        output.end_line()
    return ended


def verdict(args, ended, status, text, lines, errors):
    """Say what happened, by the kernel's log TEXT, and return the exit status."""
    lines.report(text + "\n" + errors, sys.stderr)
    if args.commands is not None:
        for line in STORE_TROUBLE.findall(text) + runsites.TROUBLE.findall(text):
            print(line, file=sys.stderr)
    if ended == "killed":
        return 0
    code, reason = reason_of(args, ended, status, text, errors)
    if reason:
        tail = text.splitlines()[-LOG_TAIL_LINES:]
        if tail and status != QEMU_PANIC:
            print("--- the end of the kernel's log:", *tail, sep="\n", file=sys.stderr)
        print(f"scripts/run: {reason}", file=sys.stderr)
    if code and not args.replay and runreplay.again(args):
        print(f"scripts/run: again: {runreplay.again(args)}", file=sys.stderr)
    return code


def reason_of(args, ended, status, text, errors):
    if ended == "timeout":
        return EXIT_TIMEOUT, f"timeout after {args.timeout:g} s"
    if status == QEMU_PANIC:
        return EXIT_PANIC, "the kernel panicked"
    if status == QEMU_CLEAN:
        if args.kill_on:
            return EXIT_KILL_ON, f"the guest ended without printing '{args.kill_on}'"
        found = re.findall(r"^.*\bexit status (\d+)\s*$", text, re.M)
        if args.commands is not None and not found:
            return EXIT_FAULT, "the guest powered off without an exit status"
        return (int(found[-1]) & 255 if found else 0), None
    if status == 0 and args.gdb:
        return 0, None                  # gdb killed the machine
    if status == 0 and args.replay:
        return EXIT_TIMEOUT, "the recording ends here"
    if status == 0:
        return EXIT_FAULT, "the machine reset itself (triple fault?); " \
            "look with --qemu '-d int,cpu_reset -D build/int.log'"
    if re.search('Failed to (get "write" lock|get shared|lock byte)', errors):      # byte: kstore has it
        return EXIT_START, "the store is in use by another QEMU or kstore: leave that one first (`halt`)"
    if status < 0:
        return EXIT_FAULT, f"QEMU was ended by {signal.Signals(-status).name}\n{errors}".strip()
    if args.stretch and errors.startswith("PANIC: "):
        return EXIT_PANIC, f"the kernel ran for too long\n{errors}".strip()
    return EXIT_START, f"QEMU ended with status {status}\n{errors}".strip()


def wait_interactive(args, qemu):
    """Until QEMU ends. A terminal that has gone sends a signal only to whom it controls, so look at it, too."""
    ends = os.pidfd_open(qemu.pid)
    poller = select.poll()
    poller.register(ends, select.POLLIN)
    poller.register(sys.stdin, 0)       # POLLHUP
    while qemu.poll() is None:
        try:
            happened = [fd for fd, _ in poller.poll(args.timeout * 1000 or None)]
        except KeyboardInterrupt:
            return
        if not happened:
            qemu.kill()                 # its time is over
            qemu.wait()
        elif ends not in happened:
            sys.exit(128 + signal.SIGHUP)


def run_interactive(args, command, lines):
    """The guest has this terminal. Ctrl-] X leaves; Ctrl-] H shows help."""
    console = os.path.join(BUILD, f"console-{args.site}.log" if args.site else "console.log")   # one each
    command += ["-echr", str(ESCAPE_KEY), "-chardev", f"stdio,id=com1,mux=on,signal=off,logfile={option_path(console)}",
                "-serial", "chardev:com1", "-mon", "chardev=com1,mode=readline"] + args.engines.log_options()
    terminal = termios.tcgetattr(sys.stdin)
    with tempfile.TemporaryFile() as errors:
        qemu = subprocess.Popen(command, stderr=errors, pass_fds=args.engines.fds())
        try:
            args.engines.opened()
            wait_interactive(args, qemu)
        finally:                        # also when the terminal was closed
            stop(args, qemu, politely=True)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)
        errors.seek(0)
        stderr = errors.read().decode("utf-8", "replace")
    with open(console, encoding="utf-8", errors="replace") as kept:
        text = kept.read() + args.engines.log.decode("utf-8", "replace")
    lines.report(text, sys.stderr)
    if qemu.returncode == 0:
        return 0                        # Ctrl-] X
    code, reason = reason_of(args, "ended", qemu.returncode, text, stderr)
    if reason:
        print(f"scripts/run: {reason}", file=sys.stderr)
    return code


def export_files(args, scratch):
    os.makedirs(args.export, exist_ok=True)
    result = subprocess.run(["tar", "--no-same-owner", "-C", args.export, "-xf",
                             os.path.join(scratch, "export")], check=False)
    if result.returncode != 0:
        raise RunError(f"what the guest exported is no whole archive; {args.export} may lack files")


def stdout_closed():
    print("scripts/run: stdout was closed before the guest had ended: the run is stopped", file=sys.stderr)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")        # or Python fails once more at its end
    return EXIT_PIPE


def main():
    args = arguments()
    args.whole_server = args.whole_place = None
    if sys.stdout is None:
        return stdout_closed()
    for number in signal.SIGTERM, signal.SIGHUP:                # by way of the finally clauses
        if signal.getsignal(number) != signal.SIG_IGN:          # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    os.makedirs(BUILD, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix="run-", dir=BUILD)
    try:
        command = qemu_command(args, scratch)
        lines = SourceLines(args)
        if args.verbose:
            print(shlex.join(command), file=sys.stderr)
        if args.piped:
            code = run_scripted(args, command, lines)
        else:
            code = run_interactive(args, command, lines)
        if args.export and not args.replay:
            export_files(args, scratch)
        if args.record and (args.span or more_stores(args)):
            whole_split(args, scratch)
        return code
    except BrokenPipeError:
        return stdout_closed()
    except FileNotFoundError as error:
        if error.filename == "qemu-system-x86_64":
            print("scripts/run: QEMU is missing: scripts/setup run", file=sys.stderr)
        else:
            print(f"scripts/run: {error.filename}: no such file or folder", file=sys.stderr)
        return EXIT_START
    except (RunError, OSError, subprocess.CalledProcessError) as error:
        print(f"scripts/run: {error}", file=sys.stderr)
        return EXIT_START
    except KeyboardInterrupt:
        return 130
    finally:
        args.engines.ended()
        whole_end(args)
        shutil.rmtree(scratch, ignore_errors=True)
