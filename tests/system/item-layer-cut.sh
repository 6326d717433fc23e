#!/bin/bash
# A file of partitions under power cuts: items and their headers, allocation data and a relation, in seven containers, are
# what whole steps left; and a file that was cut while it was made is made by the next open (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none STATES=1
scripts/katydid-cc -Itests/system tests/system/item-layer-cut.c -o "$TEST_TMP/item-layer-cut" || echo "Bail out! no item-layer-cut"
WITH=(--add "$TEST_TMP/item-layer-cut") CHECK="item-layer-cut check $SEED" STEP='s/^step ([0-9]+): equal,.*/\1/p'
if [ "${TEST_TIER:-test}" = long ]; then
    guest --store "$BASE" -c 'echo empty'
    recorded "$CHECK"
    is "a file is made" "step 0: equal, 0" "$output"
    entries=$(scripts/cut "$LOG" --list | wc -l) wrong='' seen=''
    for ((i = 1; i <= STATES; i++)); do
        scripts/cut "$LOG" "$BASE" "$CUT" --at $((entries * i / (STATES + 1))) --keep none
        state "making it, cut $i" 0
    done
    is "one that was cut while it was made is made by the next open" "" "$wrong"
fi
power_cuts item-layer-cut 60 "equal, 0" "equal, 0"
