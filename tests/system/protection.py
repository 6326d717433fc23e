#!/usr/bin/env python3
# Waits: for programs that do wrong, one after the other.
"""What the CPU is told to forbid, seen from outside: QEMU's monitor shows each CPU's control registers
and the page table that it uses, while a program runs."""

import os
import re
import socket
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TMP = os.environ.get("TEST_TMP", "/tmp")
MONITOR = os.path.join(TMP, "monitor")
CPUS = 2
BITS = [("CR0", 16, "ring 0 may not write to read-only pages (WP)"), ("CR4", 20, "nor run user pages (SMEP)"),
        ("CR4", 21, "nor touch them by accident (SMAP)"), ("CR4", 11, "ring 3 may not read descriptor tables (UMIP)"),
        ("EFER", 11, "pages may be not executable (NX)")]
results = []


def result(good, name, *notes):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    for note in notes if not good else []:
        print("# " + note)


def ask(monitor, command=None):
    """The monitor's answer, up to its next prompt; without a command: up to its first."""
    if command:
        monitor.sendall(command.encode() + b"\n")
    answer = b""
    while not answer.rstrip().endswith(b"(qemu)"):
        chunk = monitor.recv(1 << 16)
        if not chunk:
            break
        answer += chunk
    return answer.decode("utf-8", "replace")


def connect():
    for _ in range(600):
        try:
            monitor = socket.socket(socket.AF_UNIX)
            monitor.connect(MONITOR)
            return monitor
        except OSError:
            time.sleep(0.1)
    sys.exit("Bail out! no monitor")


def look(monitor):
    """The registers of all CPUs and the mappings of the first."""
    ask(monitor, "stop")
    registers = ask(monitor, "info registers -a")
    mappings = re.findall(r"^([0-9a-f]{16}): [0-9a-f]{16} (\S{9})\s*$", ask(monitor, "info tlb"), re.M)
    ask(monitor, "cont")
    return registers, mappings


def main():
    print(f"1..{len(BITS) + 6}")
    if os.path.exists(MONITOR):
        os.remove(MONITOR)
    command = ["scripts/run", "--no-store", "--cpus", str(CPUS), "--timeout", "280", "--qemu",
               f"-monitor unix:{MONITOR},server=on,wait=off", "-c", "echo here; sleep 3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        monitor = connect()
        ask(monitor)
        while run.stdout.readline().strip() != b"here":
            pass
        registers, mappings = look(monitor)
        run.wait()
    for register, bit, name in BITS:
        values = [int(v, 16) for v in re.findall(rf"\b{register}=([0-9a-f]+)", registers)]
        result(len(values) == CPUS and all(value >> bit & 1 for value in values), name, f"{register}: {values}")
    # flags: X (not executable) G P D A C T U W
    both = [at for at, flags in mappings if flags[0] != "X" and flags[8] == "W"]
    result(len(mappings) > 100 and not both, "no page is writable and executable", f"{len(mappings)} mappings",
           *both[:10])
    kernel_user = [at for at, flags in mappings if int(at, 16) >> 47 and flags[7] == "U"]
    result(not kernel_user, "no page of the kernel is open to ring 3", *kernel_user[:10])
    result(run.returncode == 0, "the machine went on", str(run.returncode))
    for bug, message in [("STACK_OVERFLOW", "the kernel stack of thread sh "), ("STACK_SMASH", "a stack array was overrun"),
                         ("INTERRUPTED", "interrupt in the kernel")]:
        subprocess.run(["scripts/bugs", "build", "kernel", bug], cwd=ROOT, check=True)
        run = subprocess.run(["scripts/run", "--no-store", "--cpus", str(CPUS), "--kernel",
                              f"build/bugs/kernel/{bug}/kernel.elf", "--timeout", "280", "-c", "check"],
                             cwd=ROOT, capture_output=True, text=True, check=False)
        result(run.returncode == 122 and f"PANIC: {message}" in run.stderr, f"planted {bug}: '{message}'",
               f"status {run.returncode}", *run.stderr.splitlines()[:9])
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
