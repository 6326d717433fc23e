"""A booted Katydid with a terminal, for tests that type: imported by those beside it."""

import codecs
import os
import pty
import re
import select
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "host"))
import tap                                                                # noqa: E402, F401

ANSWER_TIMEOUT_S = 120
PROMPT = "katydid> "


class Machine:
    """A booted Katydid with a terminal."""

    def __init__(self, store, *options):
        self.here, there = pty.openpty()
        self.process = subprocess.Popen(
            [os.path.join(ROOT, "scripts/run"), "--store", store, "--store-size", "64M", *options],
            stdin=there, stdout=there, stderr=there, start_new_session=True)
        os.close(there)
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self.size = None                # rows and columns, for those who ask the terminal
        self.raw = self.text = ""       # text: without control characters and what was expected
        self.expect(PROMPT)

    def expect(self, wanted):
        """Waits until `wanted` (a regular expression) appears; what came up to its end."""
        while not (match := re.search(wanted, self.text, re.S)):
            ready, _, _ = select.select([self.here], [], [], ANSWER_TIMEOUT_S)
            assert ready, f"waited for {wanted!r}, saw {self.text[-500:]!r}, and {self.raw[:100]!r}"
            self.raw += self.decode(os.read(self.here, 65536))
            if self.size and "\x1b[6n" in self.raw:
                os.write(self.here, b"\x1b[%d;%dR" % self.size)
            whole = re.match(r"([^\x1b]|\x1b\[[0-9;?]*[A-Za-z]|\x1b[78])*", self.raw)[0]
            self.text += re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[78])|\r", "", whole)
            self.raw = self.raw[len(whole):]
        seen, self.text = self.text[:match.end()], self.text[match.end():]
        return seen

    def type(self, keys, wanted):
        os.write(self.here, keys.encode())
        return self.expect(wanted)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.here)
