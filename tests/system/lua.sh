#!/bin/bash
# A Lua whose variables persist: values, closures and coroutines over reboots and power cuts, errors and abort(), two
# processes in one state, other builds of the program, and states of another Lua. tests/system/lua has what it runs.
# SEED=N repeats a run of another seed.
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"
LUA_SRC=${LUA_SRC:-$(scripts/source lua --where)}
[ -e build/user/lua ] && [ -e "$LUA_SRC/lapi.c" ] || { echo "1..0 # skip without Lua's source (scripts/source lua)"; exit 0; }
STORE=$TEST_TMP/store STEPS=40 WITH=(--import tests/system/lua)

# build NAME FIXED HEADERS: another build, with this fixed.c or .o, which is all of Lua, and the headers of this Lua.
FIXED=build/obj/guest/user/lua/fixed.o
build() {
    scripts/katydid-cc -w -O0 -g0 -DLUA_USE_POSIX -I"$3" user/lua/{main,state,run,snapshot}.c "$2" @user/lua/link -o "$TEST_TMP/$1" ||
        echo "Bail out! no $1"
}

# --- over reboots ---
guest --store "$STORE" -c 'lua /import/make.lua ada'
is "a state is made, and a chunk prints behind its commit" "0:1	one	2	3" "$status:$output"
cp --sparse=always "$STORE" "$TEST_TMP/both"
guest --store "$STORE" -c 'lua /import/use.lua; lua /import/use.lua'
is "values, closures and coroutines go on after a reboot" \
    "0:2	two	4	36	300	300	1	1	filled	7	UP
3	three	5	36	300	300	1	1	filled	7	UP" "$status:$output"

# --- other addresses ---
build other $FIXED "$LUA_SRC"
address() { nm "$1" | sed -n "s/^0*\([0-9a-f]*\) [tT] $2\$/\1/p"; }
ok "another build has its functions elsewhere" \
    test "$(address build/user/lua luaB_print)" != "$(address "$TEST_TMP/other" luaB_print)"
guest --store "$TEST_TMP/both" --add "$TEST_TMP/other" -c 'other /import/use.lua; lua /import/use.lua'
is "it goes on with the state, and the first one behind it" \
    "0:2	two	4	36	300	300	1	1	filled	7	UP
3	three	5	36	300	300	1	1	filled	7	UP" "$status:$output"
guest --store "$TEST_TMP/new" -c 'PS_LINT=1 lua /import/make.lua ada; PS_LINT=1 lua /import/use.lua'
is "no commit leaves a pointer into the program but to what never moves" \
    "" "$(grep 'in the program' <<<"$output" | grep -Ev ': 0x20(0000|1[0-9a-f]{3}) is')"
ok "and some of those" grep -q ': 0x201[0-9a-f]* is in the program' <<<"$output"

# --- another Lua, another list of functions; in `make test` each second day ---
foreign() {
    cp -r "$LUA_SRC" "$TEST_TMP/src"
    sed -i 's/^#define LUA_VERSION_RELEASE.*/#define LUA_VERSION_RELEASE "99"/' "$TEST_TMP/src/lua.h"
    build strange $FIXED "$TEST_TMP/src"
    cp -r user/lua "$TEST_TMP/swapped.d"
    sed -i 's/(luaB_warn)/(x)/; s/(luaB_tonumber)/(luaB_warn)/; s/(x)/(luaB_tonumber)/' "$TEST_TMP/swapped.d/functions.h"
    build swapped "$TEST_TMP/swapped.d/fixed.c" "$LUA_SRC"
    cp -r user/lua "$TEST_TMP/longer.d"
    echo 'FIXED(lua_gettop)' >>"$TEST_TMP/longer.d/functions.h"
    build longer "$TEST_TMP/longer.d/fixed.c" "$LUA_SRC"
    guest --store "$TEST_TMP/both" --add "$TEST_TMP/strange" --add "$TEST_TMP/swapped" --add "$TEST_TMP/longer" \
        -c 'strange -e "x = 1"; swapped -e "x = 1"; longer -e "y = 5"; lua -e "print(y)"; longer -e "print(y)"
        todo add x; lua --state todo -e "x = 1"'
    ok "a state of another Lua is refused" \
        grep -q "^lua: Lua 5.4.[0-9]* made this state, and this is Lua 5.4.99. Have the program" <<<"$output"
    ok "so is one whose list of functions was in another order" grep -q "another list of C functions made" <<<"$output"
    is "a longer list goes on with it, and the shorter one then does not" "5" "$(grep -v '^lua:' <<<"$output")"
    ok "which it says" grep -q '^lua: a newer program made this state' <<<"$output"
    ok "a container of something else is refused" grep -q '^lua: todo: ' <<<"$output"
}
! today 0 2 || foreign
guest --store "$TEST_TMP/both" -c 'lua --state a /import/make.lua ada; lua --state a /import/whole.lua make;
    lua --state a --dump >/tmp/a.lua; lua --state b /tmp/a.lua; lua --state b /import/whole.lua; lua --state b -e "print(count)"'
is "what --dump prints makes the globals again" "1	one	2	3
36 300 n true 1.5 -7 UP true true
nil" "$output"

# --- errors, abort, begin ---
guest --store "$STORE" \
    -c 'lua </import/lines 2>/tmp/errors; cat /tmp/errors; lua -e "begin() y = 11"; lua -e "y = 12 os.exit(3)" || lua -e "print(y)"'
is "lines commit, errors and abort undo" "1
hey!	5
nil
5
5
7
9" "$(grep -v '^lua\|^stack\|^	' <<<"$output" | head -n 7)"
is "each of the refused ones is told" "lua: stdin:1: no
lua: undone: changed my mind
lua: stdin:1: not in a coroutine: call it from the chunk itself
lua: stdin:1: not below a C function such as table.sort
lua: attempt to yield from outside a coroutine
lua: stdin:1: begin() was called already
lua: stdin:1: unexpected symbol near '='
lua: undone" "$(grep '^lua: ' <<<"$output" | grep -v 'table:\|without commit')"
ok "what begin() left open is undone" grep -q '^lua: begin() without commit(): undone' <<<"$output"
is "os.exit commits" 12 "$(tail -n 1 <<<"$output")"

# --- two processes ---
rm "$STORE"
guest --store "$STORE" \
    -c 'lua /import/add.lua a 150 & lua /import/add.lua b 150; wait; lua -e "print(n, seen.a, seen.b)"'
is "two processes count in one state, from its making on" "300	150	150" "$(tail -n 1 <<<"$output")"
is "what is printed, is printed once" "150 150" "$(grep -c '^a ' <<<"$output") $(grep -c '^b ' <<<"$output")"

guest --store "$STORE" -c 'lua /import/snap.lua; lua -e "print(kept.n)"; echo --
    lua --sate x; echo $?; lua -e; echo $?; lua /none.lua; echo $?; lua /import; echo $?; lua --help'
is "a snapshot stays as it was, until it is given up, or its process has ended" "n	2
false	/import/snap.lua:27: the snapshot was given up: there were 8 behind it
lua: (command line):1: the snapshot was of another process" "$(head -n 3 <<<"$output")"
is "wrong use and a file that cannot be read are told in a line each" "lua: --sate is no option, or lacks its word: lua --help
2
lua: -e is no option, or lacks its word: lua --help
2
lua: /none.lua: No such file or directory
1
lua: /import: Is a directory
1
lua - a Lua whose variables persist" "$(sed '1,/^--$/d' <<<"$output" | head -n 9)"

# --- power cuts ---
guest --store "$BASE" -c 'lua /import/step.lua 0; lua /import/check.lua'
is "the list begins empty" "step 0	equal" "$output"
recorded "lua /import/step.lua $STEPS; lua /import/check.lua"
is "each step is committed" "$STEPS step $STEPS	equal" "$(grep -c '^ack' <<<"$output") $(tail -n 1 <<<"$output")"
[ "${TEST_TIER:-test}" = long ] || STATES=1
CHECK='lua /import/check.lua' STEP='s/^step ([0-9]+)	equal$/\1/p' KEEPS=none
cuts 0 $STEPS
done_testing
