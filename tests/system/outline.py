#!/usr/bin/env python3
"""The outline: keys against a model, a power cut behind each key that is seen and at any other moment, hostile input.

SEED=N repeats a run of another seed.
"""

import os
import random
import re
import shutil
import subprocess

from machine import PROMPT, ROOT, Machine, tap

TMP = os.environ.get("TEST_TMP", "/tmp")
SEED = int(os.environ.get("SEED") or 1)
LONG = os.environ.get("TEST_TIER") == "long"
STORE = os.path.join(TMP, "outline.store")
IMPORT = os.path.join(TMP, "keys")
DRAWN = r"\^X end"                      # the last that is written of each picture
UP, DOWN, RIGHT, LEFT, HOME, LAST, DELETE, OUT = (f"\x1b{key}" for key in "[A [B [C [D [H [F [3~ [Z".split())
ENTER, BACK, TAB, BEFORE, BEHIND, KILL, FOLD, UNDO, REDO = "\r\x7f\t\x10\x0e\x0b\x0f\x1a\x19"


class Line:
    """A line of the model; its number is the same in all copies."""

    numbers = 0

    def __init__(self, parent, like=None):
        Line.numbers += like is None
        self.number = like.number if like else Line.numbers
        self.parent, self.text, self.below = parent, like.text if like else b"", []

    def copy(self, parent, marked):
        """A copy of it and of all below; where marked[0] was met, marked[1] is its copy."""
        new = Line(parent, self)
        if self is marked[0]:
            marked[1] = new
        new.below = [child.copy(new, marked) for child in self.below]
        return new


class Model:
    """The same in another way: whole copies are kept to be undone."""

    def __init__(self):
        self.top = Line(None)
        self.top.below = [Line(self.top)]
        self.cursor, self.at, self.typed, self.folded = self.top.below[0], 0, None, set()
        self.undone, self.done = [], []

    def shown(self):
        found = []

        def walk(line):
            for child in line.below:
                found.append(child)
                if child.number not in self.folded:
                    walk(child)
        walk(self.top)
        return found

    def text(self):
        def walk(line, depth):
            return b"".join(b"  " * depth + child.text + b"\n" + walk(child, depth + 1) for child in line.below)
        return walk(self.top, 0)

    def state(self):
        marked = [self.cursor, None]
        return self.top.copy(None, marked), marked[1], self.at

    def keep(self):
        self.done.append(self.state())
        self.undone = []

    def go(self, line, at):
        if line is None:
            return
        self.cursor, self.at = line, min(at, len(line.text))
        while self.at > 0 and line.text[self.at:self.at + 1] and line.text[self.at] & 0xc0 == 0x80:
            self.at -= 1

    def beside(self, by):
        lines = self.shown()
        index = [line.number for line in lines].index(self.cursor.number) + by
        return lines[index] if 0 <= index < len(lines) else None

    def join(self, line, before):
        if line is None or before is None or line.below:
            return
        self.keep()
        if line is self.cursor:
            self.go(before, len(before.text))
        before.text += line.text
        line.parent.below.remove(line)

    def split(self):
        line, above = self.cursor, self.at == 0 and self.cursor.text
        inside = not above and self.cursor.below and self.cursor.number not in self.folded
        self.keep()
        new = Line(line if inside else line.parent)
        if above:
            line.parent.below.insert(line.parent.below.index(line), new)
            return
        line.text, new.text = line.text[:self.at], line.text[self.at:]
        if inside:
            line.below.insert(0, new)
        else:
            line.parent.below.insert(line.parent.below.index(line) + 1, new)
        self.go(new, 0)

    def move(self, key):
        line, siblings = self.cursor, self.cursor.parent.below
        index = siblings.index(line)
        if key == TAB and index > 0:
            self.keep()
            siblings.remove(line)
            siblings[index - 1].below.append(line)
            line.parent = siblings[index - 1]
        elif key == OUT and line.parent is not self.top:
            self.keep()
            siblings.remove(line)
            parent = line.parent.parent
            parent.below.insert(parent.below.index(line.parent) + 1, line)
            line.parent = parent
        elif (key == BEFORE and index > 0) or (key == BEHIND and index < len(siblings) - 1):
            self.keep()
            siblings.remove(line)
            siblings.insert(index + (1 if key == BEHIND else -1), line)

    def kill(self):
        line, siblings = self.cursor, self.cursor.parent.below
        index, before = siblings.index(line), self.beside(-1)
        near = siblings[index + 1] if index + 1 < len(siblings) else before
        self.keep()
        if near is None:
            near = Line(self.top)
            siblings.append(near)
        siblings.remove(line)
        self.go(near, 0)

    def edit(self, key, typed):
        line, at = self.cursor, self.at
        character = len(line.text[:at].decode()[-1:].encode()) if key == BACK else len(line.text[at:].decode()[:1].encode())
        if key in (BACK, DELETE) and not character:
            if key == BACK:
                self.join(line, self.beside(-1))
            else:
                self.join(self.beside(1), line)
            return
        if typed is not line or key == " ":
            self.keep()
        if key == BACK:
            self.at -= character
        cut = character if key in (BACK, DELETE) else 0
        add = b"" if key in (BACK, DELETE) else key.encode()
        line.text = line.text[:self.at] + add + line.text[self.at + cut:]
        self.at += len(add)
        self.typed = line

    def back(self, source, target):
        if source:
            target.append(self.state())
            self.top, self.cursor, self.at = source.pop()

    def press(self, key):
        typed, self.typed = self.typed, None
        line, before = self.cursor, self.at
        if key in (UP, DOWN):
            self.go(self.beside(-1 if key == UP else 1), self.at)
        elif key == LEFT:
            if before:
                self.go(line, before - 1)
            else:
                self.go(self.beside(-1), 1 << 30)
        elif key == RIGHT:
            if before < len(line.text):
                self.at += len(line.text[before:].decode()[0].encode())
            else:
                self.go(self.beside(1), 0)
        elif key in (HOME, LAST):
            self.go(line, 0 if key == HOME else 1 << 30)
        elif key == ENTER:
            self.split()
        elif key in (TAB, OUT, BEFORE, BEHIND):
            self.move(key)
        elif key == KILL:
            self.kill()
        elif key == FOLD:
            self.folded ^= {line.number} if line.below else set()
        elif key == UNDO:
            self.back(self.done, self.undone)
        elif key == REDO:
            self.back(self.undone, self.done)
        else:
            self.edit(key, typed)
        above = self.cursor.parent
        while above:
            self.folded.discard(above.number)
            above = above.parent


def some_keys(rng, count):
    """Undo and redo are often followed by more of them."""
    keys, often = [], [*"abcdefgh ", "ü", "漢", "\U0001f333", ENTER, ENTER, TAB, TAB, OUT, UP, UP, DOWN, LEFT, RIGHT]
    while len(keys) < count:
        more = rng.choice([*often, *often, HOME, LAST, BACK, BACK, DELETE, BEFORE, BEHIND, KILL, FOLD, UNDO, REDO])
        keys += [more] * (rng.randint(1, 12) if more in (UNDO, REDO) else rng.randint(1, 2))
    return keys[:count]


def write(name, data):
    os.makedirs(IMPORT, exist_ok=True)
    with open(os.path.join(IMPORT, name), "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())


def guest(commands, store=STORE):
    done = subprocess.run([os.path.join(ROOT, "scripts/run"), "--store", store, "--store-size", "24M", "--memory", "128",
                           "--import", IMPORT, "--timeout", "100", "-c", commands],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.replace(b"\r", b"")


def same(wanted, found, hint=""):
    assert wanted == found, f"wanted:\n{wanted!r}\nfound:\n{found!r}\n{hint}"


def sound(store):
    for what in "check", "leaks":
        done = subprocess.run([os.path.join(ROOT, "build/host/kstore"), what, store], stdout=subprocess.PIPE, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("no leaks among "), done.stdout


def test_keys_do_what_the_model_does_and_nothing_leaks():
    parts, each = (40, 400) if LONG else (8, 150)
    rng, model, wanted, commands = random.Random(SEED), Model(), [], []
    for part in range(parts):
        keys = some_keys(rng, each)
        write(f"part{part}", "".join(keys))
        for key in keys:
            model.press(key)
        wanted.append(model.text())
        commands.append(f"outline </import/part{part}; outline --print; echo ----")
    found = guest("; ".join(commands)).split(b"----\n")
    for part, text in enumerate(wanted):
        same(text.decode(), found[part].decode(), f"part {part}; SEED={SEED} repeats it")
    sound(STORE)


def test_what_is_seen_is_durable_and_any_other_power_cut_leaves_a_first_part():
    base, used, log, cut_off = (os.path.join(TMP, name) for name in ("base", "used", "log", "cut"))
    cut = os.path.join(ROOT, "scripts/cut")
    write("something", "x" + UNDO)
    guest("outline </import/something", base)
    shutil.copyfile(base, used)
    keys = list("milk") + [ENTER, TAB] + list("two") + [ENTER, OUT] + list("tea!") + [BACK, UP, KILL, UNDO, BEFORE, UNDO, REDO]
    model, states, moments = Model(), [], []
    states.append(model.text())
    machine = Machine(used, "--record", log, "--memory", "128", "--append", "store.checkpoint_ms=500")
    try:
        machine.type("outline\r", DRAWN)
        for number, key in enumerate(keys, 1):
            machine.type(key, DRAWN)
            model.press(key)
            states.append(model.text())
            moments.append((number, os.path.getsize(log)))     # at once: in 100 ms the store flushes by itself
        burst = list("and a burst of keys that come at once, as when a text is pasted")
        machine.type("".join(burst), "is pasted.*" + DRAWN)
        for key in burst:
            model.press(key)
            states.append(model.text())
    finally:
        machine.kill()
    read_log = tap.load("cut").read_log
    for number, size in moments if LONG else random.Random(SEED).sample(moments, 2):
        with open(log, "rb") as whole, open(log + ".part", "w+b") as part:
            part.write(whole.read(size))
            part.seek(0)
            entries = len(read_log(part))
        subprocess.run([cut, log, base, cut_off, "--at", str(entries), "--keep", "none"], check=True)
        same(states[number].decode(), guest("outline --print", cut_off).decode(), f"key {number}, cut at {entries}")
    count, seen = 30 if LONG else 3, set()
    subprocess.run([cut, log, base, cut_off, "--random", str(count), "--seed", str(SEED)], check=True,
                   stdout=subprocess.DEVNULL)
    for number in range(count):
        found = guest("outline --print", f"{cut_off}.{number}")
        assert found in states, f"--random {count} --seed {SEED}, state {number}: {found!r}"
        seen.add(states.index(found))
    assert len(seen) > (2 if LONG else 1), seen
    sound(used)


def test_what_is_no_key_is_passed_over():
    write("bad", b"ok\xff\xc3(\xe2\x82\xed\xa0\x80\xf5\x80\x80\x80\x00\x02\xc2\x85\x1b[99;99;99Q\x1b[15~\x1bOP\x1b\x1bx\x1b[[A\x1b[<0;10;20M\x1b[1:2;3u\x1b]0;title\x07"
          b"\x1bP1$r\x1b\\!\x1b[")
    write("long", "\n" + "0123456789" * 450 + "\x0e\x06" + "z" * 100 + "\r")
    found = guest("outline bad </import/bad; outline bad --print; outline bad </import/long; outline bad --print")
    first, rest = found.split(b"\n", 1)
    assert first.startswith(b"ok") and first.endswith(b"!") and all(32 <= byte < 127 for byte in first), first
    lost = b"outline: a line takes 4000 bytes: what came behind is lost"
    same([lost, first, b"0123456789" * 400, b""], rest.split(b"\n"))


def test_a_container_of_something_else_and_wrong_words_are_told_in_a_line():
    write("nothing", DOWN + "\x0c")
    write("undone", "x" + UNDO)
    same(b"\n", guest("outline empty </import/undone; outline empty --print"))
    found = guest("todo add x; outline todo </import/nothing; outline none </import/nothing; outline none --print; outline -x; outline a b; outline --help; todo")
    lines = found.decode().split("\n")
    assert lines[0].startswith("outline: todo: the layout does not match"), lines[0]
    assert lines[1].startswith("outline: none: there is no container of that name"), lines[1]
    same(3, found.count(b"outline [NAME] [--print]"))
    same("- x", lines[-2])


def test_two_at_a_time_type_into_one_outline():
    write("xs", "x" * 150)
    write("ys", "y\r" * 75)
    found = guest("outline two </import/xs & outline two </import/ys; wait; outline two --print")
    same((150, 75, 76), (found.count(b"x"), found.count(b"y"), found.count(b"\n")))
    sound(STORE)


def test_a_screen_of_any_size_shows_where_the_cursor_is():
    machine = Machine(STORE)
    try:
        machine.type("outline screen\r", DRAWN)
        machine.type("top\r\tbelow\r" + "x" * 100 + "end", "end.*" + DRAWN)
        machine.type("\x1b[Atwo", "- top\n.*- below.*two")
        machine.type("\x1b[6;30R", r"- top\n  - belowtwo\n  - x{25}\n\nscreen")      # four lines of the outline
        machine.type(UP + FOLD, r"\+ top\n\n\n\nscreen")
        machine.type("\x06" + "o" * 100, r"find: o{23}\x07")
        machine.type("\x7f" * 100 + "END", r"find: END")
        machine.type("\r", r"- top\n  - belowtwo\n  - x{24}e\n\nscreen")
        machine.type("\x06nowhere\r", r"that key does nothing here")
        for number in range(8):
            machine.type(f"\r{number}", rf"- {number}end")
        machine.type(HOME, r"\n  - 5\n  - 6\n  - 7end\nscreen")
        machine.type("\x18", PROMPT)
        machine.type("echo left\r", r"\nleft\n.*" + PROMPT)
    finally:
        machine.kill()


if __name__ == "__main__":
    tap.run_tests(globals())
