#!/bin/bash
# Containers in item mode under power cuts: several processes store to the same pages at the same time, in the same groups
# of the log, and after any cut each one's last transaction is there as a whole (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
[ "${TEST_TIER:-test}" = long ] || STATES=${STATES:-1}
STATES=${STATES:-3}
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none
scripts/katydid-cc tests/system/items-cut.c -o "$TEST_TMP/items-cut" || echo "Bail out! no items-cut"
STEPS=25 ALL=75
WITH=(--add "$TEST_TMP/items-cut") CHECK="items-cut check" STEP='s/^step ([0-9]+): equal$/\1/p'
guest --store "$BASE" -c "$CHECK"
is "all begins empty" "0:step 0: equal" "$status:$output"
recorded "items-cut $STEPS; $CHECK"
is "each step is committed" "$ALL" "$(grep -c '^ack' <<<"$output")"
ok "at the end all is equal" grep -q "^step $ALL: equal" <<<"$output"
cuts 0 "$ALL"
done_testing
