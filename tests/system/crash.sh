#!/bin/bash
# The power is cut in three seeded runs of three boots each (twelve times TIMES in the long tier), under six
# committing processes; states are recovered and checked on the host, some are booted; disks fail; a store
# that acknowledges too early is found out. scripts/crash does the work; tests/crash/crash.md tells how.
# Runs once: each run draws its number of CPUs.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

runs=3 steps=25 states=7 aimed=1
[ "${TEST_TIER:-test}" != long ] || runs=$((12 * ${TIMES:-1})) steps=100 states=30 aimed=8
status=0
said=$(scripts/crash "$runs" --seed 2 --errors $((runs > 4 ? runs - 1 : 4)) --steps $steps --states $states \
    --aimed $aimed --folder "$TEST_TMP/crash" 2>&1) || status=$?
sed 's/^/# /' <<<"$said"

# printed PATTERN LEAST: the first group of the pattern is a number, LEAST or more.
printed() {
    local number
    number=$(sed -nE "s/$1/\1/p" <<<"$said")
    [ "${number:-0}" -ge "$2" ]
}
is nothing_acknowledged_is_lost_in_any_state 0 "$status"
[ "$status" = 0 ] || grep -EA 20 'FAILED|NOT|without the bug is reported' <<<"$said" | sed 's/^/# /'
ok nothing_is_lost_nothing_comes_back_no_check_fails grep -qE \
    "^crash: +$runs +$((3 * runs)) +[0-9]+ +[0-9]+ ms +[0-9]+ ms +0 +0 +0\$" <<<"$said"
ok each_run_is_cut_and_booted_three_times printed \
    "^crash: $runs runs, ([0-9]+) cuts of the power, $((3 * runs)) .*" $((3 * runs))
ok states_of_each_are_checked_on_the_host printed '^crash: ([0-9]+) states recovered .*' $((2 * states * runs))
ok writes_are_dropped printed '.* states recovered \(([0-9]+) with writes dropped.*' 12
ok writes_are_torn printed '.* with writes dropped, ([0-9]+) torn.*' 12
for kind in format enlarge recovery spill create grow rename delete checkpoint commit; do
    ok "cut_in_$kind" grep -qE "^crash: cut in .*$kind [1-9]" <<<"$said"
done
ok the_store_manager_has_died_meanwhile printed '.* ([0-9]+) deaths of the store manager' 1
for step in CM4 CM5 CM5w CM5f CM6 CM7; do
    ok "the_store_manager_has_died_at_$step" grep -qE "^crash: the store manager died .*$step [1-9]" <<<"$said"
done
for encoder in difference 'full page' 'declared ranges' adaptive; do
    ok "lives_with_encoder: $encoder" grep -qE "^crash: lives by encoder: .*$encoder [1-9]" <<<"$said"
done
for kind in write flush 'read once' read; do
    ok "errors_were_injected: $kind" grep -qE "^crash: disk errors .*$kind [1-9]" <<<"$said"
done
ok recovery_in_the_guest_is_timed grep -q '^crash: runs .* recovery, median  longest' <<<"$said"
ok known_bad_states_are_reported grep -qE '^crash: ([0-9]+) of \1 known-bad states reported' <<<"$said"
ok a_store_that_acknowledges_early_is_reported grep -q '^crash: .* before the flush is reported' <<<"$said"
ok the_same_run_without_the_bug_is_not grep -q '^crash: the same run without the bug is not' <<<"$said"
done_testing
