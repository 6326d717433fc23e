#!/bin/bash
# `link` is killed more often, one death soon behind the other, than init takes for chance: the next one starts some
# seconds later, and the site has its links again.
# Waits: for init, which starts a program again after ten seconds.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

kills=$(printf 'shared none kill:link; sleep 0.2; %.0s' {1..12})
scripts/run --site home --no-store --cpus 1 --timeout 400 --allow processes --add build/tests/sites/shared --log "$TEST_TMP/log" \
    -c "$kills" >"$TEST_TMP/said" 2>&1
is "each of twelve is killed, the last ones behind a pause" "0 12" \
    "$? $(grep -c ' link\[[0-9]*\]: killed' "$TEST_TMP/log")"
is "which init tells" 1 "$(grep -c '^init: link ends again and again: the next one starts in 10 s' "$TEST_TMP/said")"
done_testing
