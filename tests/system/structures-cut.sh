#!/bin/bash
# The structures but the tree under power cuts: each beside its model (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc -Itests/structures tests/system/structures-cut.c tests/structures/*.c -o "$TEST_TMP/structures-cut" ||
    echo "Bail out! no structures-cut"
power_cuts structures-cut 150 "equal, all of them" "equal, all of them"
