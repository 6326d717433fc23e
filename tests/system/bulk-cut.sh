#!/bin/bash
# Loads past the log under power cuts: after any cut of bulk-cut.c the first so many loads are there, each as a whole,
# and what later commits changed in their pages; the space of one that was cut off is free again.
STEPS=24
[ "${TEST_TIER:-test}" = long ] || STATES=${STATES:-1} STEPS=12
STATES=${STATES:-3}
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

scripts/katydid-cc tests/system/bulk-cut.c -o "$TEST_TMP/bulk-cut" || echo "Bail out! no bulk-cut"
WITH=(--add "$TEST_TMP/bulk-cut") CHECK="bulk-cut check" STEP='s/^step ([0-9]+)$/\1/p'
guest --store "$BASE" -c "bulk-cut 1; $CHECK"
is "it begins with one load" "0:ack 1 step 1" "$status:$(paste -sd' ' <<<"$output")"
recorded "bulk-cut $STEPS; $CHECK"
is "each load is answered" "$STEPS" "$(grep -c '^ack' <<<"$output")"
is "all loads are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
[ "${TEST_TIER:-test}" = long ] || KEEPS=none
cuts 1 $((STEPS + 1))

# The disk in the middle of all that, as a guest that is killed leaves it: its log names pages that it does not have.
scripts/cut "$LOG" "$BASE" "$CUT" --at $(($(scripts/cut "$LOG" --list | wc -l) / 2)) --keep all
ok "the log has pages at home" grep -q '^ *home .* from extent' <<<"$(build/host/kstore log "$CUT")"
build/host/kstore backup --quiet "$CUT" "$TEST_TMP/copy" >"$TEST_TMP/said" 2>&1
is "kstore copies them" 0 $?
guest --store "$CUT" -c "$CHECK"
there=$output
guest --store "$TEST_TMP/copy" -c "$CHECK"
is "what the copy holds is what the store holds" "$there" "$output"

# An archive that is taken often has the pages of each load, beside the log that names them. Where a page was changed and
# taken home meanwhile it says so, and takes another copy of the whole.
archived=0 again=0
events=$(scripts/cut "$LOG" --list | wc -l)
build/host/kstore archive --quiet "$BASE" "$TEST_TMP/archive" >"$TEST_TMP/said" 2>&1 || archived=$?
for ((i = 1; i <= 2 * STEPS; i++)); do
    scripts/cut "$LOG" "$BASE" "$CUT" --at $((events * i / (2 * STEPS))) --keep all
    build/host/kstore archive --quiet "$CUT" "$TEST_TMP/archive" >>"$TEST_TMP/said" 2>&1 ||
        { build/host/kstore archive --quiet --base "$CUT" "$TEST_TMP/archive" >>"$TEST_TMP/said" 2>&1 && again=$((again + 1)); } || archived=$?
done
is "loads are archived" 0 "$archived"
ok "each with its pages, but for those before one of $again other copies" \
    test "$(find "$TEST_TMP/archive" -name 'load-*.pages' | wc -l)" -ge $((again ? STEPS / 2 : STEPS))
restored() { build/host/kstore restore --quiet --force "$@" "$TEST_TMP/archive" "$TEST_TMP/new" >"$TEST_TMP/said" 2>&1; }
restored
is "a restore goes over them" 0 $?
guest --store "$TEST_TMP/new" -c "$CHECK"
is "all loads are there again" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
third=$(find "$TEST_TMP/archive" -name 'load-*.pages' | sort | sed -n 3p)
csn=${third##*load-}
restored --to "csn:$((16#${csn%.pages}))"
is "or to the third of them" 0 $?
guest --store "$TEST_TMP/new" -c "$CHECK"
step=$(sed -n 's/^step //p' <<<"$output")   # one before an other copy may have no pages there
ok "which is the last one then: step $step" test "${step:-0}" -ge 4 -a "${step:-0}" -le $((again ? STEPS : 4))
rm "$third"
restored --to "csn:$((16#${csn%.pages}))"
is "without its pages a restore ends" 1 $?
ok "and names them" grep -q "${third##*/}" "$TEST_TMP/said"
done_testing
