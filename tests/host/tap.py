"""tap.py - the Test Anything Protocol for tests in Python.

Every function whose name begins with `test_` is a test, its name a sentence. It fails by an
exception. load(NAME) gives a program of scripts/ as a module.
"""

import os
import sys
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


sys.dont_write_bytecode = True
sys.path.append(os.path.join(ROOT, "scripts"))
from load import load as load_file


def load(name):
    return load_file(os.path.normpath(os.path.join("scripts", name)))


def run_tests(names, turns=1):
    """names: the caller's globals(). Of a dear program with `turns` every so many-th test runs, the next one on the next day, but for
    the long tier; DAY=N repeats those of another day. Ends the program."""
    tests = [value for name, value in names.items() if name.startswith("test_")]
    if os.environ.get("TEST_TIER", "test") != "long":
        tests = tests[int(os.environ.get("DAY") or time.time() // 86400) % turns::turns]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__[5:]}")
        except Exception:                       # any exception is this test's failure
            failed += 1
            print(f"not ok {number} - {test.__name__[5:]}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()))
    sys.exit(1 if failed else 0)
