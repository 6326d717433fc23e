#!/bin/bash
# Congeries under power cuts, beside their model (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc -Itests/structures tests/system/congeries-cut.c tests/structures/congeries_model.c \
    -o "$TEST_TMP/congeries-cut" || echo "Bail out! no congeries-cut"
power_cuts congeries-cut 120 "equal, all of it" "equal, all of it"
