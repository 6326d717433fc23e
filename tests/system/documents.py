#!/usr/bin/env python3
"""Runs the commands in the documents, and compares what they print.

In every Markdown file of the tree, a block fenced as ```console is a session: a line `$ COMMAND`
is run (lines ending in a backslash go on, and <<'END' up to END), and the lines below it are what it prints, or nothing is
said about its output when there are none. `...` in a line stands for any text, and alone in a line
for any lines. Blocks of other kinds, and indented ones, are not run.

A line of a block fenced as ```message is said to be part of a message: it must be in some source.

documents.py [FILE...] runs those of these files only.

The sessions of one document run in order in one folder, which looks like the tree, so that files
they make are found by later ones and do not litter the tree.
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND_TIMEOUT_S = 300
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
    pattern = "\n".join(".*" if line.strip() == "..." else
                        "[^\n]*".join(re.escape(part) for part in line.rstrip().split("..."))
                        for line in expected)
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    return re.fullmatch(pattern.strip("\n"), "\n".join(lines), re.DOTALL) is not None


def looks_like_the_tree(folder):
    for name in os.listdir(ROOT):
        if name not in (".git",) and not name.endswith(".store"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))


def run_document(path, result):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        text = source.read()
    commands, said, quoted = sessions(text), None, list(messages(text))
    for number, line in quoted:
        said = said or sources()
        result(line in said, f"{path} line {number}: a source says: {line}", ["no source does"])
    if not commands:
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMP")) as folder:
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

    for path in sys.argv[1:] or documents():
        run_document(path, result)
    print(f"1..{len(results)}")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
