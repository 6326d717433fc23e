#!/bin/bash
# Lazy commits under power cuts: after any cut of lazy-cut.c the first so many steps are there, each as a whole,
# and no less than a strict commit or a ps_flush was answered for; open writes of the disk are all there, all
# missing, or drawn at random. SEED=N repeats a run of another seed.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SEED=${SEED:-1} BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut STEPS=200 STATES=6
[ "${TEST_TIER:-test}" != long ] || STATES=$((40 * ${TIMES:-1}))
scripts/katydid-cc tests/system/lazy-cut.c -o "$TEST_TMP/lazy-cut" || echo "Bail out! no lazy-cut"

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/lazy-cut" --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

guest --store "$BASE" -c "lazy-cut 1; lazy-cut check"
is "it begins with one step" "0:step 1" "$status:$output"
cp --sparse=always "$BASE" "$TEST_TMP/used"
guest --store "$TEST_TMP/used" --record "$LOG" --append store.checkpoint_ms=300 -c "lazy-cut $STEPS; lazy-cut check"
is "strict commits and flushes are answered" "$((STEPS / 10 + STEPS / 50))" "$(grep -c '^ack' <<<"$output")"
is "all steps are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"

# state WHAT LEAST: boots the disk that the cut has left; there are not fewer steps than LEAST. Sets step.
state() {
    guest --store "$CUT" -c "lazy-cut check"
    step=$(sed -nE 's/^step ([0-9]+)$/\1/p' <<<"$output")
    if [ -z "$step" ] || [ "$step" -lt "$2" ]; then
        wrong="$wrong [$1, at least step $2: $output; SEED=$SEED repeats it]"
        step=$2
    fi
    seen="$seen $step"
}

entries=$(scripts/cut "$LOG" --list | wc -l)
wrong='' seen=''
for keep in none all; do
    least=1
    for ((i = 1; i <= STATES; i++)); do
        at=$((entries * i / STATES))
        scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep $keep
        state "cut at $at, keep $keep" "$least"
        least=$step
    done
done
is "each cut leaves the first so many steps, and none is lost later" "" "$wrong"
is "after the last commit all are there" "$((STEPS + 1))" "$step"
echo "# steps found: $seen"

wrong='' seen=''
scripts/cut "$LOG" "$BASE" "$TEST_TMP/drawn" --random "$STATES" --seed "$SEED"
for ((i = 0; i < STATES; i++)); do
    mv "$TEST_TMP/drawn.$i" "$CUT"
    state "--random $STATES --seed $SEED, state $i" 1
done
is "also if the disk kept some open writes and lost others" "" "$wrong"
ok "these cuts left different steps" test "$(tr ' ' '\n' <<<"$seen" | sort -u | wc -l)" -gt 2
echo "# steps found: $seen"
done_testing
