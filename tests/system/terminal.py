#!/usr/bin/env python3
# Waits: for keys to be typed.
"""The shell at a terminal: keys are typed into a pseudo-terminal, and what appears is compared.

One machine for the editing, a second one on the same store for the history: the first is ended by
SIGKILL, so what the second remembers was committed when it was typed.
"""

import contextlib
import os
import re
import signal
import subprocess
import time

from machine import ANSWER_TIMEOUT_S, PROMPT, Machine, tap

STORE = os.path.join(os.environ.get("TEST_TMP", "/tmp"), f"terminal-{os.getpid()}.store")


machine = Machine(STORE)


def ctrl_c_beside_a_job(command, shown):
    """Ctrl-C as soon as `command` has shown that, while a job runs in the background."""
    machine.type("sleep 1000 &\r", r"\[\d+\] \d+\n.*katydid> ")
    machine.type(command + "\r", shown)
    machine.type("\x03", PROMPT)


def older_line(keys, line, shown):
    """An older line comes by these keys and is run again."""
    machine.type(keys, line)
    machine.type("\r", shown + r"\n.*katydid> ")


def test_tab_completes_a_command_and_a_path():
    machine.type("conta\tx\x7f\r", r"containers x.*KiB +0x\w+ +history.*\nkatydid> ")
    machine.type("cat /etc/wel\t\x15echo do\x01\x05ne\r", r"\ndone\n.*katydid> ")


def test_ctrl_a_is_the_shells():
    machine.type("ho begun\x01ec\r", r"\nbegun\n.*katydid> ")    # QEMU took it as its own, and what followed
    machine.type("echo x\x01true; \x05y\r", r"\nxy\n.*katydid> ")


def test_two_tabs_list_what_is_possible():
    seen = machine.type("rm\t\t", r"rm-container.*katydid> rm")
    assert "rm " in seen
    machine.type("\x15\r", PROMPT)


def test_what_is_no_key_leaves_nothing():
    machine.type("\x1b[30;100R\x1b[?1;2c\x1b[<0;100;200Mecho \x1bxok\x1bOP\r", r"\nok\n.*katydid> ")


def test_what_is_typed_before_a_program_ends_is_a_line_for_the_shell():
    machine.type("cat\r", r"cat\n")
    machine.type("there\r", r"there\nthere\n")      # cat reads: the terminal is cooked
    machine.type("\x04eho \x1b[D\x1b[D\x1b[Dc\x05typed ahead\r", r"\ntyped ahead\n.*katydid> ")


def test_help_says_of_each_program_what_it_is_and_of_nothing_twice():
    said = machine.type("help\r", r"\nMore: ").split("\n")
    names = [line.split()[0] for line in said if line.startswith("  ") and line[2:3].isalpha()]
    assert len(names) == len(set(names)) and "store" in names, names
    programs = said[said.index("Programs (NAME --help says more):") + 1:-1]
    assert len(programs) > 10 and all(len(line.split()) > 1 and len(line) <= 80 for line in programs), programs
    assert "  todo         a to-do list in memory that persists" in programs, programs
    machine.type("help todo\r", r"\ntodo   a to-do list in memory that persists: todo --help\n")


def test_the_board_editor_has_a_prompt():
    machine.type("board none\r", r"Ctrl-D ends\nnone> ")
    machine.type("list\r", r"no container of that name.*none> ")
    machine.type("\x04", PROMPT)


def told_behind_a_command(seen, what):
    while not re.search(what, seen):
        seen = machine.type("echo next\r", r"\nnext\n.*katydid> ")


def test_a_job_runs_in_the_background_and_its_end_is_told():
    machine.type("sleep 1000 &\r", r"\[1\] \d+\n.*katydid> ")
    machine.type("jobs\r", r"\[1\] running +sleep 1000.*katydid> ")
    machine.type("kill %1; wait; echo over\r", r"\nover\n.*katydid> ")
    machine.type("sleep 1000 & \r", r"\[1\] \d+\n.*katydid> ")
    told_behind_a_command(machine.type("kill %1\r", PROMPT), r"\[1\] killed +sleep 1000")
    told_behind_a_command(machine.type("false & \r", r"\[1\] \d+\n.*katydid> "), r"\[1\] status 1 +false")


def test_ctrl_c_ends_a_program_and_gives_up_a_wait():
    machine.type("sh -c 'echo up; sleep 1000'\r", r"\nup\n")
    machine.type("\x03", PROMPT)
    ctrl_c_beside_a_job("echo now; wait", r"\nnow\n")
    machine.type("echo status $?; kill %1; wait %1\r", r"status 130\n.*katydid> ")


def test_ctrl_c_while_no_program_runs_is_kept_for_the_shell():
    ctrl_c_beside_a_job("echo now; repeat 200000 true; wait", r"\nnow\n")
    machine.type("echo status $?; kill %1; wait %1\r", r"status 130\n.*katydid> ")


def test_ctrl_c_ends_what_a_program_has_started_too():
    machine.type("crashload 1 100000\r", r"\nack \d")           # six processes of one
    machine.type("\x03", r"\^C\n.*katydid> ")
    for _ in range(1000):                                       # they end one after the other
        if "crashload" not in machine.type("ps\r", r" init.*\nkatydid> "):
            return
    raise AssertionError("its processes go on")


def test_a_job_comes_to_the_front_and_ctrl_c_ends_it():
    ctrl_c_beside_a_job("fg", r"\nsleep 1000\n")
    machine.type("echo status $?; jobs\r", r"status 130\n.*katydid> ")
    machine.type("fg\r", r"fg: none: no such job.*katydid> ")


def test_a_job_in_the_background_does_not_take_the_keys():
    machine.type("cat &\r", r"\[\d+\] \d+\n.*katydid> ")
    machine.type("wait; echo it ended\r", r"\nit ended\n.*katydid> ")


def test_lines_that_nobody_reads_are_kept_whole_or_dropped_and_that_is_told():
    machine.type("sh -c 'echo up; sleep 1000'\r", r"\nup\n")
    for number in range(200):                                   # 29 bytes each: 141 have room
        machine.type(f"echo {number:03}-{'x' * 19}\r", rf"{number:03}-x{{19}}\n")
    machine.type("\x03", r"\^C\n.*\n140-x{19}\n.*katydid> ")
    seen = machine.type("dmesg; echo seen\r", r"\nseen\n")
    assert "console: 1711 typed bytes were dropped" in seen, seen[-400:]


def test_nice_gives_a_program_its_niceness():
    pid = re.search(r"\[\d+\] (\d+)\n", machine.type("nice 7 sleep 1000 &\r", r"\[\d+\] \d+\n.*katydid> "))[1]
    machine.type(f"threads {pid}\r", rf"\n +{pid} \S+ +7 .*katydid> ")
    machine.type(f"kill {pid}; threads 2\r", r"\n +2 \S+ +-10 .*katydid> ")


def test_time_and_repeat():
    machine.type("repeat 3 echo again\r", r"(\nagain){3}\n.*katydid> ")
    machine.type("time true\r", r"real \d+\.\d{3} s; whole system: faults.*flushes\n.*katydid> ")
    machine.type("repeat x true\r", r"use: repeat N COMMAND.*katydid> ")


def test_ctrl_r_finds_an_older_line():
    older_line("\x12gain", "repeat 3 echo again", r"(\nagain){3}")


def test_after_a_search_that_was_given_up_up_begins_at_the_last_line():
    machine.type("echo the last one\r", r"\nthe last one\n.*katydid> ")
    machine.type("\x12gain", "repeat 3 echo again")
    machine.type("\x03", PROMPT)
    machine.type("\x03", PROMPT)
    older_line("\x1b[A", "echo the last one", r"\nthe last one")


def test_the_history_outlives_the_machine():
    global machine
    machine.type("echo remember me\r", r"\nremember me\n.*katydid> ")
    machine.kill()
    machine = Machine(STORE)
    older_line("\x1b[A", "echo remember me", r"\nremember me")
    machine.type("history 3\r", r"\n +\d+  echo remember me\n.*history 3\n.*katydid> ")


LINES, LINE = 2000, "0123456789" * 4      # more than all buffers on the way hold


def test_ctrl_c_ends_a_program_that_waits_for_a_terminal_that_does_not_read():
    machine.type(f"sh -c 'repeat {LINES} echo {LINE}'; echo status $?\r", rf"\n{LINE}\n")
    seen = machine.type("\x03", r"status 130\n.*katydid> ")
    assert seen.count(LINE) < LINES, "all of it came, though nobody read"


def test_a_terminal_that_reads_late_loses_nothing_and_others_go_on():
    log = STORE + ".log"
    late = Machine(STORE + ".late", "--record", log)
    try:
        os.write(late.here, f"A=honey; sh -c \"repeat 20 todo add more; todo add milk-and-$A\" & repeat {LINES} echo {LINE}; wait; echo over\r".encode())
        recorded, until = b"", time.monotonic() + ANSWER_TIMEOUT_S
        while b"milk-and-honey" not in recorded:        # what another program commits meanwhile
            assert time.monotonic() < until, "a program that writes nothing is blocked"
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"it ended with {late.process.wait(0.1)}")
            with open(log, "rb") as data:
                recorded = data.read()
        seen = late.expect(r"\nover\n")
        assert len(re.findall(rf"^{LINE}$", seen, re.M)) == LINES, f"some of {LINES} lines are lost"
    finally:
        late.kill()


def test_halt_ends_the_machine():
    machine.type("halt\r", r"halt\n")
    assert machine.process.wait(ANSWER_TIMEOUT_S) == 0
    os.remove(STORE)


def test_the_escape_key_leaves_qemu():
    global machine
    machine = Machine(STORE)
    os.write(machine.here, b"\x1dx")
    assert machine.process.wait(ANSWER_TIMEOUT_S) == 0
    os.remove(STORE)


def test_a_terminal_that_closes_ends_the_machine():
    closed = Machine(STORE)
    with open(f"/proc/{closed.process.pid}/task/{closed.process.pid}/children", encoding="ascii") as children:
        qemu = int(children.read().split()[0])
    with open(f"/proc/{qemu}/comm", encoding="ascii") as name:
        assert name.read().startswith("qemu"), qemu
    os.close(closed.here)
    try:
        assert closed.process.wait(ANSWER_TIMEOUT_S) == 128 + signal.SIGHUP
        assert not os.path.exists(f"/proc/{qemu}"), "QEMU goes on"
    finally:
        if closed.process.poll() is None:
            os.killpg(closed.process.pid, signal.SIGKILL)
        os.remove(STORE)


try:
    tap.run_tests(globals())
finally:
    if machine.process.poll() is None:
        machine.kill()
