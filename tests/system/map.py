#!/usr/bin/env python3
"""The map: an island of two lands, hostile files, keys at a terminal, and the real world if it was fetched."""

import os
import random
import re
import subprocess
import xml.etree.ElementTree

from machine import PROMPT, ROOT, Machine, tap

TMP = os.environ.get("TEST_TMP", "/tmp")
ONE_IN = 1 if os.environ.get("TEST_TIER") == "long" else 8     # places of the real world
STORE = os.path.join(TMP, "map.store")
IMPORT = os.path.join(TMP, "worlds")
ISLAND = """land Westland
land Eastland
line 1 0
0 8
-10 1
0 -8
line 2 0
0 -8
12 0
0 8
line 1 2
0 -8
1 0
0 8
place -6 1 120000 Westport
place 7 -1 45000 Easton & <Quay>
place 7.1 -1.1 4 westport
"""
KNOWN = {"54.3,10.1": ("Germany", "Kiel"), "-29.3,27.5": ("Lesotho", "Maseru"), "43.94,12.45": ("San Marino", ""),
         "41.9,12.4": ("Italy", ""), "-18.1,178.4": ("Viti Levu", ""), "66.1,-169.9": ("Russia", "Anchorage"),
         "-80,0": ("Antarctica", ""), "42,51": ("water", ""), "0,-30": ("water", "Natal"), "35.7,51.4": ("Iran", "Tehran"),
         "-16.9,179.9": ("", "Savusavu")}
KNOWN_PLACES = tuple(b" " + place.encode() for _, place in KNOWN.values() if place)


def guest(commands, store=STORE, *options, size="64M"):
    """What the commands print, without the blanks at the ends of lines."""
    done = subprocess.run([os.path.join(ROOT, "scripts/run"), "--store", store, "--store-size", size, "--import", IMPORT,
                           "--timeout", "100", *options, "-c", commands],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return re.sub(r" +\n", "\n", done.stdout.decode().replace("\r", ""))


def same(wanted, found):
    assert wanted == found, f"wanted:\n{wanted}\nfound:\n{found}"


def where(points, store=STORE):
    """What is said of the middle at each of these points."""
    said = guest("; ".join(f"map --at {point} --zoom 3" for point in points), store)
    return [line.split(", ", 1)[1] for line in said.split("\n") if line.startswith("+ ")]


os.makedirs(IMPORT, exist_ok=True)
BAD = {     # a file of one line, or one line more than the island's head
    "points": b"line 0 0\n1 2 3\n", "far": b"line 0 0\n0 91\n", "nan": b"line 0 0\nnan nan\n", "inf": b"line 0 0\ninf 0\n",
    "alone": b"1 2\n", "land": b"land A\nline 0 2\n", "minus": b"line -1 0\n", "place": b"place 1 2 3\n",
    "long": b"land " + b"x" * 300 + b"\n", "cut": b"land A\nland B", "empty": b"", "lines": b"line 0 0\nline 0 0\n1 1\n", "zeros": bytes(4096), "noise": random.Random(1).randbytes(2048),
}
for name, data in BAD.items():
    with open(os.path.join(IMPORT, name), "wb") as out:
        out.write(data)
with open(os.path.join(IMPORT, "island"), "w", encoding="ascii") as out:
    out.write(ISLAND)


def test_without_a_map_it_says_what_to_do_and_what_makes_no_sense_is_refused_whole():
    said = guest("map; " + "; ".join(f"map-import /import/{name}" for name in BAD) + "; map; map-import /none; containers")
    nothing = "map: there is no map yet: `make map` on the host, or map-import FILE"
    lines = said.strip().split("\n")
    same([nothing, nothing], [lines[0], lines[len(BAD) + 1]])
    for line, name in zip(lines[1:], BAD):
        assert re.fullmatch(rf"map-import: /import/{name}, line \d+ makes no sense; nothing was brought in", line), said
    same("map-import: /none: No such file or directory", lines[-2])


def test_the_island_is_painted_and_the_view_is_where_it_was_after_a_reboot():
    said = guest("map-import /import/island; map-import /import/island; map --at 0,1 --zoom 4; map --no; map --zoom 15; map --at 1;"
                 "map a b; map x")
    lines = said.split("\n")
    same(["map-import: 2 lands, 3 pieces of coasts and borders, 3 places",
          "map-import: there is a map already; for another one: rm-container map"], lines[:2])
    screen = lines[2:25]
    same("⠈⠣⡀            o Westport              ⢐                                 ⠉⠢⢄", screen[9])
    same("     ⠑⢄                                ⢐+                                   ⣀⠔⠊⠁", screen[11])
    same("                           ⠑⢄⡀       ⠄        ⣀⠤⠊⠁", screen[21])
    same("+ 0.00 N 1.00 E, Eastland, 676.4 km to Easton & <Quay> (45000). Zoom 4, 16 km a dot", screen[22])
    same(["map: --no: no such option; map --help lists them", "map: --zoom: takes a number from 0 to 14",
          "map: --at: takes LATITUDE,LONGITUDE in degrees, such as 47.4,8.5",
          "map: b: there is one PLACE only; a name with spaces stands in quotes", "map: x: no place of that name", ""], lines[25:])
    same([*screen, ""], guest("map").split("\n"))


def test_the_land_is_known_on_both_sides_of_each_line_and_the_nearest_place():
    near_west, near_east = ", ... km to Westport (120000). ", ", ... km to westport (4). "
    points = ["1,-9", "7.9,-0.1", "0,0.9", "-7,-1", "0,11.9", "-6,3", "9,0", "-9,0", "0,-11", "0,13", "7,7", "85,0", "-90,0"]
    lands = ["Westland"] * 4 + ["Eastland"] * 2 + ["water"] * 7
    found = [re.sub(r"[\d.]+ km to", "... km to", text) for text in where(points)]
    same(lands, [text.split(",")[0] for text in found])
    same(lands[0] + near_west, found[0].split("Zoom")[0])
    same(lands[4] + near_east, found[4].split("Zoom")[0])


def test_a_place_is_found_by_its_name_and_the_largest_wins():
    assert "\n+ 1.00 N 6.00 W, Westland, 0.0 km to Westport (120000)." in guest("map WESTPORT")


def test_the_drawing_is_svg_with_all_that_was_there():
    folder = os.path.join(TMP, "drawn")
    same("", guest("map --at 0,0 --zoom 3 --svg /export/map.svg", STORE, "--export", folder))
    svg = xml.etree.ElementTree.parse(os.path.join(folder, "map.svg")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    same(["border", "coast", "coast"], sorted(path.get("class") for path in svg.iter(space + "path")))
    same({"Westport", "Easton & <Quay>"}, {text.text for text in svg.iter(space + "text")})


def test_keys_move_and_zoom_and_what_was_seen_is_there_when_the_machine_is_killed_and_boots_again():
    machine = Machine(STORE)
    try:
        machine.type("map --at 0,0 --zoom 2; map\r", "q leaves")
        machine.type("+", "Zoom 3, ")
        machine.type("\x1b[C", r"0.00 N 5.62 E, Eastland")
        machine.type("\x1b[A\x1b[D\x1b[D\x1b[1;2D\xff\x1b[99;99;99~x", r"2.81 N 5.62 W, Westland")
        machine.size = 30, 100          # the terminal has another size now: it is asked behind each key
        machine.type("\x0c", "Zoom 3, 25 km a dot")
        machine.size = 31, 90
        machine.type("x", "Zoom 3, 28 km a dot")
        machine.type("0", "0.00 N 0.00 E, .*Zoom 0")
        machine.type("\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D", "135.00 E, ")
        machine.type("-" * 3 + "+" * 20, "Zoom 14")
        machine.type("qecho gone\r", r"\ngone\n.*" + PROMPT)
        machine.type("echo on; map --zoom 13\r", r"0.00 N 135.00 E, water.*Zoom 13.*" + PROMPT)
        machine.type("todo add later; todo\r", r"\n- later\n")     # a strict commit makes all before it durable, too
    finally:
        machine.kill()
    assert "0.00 N 135.00 E, water" in guest("map")


def test_names_are_utf_8_and_what_is_none_is_a_question_mark():
    with open(os.path.join(IMPORT, "names"), "wb") as out:
        out.write("land Öland\nline 1 0\n0 8\n-10 1\n0 -8\nplace -6 1 9 Zürich 東京 x\nplace 3 -3 8 ".encode() +
                  b"bad \xff\xc3(\xed\xa0\x80\xc2\x85\nplace 5 5 7 " + "ü".encode() * 22 + b"\n")
    said = guest("map-import /import/names; map --at 0,0 --zoom 4; map --svg /export/map.svg", STORE + ".names", "--export",
                 os.path.join(TMP, "named"))
    assert "o Zürich 東京 x" in said and "o bad ??(?????" in said and "o " + "ü" * 21 + " " not in said, said
    with open(os.path.join(TMP, "named", "map.svg"), encoding="utf-8") as svg:
        text = svg.read()
    assert ">Zürich 東京 x</text>" in text and ">" + "ü" * 21 + "</text>" in text, text


def test_the_store_is_sound_and_nothing_leaks():
    for what in ["check"], ["leaks"]:
        done = subprocess.run([os.path.join(ROOT, "build/host/kstore"), *what, STORE], stdout=subprocess.PIPE, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("no leaks among "), done.stdout


def test_the_real_world():
    source = subprocess.run([os.path.join(ROOT, "scripts/source"), "map", "--where"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout.strip()
    if not os.path.exists(os.path.join(source, "world.line")):
        print("# skipped: scripts/source map was not fetched")
        return
    store = os.path.join(TMP, "world.store")
    made = subprocess.run([os.path.join(ROOT, "scripts/coastline")], stdout=subprocess.PIPE, check=True).stdout.splitlines(True)
    with open(os.path.join(IMPORT, "world"), "wb") as world:
        world.writelines(line for number, line in enumerate(made) if number % ONE_IN == 0 or not line.startswith(b"place ")
                         or line.rstrip().endswith(KNOWN_PLACES))
    brought = re.match(r"map-import: (\d+) lands, (\d+) pieces of coasts and borders, (\d+) places\n",
                       guest("map-import /import/world", store, size="512M"))
    assert brought and int(brought[1]) > 1000 and int(brought[2]) > 2000 and int(brought[3]) > 40000 // ONE_IN, brought
    for (land, place), found in zip(KNOWN.values(), where(KNOWN, store), strict=True):
        assert found.startswith(land) and f"km to {place}" in found, (land, place, found)


tap.run_tests(globals())
