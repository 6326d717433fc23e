#!/bin/bash
# Directories and grants under power cuts: after any cut of rights-cut.c each link, unlinking, taking back, deletion,
# move and new directory is there as a whole or not at all, and none that was answered is lost; the store has no damage.
STATES=4
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none STATES=1
scripts/katydid-cc tests/system/rights-cut.c -o "$TEST_TMP/rights-cut" || echo "Bail out! no rights-cut"

# What is wrong with the disk, or the kernel, after a cut is wrong with the cut, too.
eval "state_found() $(declare -f state | tail -n +2)"
state() {
    state_found "$@"
    [ "$status" -eq 0 ] && build/host/kstore check --strict "$CUT" >"$TEST_TMP/kstore" ||
        wrong="$wrong [$1: status $status, $(paste -sd' ' "$TEST_TMP/kstore")]"
}

WITH=(--allow all --add "$TEST_TMP/rights-cut") CHECK="rights-cut check $SEED && check"
STEP='s/^step ([0-9]+): equal,.*/\1/p'
guest --store "$BASE" -c "$CHECK"
is "all begins empty" "0:step 0: equal, each is whole" "$status:$(grep '^step' <<<"$output")"

cp --sparse=always "$BASE" "$TEST_TMP/used"
guest --store "$TEST_TMP/used" --record "$LOG" --kill-on 'ack 25' -c "rights-cut $SEED 45"
scripts/cut "$LOG" "$BASE" "$CUT" --at "$(scripts/cut "$LOG" --list | wc -l)" --keep none
wrong=''
state "behind ack 25, with nothing that was not flushed" 25
is "what was answered is there when the power goes" "" "$wrong"

recorded "rights-cut $SEED 45; $CHECK"
is "each step is committed" 45 "$(grep -c '^ack' <<<"$output")"
cuts 0 45
done_testing
