#!/bin/bash
# The editor of circuit boards: distances that are known, parts that are moved with their tracks, versions, damaged files; work that
# was not saved is lost by a power cut and nothing else is; a real board (Debian's kicad-demos), as its makers' rules have it;
# a design transaction costs what one change of each object costs (tests/bench/board.sh), and may be larger than memory (long tier).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"
IN=$TEST_TMP/in DEMOS=${BOARDS:-/usr/share/kicad/demos} KEEPS=none
[ "${TEST_TIER:-test}" != long ] || STATES=3
mkdir "$IN"
cp tests/board/tiny.kicad_pcb "$IN/"
scripts/katydid-cc tests/board/beside.c -o "$TEST_TMP/beside" || echo "Bail out! no beside"
WITH=(--import "$IN" --export "$TEST_TMP/out")

# --- distances, each known by hand; what is of one net or part, or of other layers, is not told ---
{
    echo '(kicad_pcb (net 1 "a") (net 2 "b") (net 3 "c")'
    track() { echo "(segment (start $1 $2) (end $3 $4) (width 0.2) (layer \"$5\") (net $6))"; }
    via() { echo "(via (at $1 $2) (size $3) (layers $4) (net $5))"; }
    part() { echo "(footprint \"F\" (at $1) (fp_text reference \"$2\") $3)"; }
    pad() { echo "(pad \"$1\" smd $2 (at $3) (size $4) (layers \"F.Cu\") $5)"; }
    track 0 0 5 0 F.Cu 1; track 0 0.5 5 0.5 F.Cu 2; track 0 -0.25 5 -0.25 B.Cu 3; track 0 0.1 5 0.1 F.Cu 1          # 0.3, 0.2
    via 10 0 1 '"F.Cu" "B.Cu"' 1; track 8 0.8 12 0.8 In3.Cu 2                                                       # 0.2
    part "20 0" U1 "$(pad 1 rect "0 0 45" "2 1" "(net 1)")"; via 20.7071068 0.7071068 0.4 '"F.Cu" "B.Cu"' 2         # 0.3
    part "30 0 30" U2 "$(pad 1 rect "0 0 30" "9 9" "(net 1)") $(pad 2 circle "0 0" "1 1" "(net 3)")"
    via 32 0 0.4 '"F.Cu" "B.Cu"' 2                                                                                  # 0 within
    track 40 0 44 4 F.Cu 1; track 40 4 44 0 F.Cu 2                                                                  # 0 they cross
    via 50 0 1 '"F.Cu" "In1.Cu"' 1; track 48 0 52 0 B.Cu 2; track 48 0.7 52 0.7 In1.Cu 2                            # 0.1
    part "60 0" U3 "$(pad 1 roundrect "0 0" "2 1" "(roundrect_rratio 0.25) (net 1)")"; via 61.05 0.65 0.2 '"F.Cu" "B.Cu"' 2     # 0.15
    part "70 0" U4 "$(pad 1 oval "0 0 90" "2 1" "(net 1)")"; via 70 1.4 0.4 '"F.Cu" "B.Cu"' 2                       # 0.2
    part "80 0 90" U5 "$(pad 1 circle "3 0 90" "1 1" "(net 1)")"; via 80 -4 0.4 '"F.Cu" "B.Cu"' 2                   # 0.3
    echo ')'
} >"$IN/shapes.kicad_pcb"
guest --store "$TEST_TMP/shapes" -c 'board shapes "load /import/shapes.kicad_pcb" "check 0.301"'
is "all distances are as known, and none is told that does not count" "0.000 0.000 0.100 0.150 0.200 0.200 0.200 0.300 0.300 0.300" \
    "$(sed -n 's/^\([0-9.]*\) mm at .*/\1/p' <<<"$output" | sort | tr '\n' ' ' | sed 's/ $//')"
ok "with what is near to what" grep -Eq '^0.150 mm at .*(pad U3.1 \(a\), via b|via b, pad U3.1 \(a\))$' <<<"$output"

# --- a small board ---
printf '%s\n' list 'load /import/tiny.kicad_pcb' list >"$IN/first"
printf '%s\n' 'load /import/tiny.kicad_pcb' save list 'list R?' check 'move R9 1 1' bogus >"$IN/second"
guest --store "$BASE" -c 'board tiny </import/first; containers; board tiny </import/second'
is "a board begins with its first load, and is there when that is saved" "2 board: list: there is no container of that name
2 parts, 4 pads, 5 tracks, 1 vias, 2 nets
board: what was not saved is undone
version 1:
2 parts, 4 pads, 5 tracks, 1 vias, 2 nets
R1           at 10.000, 10.000: 2 pads
R2           at 10.000, 20.000: 2 pads
11 pieces, 0 pairs nearer than 0.150 mm
board: move R9 1 1: there is nothing of that name or key
usage:" "$status $(sed -E 's/^(version 1:|usage:|board: list: [^:]*).*/\1/; /^  |^Lengths/d' <<<"$output")"
cp --sparse=always "$BASE" "$TEST_TMP/work"
guest --store "$TEST_TMP/work" -c 'board tiny "draw /export/0" "move R* 3 4 7" "draw /export/1" "move R? -3 -4 1000" "draw /export/2" "at 0 draw /export/3" \
    "move R1 1 0" undo "draw /export/4" "move R1 2 1 10" "draw /export/5" "check 1" save; board tiny "draw /export/6"'
lines() { sed -n 's/^<path .*d="M\([0-9. L-]*\).*/\1/p' "$TEST_TMP/out/$1" | sort; }
ok "there and back is the same picture" diff <(lines 0) <(lines 2)
ok "an undo, too" diff <(lines 0) <(lines 4)
ok "a version before the work is not touched by it" diff <(lines 0) <(lines 3)
is "moving changes it" 1 "$(cmp -s <(lines 0) <(lines 1); echo $?)"
is "what ends in a pad follows it, and only that end" "10.0000 11.0000L6.0000 12.0000
14.0000 11.0000L12.0000 20.0000" "$(lines 5 | grep -x '10.0000 11.0000L.*\|14.0000 11.0000L.*')"
ok "all of it is there after the save, in another program" diff <(lines 5) <(lines 6)

# --- routes, rips ---
printf '%s\n' 'rip G*' list 'route R1.1 R2.2' list 'route R1.1 R2.1' 'route R1.2 R2.7' 'rip A*' 'route R1.2 R2.1' 'rip GND' \
    'route R1.1 R2.2' check list undo list >"$IN/routes"
guest --store "$TEST_TMP/work" -c 'board tiny </import/routes; board tiny "move R1 2 9" check save; board tiny "list R1"'
is "tracks are taken out and laid, if a way is free" "tracks and vias taken out: 5
2 parts, 4 pads, 1 tracks, 0 vias, 2 nets
a track is laid, straight, on the front
2 parts, 4 pads, 2 tracks, 0 vias, 2 nets
board: these pads are of different nets
board: R2 has no pad 7
tracks and vias taken out: 1
a track is laid, straight, on the front
tracks and vias taken out: 1
a track is laid, straight, on the front
7 pieces, 0 pairs nearer than 0.150 mm
2 parts, 4 pads, 2 tracks, 0 vias, 2 nets
2 parts, 4 pads, 5 tracks, 1 vias, 2 nets" "$(sed '/^parts moved/,$d' <<<"$output")"
is "a check that fails keeps a save behind it from being done" "board: what was not saved is undone
R1           at 12.000, 11.000: 2 pads" "$(tail -n 2 <<<"$output")"

# A.1 at 0, 0 and B.1 at 10, 10 are to be joined; each further track of another net closes one more way.
for closed in 0 1 2 3 6; do
    {
        echo '(kicad_pcb (net 1 "a") (net 2 "b")'
        for end in "A 0 0" "B 10 10"; do
            read -r name x y <<<"$end"
            part "$x $y" "$name" "(pad \"1\" thru_hole circle (at 0 0) (size 1 1) (layers \"*.Cu\") (net 1))"
        done
        { track 3 7 7 3 F.Cu 2; track 0 7 0 8 F.Cu 2; track 10 3 10 4 F.Cu 2; track 3 7 7 3 B.Cu 2; track 0 7 0 8 B.Cu 2
          track 10 3 10 4 B.Cu 2; } | head -n "$closed"
        echo ')'
    } >"$IN/ways$closed"
done
guest --store "$TEST_TMP/shapes" -c "$(for n in 0 1 2 3 6; do echo "board w$n 'load /import/ways$n' 'route A.1 B.1' 'draw /export/w$n' check;"; done)"
ways() { for n in 0 1 2 3; do sed -n "s/^<g stroke=\"\(#[^\"]*\).*/\1/p; s/^<path stroke-width=\"0.2500\" d=\"M\([^\"]*\).*/\1/p" "$TEST_TMP/out/w$n" | grep -B 1 '^[^#]'; done; }
is "the straight way comes first, then those with a corner, then the other side; none closes" "#c0504d
0.0000 0.0000L10.0000 10.0000
#c0504d
0.0000 0.0000L0.0000 10.0000
0.0000 10.0000L10.0000 10.0000
#c0504d
0.0000 0.0000L10.0000 0.0000
10.0000 0.0000L10.0000 10.0000
#4a6fb5
0.0000 0.0000L10.0000 10.0000
board: no straight way and no way with one corner is free" "$(ways; grep '^board: no' <<<"$output")"
is "and no way comes too near" 4 "$(grep -c ', 0 pairs' <<<"$output")"

# --- others look meanwhile ---
WITH=(--import "$IN" --add "$TEST_TMP/beside" --add build/user/board)   # which it runs
guest --allow all --store "$TEST_TMP/work" -c 'beside R1'
R1='R1           at'
is "who looks beside the work sees what was saved, and waits for nobody" "editor: parts moved: 1; ends of tracks and vias that follow: 2
editor: $R1 19.000, 11.000: 2 pads
beside: $R1 12.000, 11.000: 2 pads
editor: version 1:
beside: $R1 19.000, 11.000: 2 pads
editor: parts moved: 1; ends of tracks and vias that follow: 2
editor: $R1 12.000, 11.000: 2 pads
editor: $R1 19.000, 11.000: 2 pads
editor: $R1 19.000, 11.000: 2 pads" "$(sed -E 's/(version 1:).*/\1/' <<<"$output")"

# --- files that are no boards, or damaged: nothing of them stays ---
head -c 700 "$IN/tiny.kicad_pcb" >"$IN/cut"
echo 'hello' >"$IN/hello"
sed 's/(start 8 10)/(start 8e9 10)/' "$IN/tiny.kicad_pcb" >"$IN/far"
sed '$s/.*/(via (at 1 1) (size -1) (layers "F.Cu") (net 1)))/' "$IN/tiny.kicad_pcb" >"$IN/negative"
sed 's/(net 2 "A .*/(net 2 "GND")/' "$IN/tiny.kicad_pcb" >"$IN/twice"
sed 's/(net 1 "GND")/(net 70000 "GND")/' "$IN/tiny.kicad_pcb" >"$IN/net"
printf '%s\n' 'move R1 1e9 0' 'move R1 nan 0' 'move R1 800 0' 'move R1 800 0' 'list R1' >"$IN/moves"
guest --store "$TEST_TMP/work" -c "$(for f in cut hello far negative twice net none; do echo "board t 'load /import/$f' save;"; done) board tiny </import/moves"
is "files are refused with the line, and parts that would be moved out of reach" "board: /import/cut:11: it ends within a list
board: /import/hello is no board of KiCad's
board: /import/far:15: a place or size of more than 900 mm, or no number
board: /import/negative:20: a size is negative
board: all that was not saved is undone: it exists already
board: /import/net:3: a net's number is not below 65,536
board: load /import/none:
board: move R1 1e9 0:
board: move R1 nan 0:
parts moved: 1; ends of tracks and vias that follow: 2
board: R1 would be farther than 900 mm
R1           at 19.000, 11.000: 2 pads" "$(grep -v 'undone: an arg' <<<"$output" | sed -E 's/^(board: (load|move)[^:]*:).*/\1/')"
guest --store "$TEST_TMP/work" -c 'containers'
is "and nothing of them stays" "tiny" "$(awk '/KiB/ { print $(NF - 4) }' <<<"$output")"

# --- power cuts: each save moves both parts by 1 mm, in 100 steps ---
for ((n = 0; n < 8; n++)); do printf 'move R* 1 0 100\nsave\n'; done >"$IN/steps"
printf 'move R* 5 5 100\nrip *\n' >>"$IN/steps"
WITH=(--import "$IN") CHECK='board tiny "list R?"'
STEP='/^R1/{N;s/^R1 +at ([0-9]+)\.000, 10\.000: 2 pads\nR2 +at \1\.000, 20\.000: 2 pads$/\1/p}'
recorded 'board tiny </import/steps'
is "eight versions are saved" 8 "$(grep -c '^version' <<<"$output")"
cuts 10 18

# --- a real board; in `make test` each second day ---
if ! today 1 2; then
    ok "a real board # skip its turn is the next day" true
elif [ -e "$DEMOS/video/video.kicad_pcb" ]; then
    F=$DEMOS/video/video.kicad_pcb
    wanted="$(grep -c '^  (footprint' "$F") parts, $(grep -c '^    (pad ' "$F") pads, $(grep -c '^  (segment' "$F") tracks, $(grep -c '^  (via' "$F") vias"
    cp "$F" "$IN/"
    printf '%s\n' 'load /import/video.kicad_pcb' list check save 'move U1 3 0' check >"$IN/video"
    guest --store "$TEST_TMP/video" --store-size 64M -c 'board video </import/video'
    is "all of a board of a video card is read" "$wanted" "$(sed -n '1s/, [0-9]* nets$//p' <<<"$output")"
    is "no two of its 11,040 pieces are nearer than its makers' rule has it; a part that is moved is too near" "0 10" \
        "$(sed -n 's/.* pieces, \([0-9]*\) pairs.*/\1/p' <<<"$output" | tr '\n' ' ' | sed 's/ $//')"
    BOARD_STORE=$TEST_TMP/video scripts/bench board >"$TEST_TMP/bench" 2>&1
    is "1,000 changes of 100 objects cost what one of each costs: log, commit, messages" 3 "$(grep -c ' met$' "$TEST_TMP/bench")"
    sed 's/^/# /' "$TEST_TMP/bench"
    if [ "$TEST_TIER" = long ]; then
        F=$DEMOS/stickhub/StickHub.kicad_pcb
        mkdir "$TEST_TMP/stick" && cp "$F" "$TEST_TMP/stick/"
        WITH=(--import "$TEST_TMP/stick" --memory 28 --timeout 300)
        panel=$(for x in 0 90 180 270 360; do for y in 0 90 180 270 360 450; do echo "'load /import/StickHub.kicad_pcb $x $y'"; done; done)
        guest --store "$TEST_TMP/panel" --store-size 256M -c "board panel ${panel//$'\n'/ } 'move R1* 0.1 0 100' save; board panel list"
        ok "a panel of thirty is one transaction, larger than memory" grep -Eq '^version 1: .* [1-9][0-9]{2,} other messages$' <<<"$output"
        is "and all of it is there" "$((30 * $(grep -c '^  (via' "$F"))) vias" "$(sed -n '$s/.*, \([0-9]* vias\),.*/\1/p' <<<"$output")"
    fi
else
    ok "a real board # skip apt install kicad-demos" true
fi
done_testing
