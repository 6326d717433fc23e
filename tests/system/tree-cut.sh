#!/bin/bash
# The B+-tree under power cuts: two trees and what follows from the seed (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc tests/system/tree-cut.c -o "$TEST_TMP/tree-cut" || echo "Bail out! no tree-cut"
power_cuts tree-cut 150 "equal, 0 records, heights 1 1" "equal, .* heights [3-9] [2-9]"
