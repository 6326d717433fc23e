#!/usr/bin/env python3
# Runs once: what the documents say, with the CPUs that they say.
"""Runs the commands in the documents, and compares what they print.

In every Markdown file of the tree, a block fenced as ```console is a session: a line `$ COMMAND`
is run (lines ending in a backslash go on, and <<'END' up to END), and the lines below it are what it prints, or nothing is
said about its output when there are none. `(nothing)` alone: it prints nothing. `...` in a line stands for any text, and
alone in a line for any lines. Blocks of other kinds, and indented ones, are not run.

A line of a block fenced as ```message is said to be part of a message: it must be in some source.

documents.py [FILE...] runs those of these files only. Without any, the sessions of README.md, CONTRIBUTING.md and,
each second day, user/first-hour.md are run, and of the other documents those of a sixteenth that SEED draws (the day); all in the long tier.

The sessions of one document run in order in one folder, which looks like the tree, so that files
they make are found by later ones and do not litter the tree. Numbers from 4700 to 4799 that a document gives
to --gdb or GDB_PORT are ports of TCP: each becomes one that is free. Others stay what they are.

user/first-hour.md runs in a new copy of the tree instead, where nothing is built: its indented block
`make run` is run, and the lines of the indented block behind that are typed at the shell. So what it
says works without any command that it does not say. To save time, objects are there but in the long tier.
"""

import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND_TIMEOUT_S = 300
PROMPT = b"katydid> "
NEW_TREE = ["user/first-hour.md"]
ALWAYS = ["README.md", "CONTRIBUTING.md", *NEW_TREE]    # what a new reader types
SHARE = 16                              # of the others one in so many, but for the long tier
OBJECTS = ["arch", "guest", "host", "kernel", "libpstore", "user"]
READERS = {name: value for name, value in os.environ.items() if name != "CPUS"}     # they did not set it


def goes_on(command):
    """Its last line ends in a backslash, or is of a here-document that has not come to its END."""
    return command.endswith("\\") or ("<<'END'" in command and not command.endswith("\nEND"))


def sessions(text):
    """Triples (line number, command, expected lines)."""
    found, inside, commanding = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"```", line):
            inside, commanding = line.strip() == "```console", False
        elif inside and commanding:
            found[-1][1] += "\n" + line
            commanding = goes_on(found[-1][1])
        elif inside and line.startswith("$ "):
            found.append([number, line[2:], []])
            commanding = goes_on(line)
        elif inside and found:
            found[-1][2].append(line)
    return found


def messages(text):
    """Pairs (line number, line) of the quoted messages."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"```", line):
            inside = line.strip() == "```message"
        elif inside and line.strip():
            yield number, line


def sources():
    """All text that programs may say, with the pieces of each literal put together."""
    paths = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.c", "*.py",
                            "scripts/*"], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE)
    whole = []
    for path in sorted(set(paths.stdout.split())):
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as source:
            whole.append(re.sub(r'"\s*\\?\n\s*f?"', "", source.read()))
    return "\n".join(whole)


def matches(expected, output):
    """Whether the output is as expected; no expectation fits all."""
    if not any(line.strip() for line in expected):
        return True
    if [line.strip() for line in expected if line.strip()] == ["(nothing)"]:
        return not output.strip()
    pattern = "".join("(?:[^\n]*\n)*" if line.strip() == "..." else
                      "[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + "\n"
                      for line in "\n".join(expected).strip("\n").split("\n"))
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    return re.fullmatch(pattern, "\n".join(lines) + "\n") is not None


def looks_like_the_tree(folder):
    for name in os.listdir(ROOT):
        if name not in (".git",) and not name.endswith(".store"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))


def is_a_new_tree(folder):
    """What a clone has. The objects have their times, so that they are as good as the tree's."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            text=True, check=True, stdout=subprocess.PIPE).stdout
    for path in filter(lambda path: os.path.exists(os.path.join(ROOT, path)), listed.split("\0")[:-1]):
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, path), os.path.join(folder, path), follow_symlinks=False)
    for name in OBJECTS if os.environ.get("TEST_TIER") != "long" else []:
        objects = os.path.join(ROOT, "build", "obj", name)
        if os.path.isdir(objects):
            shutil.copytree(objects, os.path.join(folder, "build", "obj", name))


def typed_lines(text):
    """Those that a document has typed after `make run`."""
    block = re.search(r"^    make run\n.*?\n\n((?:    [^\n]*\n)+)", text, re.S | re.M)
    return [line.strip() for line in block[1].splitlines()]


def answer(process, wanted=None):
    """What the process prints up to `wanted`, or up to its end or a time-out."""
    seen = b""
    while not (wanted and wanted in seen) and select.select([process.stdout], [], [], COMMAND_TIMEOUT_S)[0]:
        if not (chunk := os.read(process.stdout.fileno(), 65536)):
            break
        seen += chunk
    return seen


def make_run(folder, lines):
    """The status of `make run`, with these lines typed, and what it printed."""
    with subprocess.Popen(["make", "run"], cwd=folder, env=READERS, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        seen = answer(process, PROMPT)
        if PROMPT in seen:
            os.write(process.stdin.fileno(), "".join(line + "\n" for line in lines).encode())
            seen += answer(process)
    return process.returncode, seen.decode(errors="replace").replace("\r", "")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as some:
        return str(some.getsockname()[1])


def with_free_ports(text):
    for number in set(re.findall(r"(?:--gdb |GDB_PORT=)(47\d\d)\b", text)):
        text = re.sub(rf"\b{number}\b", free_port(), text)
    return text


def contents(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def drawn(paths):
    """Whose sessions are run."""
    if os.environ.get("TEST_TIER", "test") == "long":
        return set(paths)
    seed = int(os.environ.get("SEED") or time.time() // 86400)
    print(f"# SEED={seed} draws the documents")
    others = [path for path in paths if path not in ALWAYS]
    return {*(path for path in ALWAYS if seed % 2 or path not in NEW_TREE), *(path for number, path in enumerate(others) if (number + seed) % SHARE == 0)}


def run_document(path, result, runs):
    text = contents(path)
    commands, said, quoted = sessions(with_free_ports(text)), None, list(messages(text))
    for number, line in quoted:
        said = said or sources()
        result(line in said, f"{path} line {number}: a source says: {line}", ["no source does"])
    if not commands or not runs:
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
        if path in NEW_TREE:
            is_a_new_tree(folder)
            status, output = make_run(folder, typed_lines(text))
            result(status == 0 and "\n- bread\n- milk\n" in output, f"{path}: make run",
                   [f"status {status}", *output.splitlines()[-30:]])
        else:
            looks_like_the_tree(folder)
        for number, command, expected in commands:
            try:
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=READERS, text=True, check=False,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=COMMAND_TIMEOUT_S)
                status, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired:
                status, output = "timeout", ""
            result(status == 0 and matches(expected, output), f"{path} line {number}: {command}",
                   [f"status {status}", "wanted:", *expected, "found:", *output.splitlines()])


def documents():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard",
                             "*.md"], cwd=ROOT, text=True, check=True, stdout=subprocess.PIPE)
    return [path for path in sorted(set(listed.stdout.split()))
            if os.path.exists(os.path.join(ROOT, path))]


def main():
    results = []

    def result(good, name, remarks):
        results.append(good)
        name = name.replace("\n", " ").replace("#", "")
        print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
        if not good:
            print(*(f"# {line}" for line in remarks), sep="\n", flush=True)

    chosen = sys.argv[1:] or drawn([path for path in documents() if "```console" in contents(path)])
    for path in sys.argv[1:] or documents():
        run_document(path, result, path in chosen)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
