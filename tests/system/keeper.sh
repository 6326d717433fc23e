#!/bin/bash
# A container's own manager is kept with it: over reboots and power cuts at any moment of ps_manager, into copies,
# exports and imports; one that never begins is ended; at a halt managers end before the store.
STATES=3
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=all STATES=1
K=build/host/kstore STORE=$TEST_TMP/store COPY=$TEST_TMP/copy
WITH=(--add build/tests/guest/pstore_keeper)

guest --store "$STORE" --backup "$COPY" -c 'store manager squares squares one "two 2"; squares 12; store backup'
ok "a container with a manager" grep -q '^144$' <<<"$output"
guest --store "$STORE" -c 'squares 12; store manager squares; containers'
is "has it after a reboot" "144 /bin/squares one two 2" "$(head -2 <<<"$output" | paste -sd' ')"
ok "it is listed" grep -q '  squares  (, version 0)  manager /bin/squares one two 2$' <<<"$output"
guest --store "$COPY" -c 'squares 13'
is "and so it is in a backup" 169 "$output"
ok "kstore info tells it" grep -q '^    manager /bin/squares one two 2$' <<<"$($K info "$COPY")"
ok "nothing is wrong with it" $K check --strict "$COPY"
$K export "$COPY" squares >"$TEST_TMP/lines"
$K create --quiet --size 24 "$TEST_TMP/other" && $K import --quiet "$TEST_TMP/other" "$TEST_TMP/lines"
guest --store "$TEST_TMP/other" -c 'squares 14; store manager squares -; store manager squares; squares 14'
is "exported and imported it serves; taken away it does not" "196|store manager: squares: the store serves it, or it is not there" \
    "$(head -2 <<<"$output" | paste -sd'|')"
ok "an ordinary container is left" grep -q '^container squares .* 0 pages' <<<"$($K info "$TEST_TMP/other")"

guest --append store.kept_ms=300 -c 'store manager never pstore_keeper silent; pstore_keeper open never; echo $?; ps'
is "one that never begins is waited for, then ended" "110 " "$(grep -A1 '^110$' <<<"$output" | grep -v ' pid ' | paste -sd' ') "
ok "(it is gone)" test "$(grep -c 'pstore_keeper *$' <<<"$output")" = 0

guest --store "$STORE" --log "$TEST_TMP/log" -c 'store manager counted pstore_keeper counts; pstore_keeper open counted'
ok "at a halt" grep -q 'store: closed' "$TEST_TMP/log"
guest --store "$STORE" -c 'pstore_keeper open counted 2'
is "managers end first, and can use the store for that" 2 "$output"

scripts/katydid-cc tests/system/keeper-cut.c -o "$TEST_TMP/keeper-cut" || echo "Bail out! no keeper-cut"
power_cuts keeper-cut 30 'equal, each is whole' 'equal'
