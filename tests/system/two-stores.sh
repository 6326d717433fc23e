#!/bin/bash
# A second store disk: what is in it is there at the next start; any program works on it by PS_STORE; a
# disk whose store wants the addresses of the first is refused, and the first is served all the same.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

ONE=$TEST_TMP/one TWO=$TEST_TMP/two LOG=$TEST_TMP/kernel
guest() { scripts/run --timeout 60 --store "$ONE" --store-size 64M --log "$LOG" "$@" 2>&1 | tr -d '\r'; }

is "one program, two lists" $'- milk\n+ bread' "$(guest --store2 "$TWO" -c \
    'todo add milk; PS_STORE=store2; todo add bread; PS_STORE=store; todo; PS_STORE=store2; todo' | sed '2s/-/+/')"
ok "the new store has addresses of its own" grep -q 'zone 1,' <(build/host/kstore info "$TWO")
ok "no damage in the first" build/host/kstore check "$ONE"
ok "nor in the second" build/host/kstore check "$TWO"
is "both are there at the next start" $'todo\ntodo\n- bread' "$(guest --store2 "$TWO" -c \
    'containers; PS_STORE=store2; containers; todo' | sed 's/.*KiB  [^ ]*  \([^ ]*\) .*/\1/')"
is "without the disk the program is told, and only the program has the variable" 2 "$(guest -c 'PS_STORE=store2 todo; echo [$PS_STORE]' | grep -c '^todo: \|^\[\]')"
cp "$ONE" "$TEST_TMP/three"
is "a copy of the first as the second: the first is served" "- milk" \
    "$(guest --store2 "$TEST_TMP/three" -c todo | grep -v "^store2: refused")"
ok "and the copy is refused, with the reason" grep -q 'store2: refused: another store .* in zone 0' "$LOG"
done_testing
