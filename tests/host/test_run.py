#!/usr/bin/env python3
"""Tests of scripts/run without QEMU: what it makes of the guest's output and of QEMU's end."""

import argparse
import contextlib
import io
import os
import subprocess
import tarfile
import tempfile
import time
import unittest.mock

from tap import ROOT, load, run_tests

run = load("runmain.py")
runparts = load("runparts.py")
kvmcheck = load("kvmcheck.py")
bochs = load("bochs")


def outcome(ended, status, log="", errors="", commands="x", kill_on=None, stretch=None):
    args = argparse.Namespace(commands=commands, kill_on=kill_on, timeout=9, gdb=None, replay=None, stretch=stretch)
    return run.reason_of(args, ended, status, log, errors)


def test_clean_end_takes_the_guests_status():
    assert outcome("ended", 33, "boot\nexit status 0\n") == (0, None)
    assert outcome("ended", 33, "[1.0] exit status 7\n") == (7, None)
    assert outcome("ended", 33, "exit status 1\nexit status 2\n") == (2, None)


def test_clean_end_without_a_status_is_an_error():
    assert outcome("ended", 33, "boot\n")[0] == run.EXIT_FAULT
    assert outcome("ended", 33, "boot\n", commands=None)[0] == 0


def test_qemu_status_0_is_never_success():
    code, reason = outcome("ended", 0, "exit status 0\n")
    assert code == run.EXIT_FAULT and "reset" in reason


def test_panic_timeout_and_death_have_their_own_statuses():
    assert outcome("ended", 65, "exit status 0\n")[0] == run.EXIT_PANIC
    assert outcome("timeout", -9)[0] == run.EXIT_TIMEOUT
    assert outcome("ended", -11)[0] == run.EXIT_FAULT
    assert outcome("ended", 1, errors="no such device")[0] == run.EXIT_START
    assert outcome("ended", 1, errors="PANIC: 5000 instructions without a point", stretch="4000")[0] == run.EXIT_PANIC
    assert outcome("ended", 1, errors="no such plugin", stretch="4000")[0] == run.EXIT_START


def watched(program, timeout):
    """(how it ended, seconds)"""
    start = time.monotonic()
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        ended = run.watch(argparse.Namespace(kill_on=None, timeout=timeout), process, [(process.stdout, run.Output(False))])
        process.kill()
    return ended, time.monotonic() - start


def test_what_a_busy_host_keeps_it_waiting_is_not_of_its_time():
    with unittest.mock.patch.object(run, "waited_s", lambda pid: 1):
        ended, took = watched(["sleep", "60"], 0.2)
    assert ended == "timeout" and 1.2 <= took, (ended, took)
    with unittest.mock.patch.object(run, "waited_s", lambda pid: 0):
        assert watched(["sleep", "60"], 0.2)[0] == "timeout"
        assert watched(["true"], 60)[0] == "ended"


def test_waits_for_a_processor_are_known():
    one = {min(os.sched_getaffinity(0))}
    loops = [subprocess.Popen(["python3", "-c", "while True: pass"], preexec_fn=lambda: os.sched_setaffinity(0, one)) for _ in range(2)]
    try:
        end = time.monotonic() + 60
        while min(run.waited_s(loop.pid) for loop in loops) < 0.1 and time.monotonic() < end:
            time.sleep(0.05)
        assert all(run.waited_s(loop.pid) >= 0.1 for loop in loops)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert run.waited_s(loops[0].pid) == 0


def test_unwanted_clean_end_is_an_error_with_kill_on():
    assert outcome("ended", 33, "exit status 0\n", kill_on="x")[0] == run.EXIT_KILL_ON


def test_store_in_use_is_said_plainly():
    for why in 'Failed to get "write" lock', "Failed to lock byte 100":
        text = outcome("ended", 1, errors=f"qemu: {why}\nIs another process ...")[1]
        assert "in use by another QEMU" in text


def refused(*words):
    done = subprocess.run([os.path.join(ROOT, "scripts/run"), "--no-store", "--timeout", "20", *words, "-c", "true"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()[-1]


def test_numbers_out_of_range_are_told_with_the_range():
    for option, values, ends in [("--cpus", ["0", "-1", "9"], "1 to 8"), ("--memory", ["1", "x", "9999999"], "from 16 to"),
                                 ("--seed", ["-1", "4294967296"], "from 0 to 4294967295"),
                                 ("--gdb", ["0", "65536"], "1 to 65535")]:
        for value in values:
            status, text = refused(option, value)
            assert status == 2 and f"{option} {value}: " in text and ends in text, text


def test_errors_of_add_and_import_name_the_file():
    for option, value in [("--add", "/no/such"), ("--add", ROOT), ("--add", __file__ + ":" + 91 * "x"),
                          ("--add", __file__ + ":a/b"), ("--import", "/no/such")]:
        status, text = refused(option, value)
        assert status == run.EXIT_START and f"{option} {value}: " in text, text


def test_crlf_becomes_lf_also_across_pieces():
    output = run.Output(printed=False)
    for piece in (b"a\r", b"\nb\r\n", b"50%\r", b"60%\r\n"):
        output.take(piece)
    assert output.data == b"a\nb\n50%\r60%\n", output.data


def test_firmware_output_is_dropped_also_across_pieces():
    output = run.Output(printed=False, start=run.GUEST_STARTS)
    noise = b"\x1b[2JBdsDxe: loading\r\n" * 50
    whole = noise + run.GUEST_STARTS + b"hello\r\n"
    for at in range(0, len(whole), 7):
        output.take(whole[at:at + 7])
    assert output.data == b"hello\n", output.data


def test_a_closed_stdout_has_its_own_status_and_is_named():
    def broken(*_):
        raise BrokenPipeError(32, "Broken pipe")
    mine = load("runmain.py")
    mine.arguments = lambda: argparse.Namespace(verbose=False, piped=True, engines=argparse.Namespace(ended=lambda: None))
    mine.qemu_command, mine.SourceLines, mine.run_scripted = lambda *_: [], lambda _: None, broken
    said, stdout = io.StringIO(), mine.sys.stdout
    try:
        with contextlib.redirect_stderr(said):
            assert mine.main() == 141
    finally:
        mine.sys.stdout = stdout
    assert "stdout was closed" in said.getvalue(), said.getvalue()


def test_sizes_are_read():
    assert [runparts.size_bytes(text) for text in ("7", "1K", "64m", "2G")] == [7, 1024, 64 << 20, 2 << 30]
    for text in ("", "G", "1.5G", "-1", "1X"):
        try:
            runparts.size_bytes(text)
        except runparts.RunError:
            continue
        raise AssertionError(f"{text!r} was taken for a size")


def built_program(folder):
    """A program whose fourth line is the call, with its symbol addresses."""
    source, program = os.path.join(folder, "crash.c"), os.path.join(folder, "crash")
    with open(source, "w", encoding="ascii") as out:
        out.write("__attribute__((noinline)) void inner(int *p)\n{\n    *p = 1;\n}\n"
                  "int main(void) { inner(0); return 0; }\n")
    subprocess.run(["gcc", "-g", "-O0", "-static", "-no-pie", "-fno-pie", source, "-o", program],
                   check=True)
    symbols = subprocess.run(["nm", program], check=True, text=True, stdout=subprocess.PIPE).stdout
    return program, {line.split()[2]: int(line.split()[0], 16)
                     for line in symbols.splitlines() if len(line.split()) == 3}


def test_addresses_of_killed_programs_get_source_lines():
    with tempfile.TemporaryDirectory() as folder:
        program, symbols = built_program(folder)
        lines = run.SourceLines(argparse.Namespace(add=[program + ":boom"]))
        text = f"[   0.120000] boom[7]: killed: write to 0x0, at boom+{symbols['inner']:#x}\n" \
            f"  {symbols['main']:016x}\n[   0.130000] other line\n  {symbols['main']:016x}\n"
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            lines.report(text, out)
        assert "crash.c:2" in out.getvalue() and "inner" in out.getvalue(), out.getvalue()
        assert out.getvalue().count("crash.c:4") == 1, out.getvalue()
        assert "other line" not in out.getvalue()


def test_return_addresses_name_the_line_of_the_call():
    with tempfile.TemporaryDirectory() as folder:
        program, symbols = built_program(folder)
        lines = run.SourceLines(argparse.Namespace(add=[program]))
        assert "crash.c:4" in lines.explain(f"  crash+{symbols['main']:#x}")[0]
        assert "crash.c:5" in lines.explain(f"  rip crash+{symbols['main']:#x}")[0]


def test_kvm_that_cannot_run_a_guest_is_named():
    assert "there is no /dev/no-such-kvm" in kvmcheck.problem("/dev/no-such-kvm")
    with tempfile.NamedTemporaryFile() as no_device:
        said = kvmcheck.problem(no_device.name)
    assert "opens, but does not work: KVM_GET_API_VERSION" in said, said


def test_kvm_is_tried_before_anything_is_made():
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        done = subprocess.run([os.path.join(ROOT, "scripts/run"), "--accel", "kvm", "--store", store, "--kernel",
                               "/no/such/kernel", "-c", "true"], text=True, check=False, capture_output=True)
        assert done.returncode == run.EXIT_START and not os.path.exists(store), done
        wrong = kvmcheck.problem()
        assert (f"KVM cannot run the guest: {wrong}" if wrong else "kernel") in done.stderr, done


def test_panic_is_reported_to_its_end():
    lines = run.SourceLines(argparse.Namespace(add=[]))
    out = io.StringIO()
    lines.report("boot\nPANIC: out of rank\ncpu 0 of 2\n", out)
    assert out.getvalue() == "PANIC: out of rank\ncpu 0 of 2\n"


def test_bochs_has_all_options_that_an_initrd_is_made_of():
    with tempfile.TemporaryDirectory() as folder, unittest.mock.patch("sys.argv", ["bochs", "-c", "true"]):
        assert tarfile.is_tarfile(bochs.run.make_initrd(bochs.arguments(), folder))


if __name__ == "__main__":
    run_tests(globals())
