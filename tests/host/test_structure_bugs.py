#!/usr/bin/env python3
"""The tests of the structures' tests: each planted bug of libpstore/structures (tests/bugs/structures) must be found by
the program of tests/host that its patch names, which must pass without it (as it does when it runs for itself)."""

import os
import subprocess
import tempfile

import tap

BUGS = tap.load("bugs")
FLAGS = ["-std=c11", "-O1", "-D_GNU_SOURCE", "-DKATYDID_TEST", "-Wno-unused"]
PATHS = [".", "libpstore", "libpstore/structures", "kernel/include"]
GUARD = ["timeout", "60"]


def patched(name, folder):
    """The objects of what the bug changes, compiled in a copy."""
    patch, objects = BUGS.patch_of("structures", name), []
    BUGS.copy_touched([patch], folder)
    error = BUGS.apply(patch, folder)
    assert not error, error
    for file, _ in BUGS.touched(patch):
        assert file.endswith(".c"), f"{name}: only sources are compiled, not {file}"
        objects.append(os.path.join(folder, os.path.basename(file)[:-1] + "o"))
        subprocess.run([*GUARD, "gcc", *FLAGS, *(f"-I{path}" for path in PATHS), "-c", "-o", objects[-1],
                        os.path.join(folder, file)], cwd=tap.ROOT, check=True)
    return objects


def looked_for(name):
    program = BUGS.head("structures", name)["Test"].strip()
    with tempfile.TemporaryDirectory() as folder:
        linked = os.path.join(folder, program)
        subprocess.run(["gcc", "-o", linked, f"build/obj/host/tests/host/{program}.o", *patched(name, folder),
                        "build/host/parts.a", "-lcmocka"], cwd=tap.ROOT, check=True)
        done = subprocess.run([*GUARD, linked], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    assert done.returncode != 0, f"{program} passes with {name}"


def tests():
    for name in BUGS.names("structures"):
        yield "test_" + name, lambda name=name: looked_for(name)


if __name__ == "__main__":
    found = dict(tests())
    for title, function in found.items():
        function.__name__ = title
    tap.run_tests(found)
