#!/bin/bash
# Indexes on items under power cuts: several processes insert and remove at the same time, leaves split before their
# insertions, and after any cut both indexes are sound and have each one's last transaction as a whole
# (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
STATES=${STATES:-2}
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none
scripts/katydid-cc tests/system/item-index-cut.c -o "$TEST_TMP/item-index-cut" || echo "Bail out! no item-index-cut"
STEPS=40 ALL=120
WITH=(--add "$TEST_TMP/item-index-cut") CHECK="item-index-cut check"
STEP='s/^step ([0-9]+): equal, [0-9]+ leaves and [0-9]+$/\1/p'
guest --store "$BASE" -c "$CHECK"
is "all begins empty" "0:step 0: equal, 1 leaves and 1" "$status:$output"
recorded "item-index-cut $STEPS; $CHECK"
is "each step is committed" "$ALL" "$(grep -c '^ack' <<<"$output")"
ok "at the end all is equal, and leaves were split" grep -Eq "^step $ALL: equal, ([5-9]|1[0-9]) leaves and ([5-9]|1[0-9])$" <<<"$output"
cuts 0 "$ALL"
done_testing
