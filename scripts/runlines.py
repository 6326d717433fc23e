"""What comes out of the machine of scripts/run: its serial lines, and the source lines of a panic, a killed program, a hang."""

import os
import re
import sys

import places
from runparts import BUILD, added_programs

MONITOR_TIMEOUT_S = 10


class SourceLines:
    """Finds addresses in panic and fault messages, and names their source lines."""

    PANIC = re.compile(r"^panic: ", re.I)
    KILLED = re.compile(r"(?:^|\] )(\S+)\[\d+\]: killed:")
    kernel = os.path.join(BUILD, "kernel.elf")
    KERNEL_ADDRESS = re.compile(r"\b(?:0x)?(ffffffff8[0-9a-f]{7})\b")
    USER_ADDRESS = places.USER_ADDRESS
    CONTINUED = re.compile(r"(?:\[ *\d+\.\d+\] )?  ")           # a report goes on
    STACK_LINE = re.compile(r"\s+(?:0x)?(0000[0-9a-f]{12})\b")   # of a killed program's back trace

    def __init__(self, args):
        self.programs = {name: path for path, name in added_programs(args)}
        words = re.findall(r"[A-Za-z0-9_.-]+", getattr(args, "commands", None) or "")
        self.named = [name for name in dict.fromkeys(words)
                      if os.path.isfile(self.program(name))]

    def program(self, name):
        return self.programs.get(name) or places.program(name) or ""

    def guesses(self, address):
        """Lines that say what a user ADDRESS is in each program that the commands name."""
        texts = [(name, self.lookup(self.program(name), address))
                 for name in self.named if os.path.exists(self.program(name))]
        return [f"        if that is {name}: {text}" for name, text in texts if text]

    @staticmethod
    def lookup(elf, address):
        return places.lookup(elf, [address]).get(address)

    def explain(self, line, program=None):
        """Lines to print below LINE, which may be of PROGRAM's back trace."""
        found = [(self.kernel, m[1]) for m in self.KERNEL_ADDRESS.finditer(line)]
        found += [(self.program(m[1]), m[2]) for m in self.USER_ADDRESS.finditer(line)]
        if program and (match := self.STACK_LINE.match(line)):
            found.append((self.program(program), match[1]))
        returned = 0 if re.search(r"\brip\b|killed", line) else 1   # else: an address after a call
        texts = [self.lookup(elf, int(address, 16) - returned) for elf, address in found
                 if os.path.exists(elf)]
        return ["        " + part.strip() for text in texts if text for part in text.splitlines()]

    def report(self, text, stream):
        """Print every killed program and every panic in TEXT, with the source lines."""
        panicking, program = False, None
        for line in text.splitlines():
            panicking = panicking or self.PANIC.search(line) is not None
            killed = self.KILLED.search(line)
            if killed:
                program = killed[1]
            elif not self.CONTINUED.match(line):
                program = None
            if panicking or program:
                print("\n".join([places.labelled(line)] + self.explain(line, program)), file=stream)


class Output:
    """One of the guest's serial lines: kept, watched for a text, given away line by line, and perhaps printed."""

    def __init__(self, printed, start=None, kept_bytes=8 << 20, each_line=None):
        self.printed, self.start, self.kept_bytes = printed, start, kept_bytes
        self.each_line, self.rest = each_line, b""
        self.data, self.pending = bytearray(), b""
        self.awaited = self.action = None

    def on_text(self, text, action):
        """Calls the action once, when the text has come within the first that is kept."""
        self.awaited, self.action = text, action

    def take(self, chunk):
        chunk = self.pending + chunk
        if self.start is not None:              # a firmware's and GRUB's output comes before
            before, found, after = chunk.partition(self.start)
            if not found:
                self.pending = before[-len(self.start):]
                return
            self.start, chunk = None, after
        self.pending = b"\r" if chunk.endswith(b"\r") else b""
        chunk = chunk[:len(chunk) - len(self.pending)].replace(b"\r\n", b"\n")
        self.data += chunk
        if self.awaited and self.awaited in self.data:
            self.awaited = None
            self.action()
        del self.data[:-self.kept_bytes]
        if self.each_line:
            *whole, self.rest = (self.rest + chunk).split(b"\n")
            for line in whole:
                self.each_line(line)
        if self.printed:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()

    def end_line(self):
        """For people only: a program that reads the output must see that its last line was cut off."""
        if sys.stdout.isatty() and self.printed and self.data and not self.data.endswith(b"\n"):
            print(flush=True)

    def text(self):
        return self.data.decode("utf-8", "replace")


def where_it_hangs(monitor, lines):
    """Each CPU's instruction pointer, from QEMU's monitor."""
    answer = b""
    try:
        monitor.settimeout(MONITOR_TIMEOUT_S)
        monitor.sendall(b"info registers -a\n")
        while answer.count(b"(qemu)") < 2 and (chunk := monitor.recv(65536)):   # prompts, before and behind
            answer += chunk
    except OSError:
        pass                            # it hangs, too
    for cpu, rip in enumerate(re.findall(rb"RIP=([0-9a-f]{16})", answer)):
        text, address = f"CPU {cpu}: rip {rip.decode()}", int(rip, 16)
        found = lines.explain(text) if address >> 63 else lines.guesses(address)
        print("\n".join([text] + found), file=sys.stderr)
