#!/usr/bin/env python3
"""Keys that come while the kernel begins to listen are all there, in their order.

gdb stops the machine at its instructions, and types the next key when the port has none: so a key comes between any two
of them. A port forgets what it holds when its FIFO goes on, so that is looked for, too.
"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "host"))
import tap                                                                # noqa: E402

SCRATCH = os.environ.get("TEST_TMP") or os.path.join(ROOT, "build")
PORT = 10000 + os.getpid() % 20000
KEYS = os.path.join(SCRATCH, "keys")
TEXT = "abcdefghijklmnopqrstuvwxyz-0123456789"
LOOKS = 100000
STEPS = 400

# What gdb does. 0x3fd says whether the port holds a key; a write to 0x3fa with these bits forgets it.
TYPIST = f"""
import gdb, os
keys = iter("echo {TEXT}\\nhalt\\n")
there = os.open({KEYS!r}, os.O_WRONLY)
def holds():
    return int(gdb.execute("monitor i /1bx 0x3fd", to_string=True).split("=")[1], 16) & 1
def press():
    key = next(keys, None) if not holds() else None
    if key is None:
        return
    os.write(there, key.encode())
    for _ in range({LOOKS}):
        if holds():
            return
    raise gdb.GdbError("the port does not take the key")
gdb.execute("set pagination off")
gdb.execute("set tcp connect-timeout 60")
gdb.execute("set remotetimeout 120")
gdb.execute("target remote :{PORT}")
gdb.execute("hbreak serial_input_start")
gdb.execute("continue")
here = gdb.selected_frame()
outs = [one["addr"] for one in here.architecture().disassemble(here.function().value().address, here.block().end)
        if one["asm"].split()[0].startswith("out")]
for address in outs:
    gdb.execute("break *%#x if ($edx & 0xffff) == 0x3fa && ($eax & 7) != 0" % address)
end = int(gdb.parse_and_eval("(long)&thread_breathe"))      # called next
def at_end():
    return int(gdb.parse_and_eval("(long)$pc")) == end
for _ in range({STEPS}):
    press()
    if not at_end():
        gdb.execute("stepi", to_string=True)
gdb.execute("hbreak thread_breathe")
while not at_end():
    gdb.execute("continue", to_string=True)
    press()
gdb.execute("delete")
for key in keys:
    os.write(there, key.encode())
gdb.execute("detach")
"""


def test_keys_that_come_at_any_instruction_are_all_there():
    os.mkfifo(KEYS)
    script = os.path.join(SCRATCH, "typist.py")
    with open(script, "w", encoding="ascii") as out:
        out.write(TYPIST)
    keys = os.open(KEYS, os.O_RDWR)
    with subprocess.Popen([os.path.join(ROOT, "scripts/run"), "--no-store", "--cpus", "1", "--gdb", str(PORT), "--timeout", "200"],
                          stdin=keys, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as guest:
        gdb = subprocess.run(["gdb", "-nx", "-batch", os.path.join(ROOT, "build/kernel.elf"), "-x", script],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said = guest.stdout.read()
    os.close(keys)
    assert gdb.returncode == 0 and "Error" not in gdb.stdout, gdb.stdout[-2000:]
    assert f"\n{TEXT}\n" in said, said[-2000:] + gdb.stdout[-500:]


tap.run_tests(globals())
