#!/bin/bash
# A write-behind container under power cuts: after any cut of behind-cut.c the first so many steps are there, each as a
# whole, and no less than the manager had answered for.
[ "${TEST_TIER:-test}" != long ] || STATES=3
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc tests/system/behind-cut.c -o "$TEST_TMP/behind-cut" || echo "Bail out! no behind-cut"
WITH=(--add "$TEST_TMP/behind-cut" --allow names) CHECK="behind box 4 & behind-cut check" STEP='s/^step ([0-9]+)$/\1/p'
STEPS=192
guest --store "$BASE" -c "behind box 4 & behind-cut 1; behind-cut check"
is "it begins with one step" 0 "$status"
ok "which is there" grep -q '^step 1$' <<<"$output"
recorded "behind box 4 & behind-cut $STEPS; behind-cut check"
is "the manager answers for each sixteenth" "$((STEPS / 16))" "$(grep -c '^ack' <<<"$output")"
is "all steps are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
cuts 1 $((STEPS + 1))
done_testing
