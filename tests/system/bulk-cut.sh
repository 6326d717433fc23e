#!/bin/bash
# Loads past the log under power cuts: after any cut of bulk-cut.c the first so many loads are there, each as a whole,
# and what later commits changed in their pages; the space of one that was cut off is free again.
STATES=${STATES:-3}
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc tests/system/bulk-cut.c -o "$TEST_TMP/bulk-cut" || echo "Bail out! no bulk-cut"
WITH=(--add "$TEST_TMP/bulk-cut") CHECK="bulk-cut check" STEP='s/^step ([0-9]+)$/\1/p' STEPS=24
guest --store "$BASE" -c "bulk-cut 1; $CHECK"
is "it begins with one load" "0:ack 1 step 1" "$status:$(paste -sd' ' <<<"$output")"
recorded "bulk-cut $STEPS; $CHECK"
is "each load is answered" "$STEPS" "$(grep -c '^ack' <<<"$output")"
is "all loads are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
cuts 1 $((STEPS + 1))

# The disk in the middle of all that, as a guest that is killed leaves it: its log names pages that it does not have.
scripts/cut "$LOG" "$BASE" "$CUT" --at $(($(scripts/cut "$LOG" --list | wc -l) / 2)) --keep all
ok "the log has pages at home" grep -q '^ *home .* from extent' <<<"$(build/host/kstore log "$CUT")"
build/host/kstore backup --quiet "$CUT" "$TEST_TMP/copy" >"$TEST_TMP/said" 2>&1
is "kstore copies them" 0 $?
guest --store "$CUT" -c "$CHECK"
there=$output
guest --store "$TEST_TMP/copy" -c "$CHECK"
is "what the copy holds is what the store holds" "$there" "$output"
done_testing
