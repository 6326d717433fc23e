#!/bin/bash
# Lazy commits under power cuts: after any cut of lazy-cut.c the first so many steps are there, each as a whole,
# and no less than a strict commit or a ps_flush was answered for.
STATES=3
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none STATES=1
scripts/katydid-cc tests/system/lazy-cut.c -o "$TEST_TMP/lazy-cut" || echo "Bail out! no lazy-cut"
WITH=(--add "$TEST_TMP/lazy-cut") CHECK="lazy-cut check" STEP='s/^step ([0-9]+)$/\1/p' STEPS=200
guest --store "$BASE" -c "lazy-cut 1; $CHECK"
is "it begins with one step" "0:step 1" "$status:$output"
recorded "lazy-cut $STEPS; $CHECK"
is "strict commits and flushes are answered" "$((STEPS / 10 + STEPS / 50))" "$(grep -c '^ack' <<<"$output")"
is "all steps are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
cuts 1 $((STEPS + 1))
done_testing
