#!/bin/bash
# The structures but the tree under power cuts: each beside its model (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

subjects=(tests/structures/*.c) steps=85 # they grow for 40, then shrink for as many
if [ "${TEST_TIER:-test}" = long ]; then steps=150; else KEEPS=none STATES=1; fi
subjects=("${subjects[@]/#/build/obj/guest/}")
scripts/katydid-cc -Itests/structures tests/system/structures-cut.c "${subjects[@]/%.c/.o}" -o "$TEST_TMP/structures-cut" ||
    echo "Bail out! no structures-cut"
power_cuts structures-cut "$steps" "equal, all of them" "equal, all of them"
