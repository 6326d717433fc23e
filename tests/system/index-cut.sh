#!/bin/bash
# Indexes that the store manager keeps under power cuts: two of them, data beside, and what follows from the seed
# (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc tests/system/index-cut.c -o "$TEST_TMP/index-cut" || echo "Bail out! no index-cut"
power_cuts index-cut 120 "equal, 0 keys, heights 0 0" "equal, .* heights 2 2"
