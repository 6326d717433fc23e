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
done_testing
