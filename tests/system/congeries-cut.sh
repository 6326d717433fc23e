#!/bin/bash
# Congeries under power cuts, beside their model (tests/system/power-cuts.sh).
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc -Itests/structures tests/system/congeries-cut.c build/obj/guest/tests/structures/congeries_model.o \
    -o "$TEST_TMP/congeries-cut" || echo "Bail out! no congeries-cut"
[ "${TEST_TIER:-test}" = long ] || steps=60 KEEPS=none STATES=1
power_cuts congeries-cut "${steps:-120}" "equal, all of it" "equal, all of it"
