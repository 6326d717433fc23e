#!/bin/bash
# A commit through a stacked manager under power cuts: what its client wrote to the store, and what the manager keeps
# there of the rest, are all there or nothing (tests/system/power-cuts.sh); first by one that is started by hand, then by
# one that the store keeps with the container, then by a kept one whose pages lie in a container that has a kept one itself.
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc -Ilibpstore tests/system/stack-cut.c -o "$TEST_TMP/stack-cut" || echo "Bail out! no stack-cut"
WITH=(--add "$TEST_TMP/stack-cut" --allow names)
[ "${TEST_TIER:-test}" = long ] || KEEPS=all STATES=1
CHECK="sealed vault secret & stack-cut check $SEED" STEP='s/^step ([0-9]+): equal,.*/\1/p'
guest --store "$BASE" -c "$CHECK"
is "all begins empty" "step 0: equal, all of them" "$(grep '^step' <<<"$output")"
recorded "sealed vault secret & stack-cut $SEED 30; stack-cut check $SEED"
is "each step is committed" 30 "$(grep -c '^ack' <<<"$output")"
ok "at the end all is equal" grep -q '^step 30: equal' <<<"$output"
cuts 0 30

# kept WHAT COMMANDS: the same of a manager that the store keeps, set by these commands.
CHECK="stack-cut check $SEED"
WITH=(--add "$TEST_TMP/stack-cut" --add build/user/packed)
kept() {
    BASE=$TEST_TMP/base.${1// /-}
    guest --store "$BASE" -c "$2; $CHECK"
    is "$1: all begins empty" "step 0: equal, all of them" "$(grep '^step' <<<"$output")"
    recorded "stack-cut $SEED 30; $CHECK"
    is "each step is committed" 30 "$(grep -c '^ack' <<<"$output")"
    ok "at the end all is equal" grep -q '^step 30: equal' <<<"$output"
    cuts 0 30
}
kept "a kept manager" "store manager vault packed 1"
kept "one that stands on another kept one" "store manager depths packed 1; store manager vault stacked depths"
done_testing
