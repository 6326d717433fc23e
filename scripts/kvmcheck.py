#!/usr/bin/env python3
"""Say whether KVM runs a guest here: a virtual machine of one page that writes a byte to a port.

  scripts/kvmcheck.py           prints the problem and ends with 1, or `KVM runs a guest here`

That /dev/kvm opens proves little: inside a virtual machine it may be there, and take calls, and run nothing.
"""

import ctypes
import fcntl
import mmap
import os
import re
import struct
import subprocess
import sys

DEVICE = "/dev/kvm"
TIME_LIMIT_S = 10
# linux/kvm.h
API_VERSION, CREATE_VM, RUN_BYTES, CREATE_VCPU, RUN = 0xAE00, 0xAE01, 0xAE04, 0xAE41, 0xAE80
SET_MEMORY, SET_REGISTERS, GET_SPECIAL, SET_SPECIAL = 0x4020AE46, 0x4090AE82, 0x8138AE83, 0x4138AE84
EXIT_PORT, EXIT_REASON_AT, PORT, PAGE = 2, 8, 0x10, 4096
CODE = bytes([0xb0, 0x4b, 0xe6, PORT, 0xf4])    # mov $'K', %al; out %al, $PORT; hlt


def step(what, call, *arguments):
    """The call's result; what fails is said with its name."""
    try:
        return call(*arguments)
    except OSError as error:
        raise SystemExit(f"{what}: {error.strerror}") from error


def machine_runs(device):
    """In a process of its own, since a processor that does not go on cannot be stopped from inside."""
    kvm = step(f"{device} does not open", os.open, device, os.O_RDWR)
    version = step("KVM_GET_API_VERSION", fcntl.ioctl, kvm, API_VERSION)
    if version != 12:
        raise SystemExit(f"KVM's interface has version {version}, not 12")
    vm = step("KVM_CREATE_VM", fcntl.ioctl, kvm, CREATE_VM, 0)
    memory = mmap.mmap(-1, PAGE)
    memory[:len(CODE)] = CODE
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    step("KVM_SET_USER_MEMORY_REGION", fcntl.ioctl, vm, SET_MEMORY, struct.pack("IIQQQ", 0, 0, PAGE, PAGE, place))
    cpu = step("KVM_CREATE_VCPU", fcntl.ioctl, vm, CREATE_VCPU, 0)
    run = step("mapping the processor", mmap.mmap, cpu, fcntl.ioctl(kvm, RUN_BYTES))
    special = bytearray(0x138)
    step("KVM_GET_SREGS", fcntl.ioctl, cpu, GET_SPECIAL, special)
    struct.pack_into("QIH", special, 0, 0, 0xffff, 0)                           # cs begins at 0
    step("KVM_SET_SREGS", fcntl.ioctl, cpu, SET_SPECIAL, bytes(special))
    registers = struct.pack("18Q", *[0] * 16, PAGE, 2)                          # rip, rflags
    step("KVM_SET_REGS", fcntl.ioctl, cpu, SET_REGISTERS, registers)
    step("KVM_RUN", fcntl.ioctl, cpu, RUN, 0)
    reason = struct.unpack_from("I", run, EXIT_REASON_AT)[0]
    if reason != EXIT_PORT:
        raise SystemExit(f"a guest of three instructions ended with reason {reason} of linux/kvm.h")
    print("KVM runs a guest here")


def processor_flags():
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
            return set(re.findall(r"\w+", cpuinfo.read()))
    except OSError:
        return set()


def problem(device=DEVICE):
    """None, or why KVM cannot run a guest here."""
    if not os.path.exists(device):
        return f"there is no {device}: no processor with VT-x or AMD-V, switched off in the firmware, " \
            "or a virtual machine that gives its guests none"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device} may not be opened: become a member of its group (`ls -l {device}`)"
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--run", device], text=True, timeout=TIME_LIMIT_S,
                              check=False, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.TimeoutExpired:
        return f"{device} takes a guest of three instructions, and does not run it within {TIME_LIMIT_S} s"
    if done.returncode:
        return f"{device} opens, but does not work: {(done.stderr.strip() or str(done.returncode)).splitlines()[-1]}"
    if not processor_flags() & {"vmx", "svm"}:
        return f"{device} runs a guest of three instructions, but the processor shows neither vmx nor svm: " \
            "what stands in for them is not trusted with a whole system"
    return None


def main():
    if sys.argv[1:2] == ["--run"]:
        machine_runs(sys.argv[2])
        return 0
    if len(sys.argv) > 1:
        asked = sys.argv[1:] in (["-h"], ["--help"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    wrong = problem()
    print(wrong or "KVM runs a guest here")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
