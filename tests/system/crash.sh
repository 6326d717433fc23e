#!/bin/bash
# The power is cut 200 times under four committing processes; 10 of the states are booted, too.
# scripts/crash does the work; scripts/crash.md tells how.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

status=0
output=$(scripts/crash 200 --boot 10 --seed 1 --folder "$TEST_TMP/crash" 2>&1) || status=$?
# shellcheck disable=SC2001
sed 's/^/# /' <<<"$output"
is nothing_acknowledged_is_lost_in_any_state 0 "$status"
states=$(sed -n 's/^crash: \([0-9]*\) states .* sound .*/\1/p' <<<"$output")
booted=$(sed -n 's/.* \([0-9]*\) booted;.*/\1/p' <<<"$output")
ok at_least_200_states_are_recovered_and_checked_on_the_host test "${states:-0}" -ge 200
is ten_of_them_are_booted 10 "$booted"
ok writes_are_dropped_and_torn_in_some grep -q '([1-9][0-9]* with writes dropped, [1-9][0-9]* torn' \
    <<<"$output"
ok known_bad_states_are_reported grep -q '^crash: 12 of 12 known-bad states reported' <<<"$output"
done_testing
