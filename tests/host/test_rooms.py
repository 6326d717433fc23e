#!/usr/bin/env python3
"""Tests of scripts/rooms.py: which headers a file of the kernel may include."""

import os
import re
import tempfile

from tap import ROOT, load, run_tests

rooms = load("rooms.py")
os.chdir(ROOT)
FILES = rooms.sources("kernel", "arch")
HEADERS = rooms.by_include(FILES)


def wrong(name, line):
    """What is said of a file of this name that has this line."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.dirname(os.path.join(folder, name)))
        with open(os.path.join(folder, name), "w", encoding="utf-8") as source:
            source.write(line + "\n")
        os.chdir(folder)
        try:
            return list(rooms.bad_includes([name], HEADERS))
        finally:
            os.chdir(ROOT)


def test_the_header_of_a_rooms_name_is_for_all_above():
    assert wrong("kernel/look/new.c", '#include "store/store.h"') == []
    assert wrong("kernel/seams.c", '#include "store/store.h"') == []


def test_another_header_is_for_its_room_alone_however_it_is_named():
    assert wrong("kernel/store/new.c", '#include "store/view.h"') == []
    for include in ('"store/view.h"', '"kernel/store/view.h"', '"../store/view.h"', "<store/view.h>"):
        said = wrong("kernel/look/new.c", "#include " + include)
        assert said == ["kernel/look/new.c:1: includes kernel/store/view.h, which is for store alone"], said


def test_the_table_names_what_is_public_in_a_room_without_such_a_header():
    assert wrong("kernel/look/new.c", '#include "process/handle.h"') == []
    assert len(wrong("kernel/look/new.c", '#include "process/vm_private.h"')) == 1
    assert len(wrong("kernel/look/new.c", '#include "x86.h"')) == 1


def test_an_include_runs_downwards():
    said = wrong("kernel/message/new.c", '#include "store/store.h"')
    assert said == ["kernel/message/new.c:1: includes kernel/store/store.h, which lies above message"], said


def test_a_header_in_the_table_is_there_and_another_room_includes_it():
    for name, public in rooms.PUBLIC.items():
        for header in public or ():
            users = {rooms.room(user) for user in FILES for line in open(user, encoding="utf-8")
                     if re.match(rf'#include "(\w+/)?{re.escape(header)}"', line)}
            assert users - {name}, header


run_tests(globals())
