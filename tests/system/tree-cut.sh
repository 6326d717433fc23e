#!/bin/bash
# The B+-tree under power cuts: after any cut both trees of tree-cut.c are sound and equal, record by record,
# what the committed steps must have left; open writes of the disk are all there, all missing, or drawn at random.
# SEED=N repeats a run of another seed.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SEED=${SEED:-1} BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut STEPS=150 STATES=5
[ "${TEST_TIER:-test}" != long ] || STATES=$((40 * ${TIMES:-1}))
scripts/katydid-cc tests/system/tree-cut.c -o "$TEST_TMP/tree-cut" || echo "Bail out! no tree-cut"

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/tree-cut" --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

guest --store "$BASE" -c "tree-cut check $SEED"
is "both trees begin empty" "0:step 0: equal, 0 records, heights 1 1" "$status:$output"
cp --sparse=always "$BASE" "$TEST_TMP/used"
guest --store "$TEST_TMP/used" --record "$LOG" --append store.checkpoint_ms=300 \
    -c "tree-cut $SEED $STEPS; tree-cut check $SEED"
is "each step is committed" "$STEPS" "$(grep -c '^ack' <<<"$output")"
ok "the trees have grown levels" grep -Eq "^step $STEPS: equal, .* heights [3-9] [2-9]" <<<"$output"

# state WHAT LEAST: boots the disk that the cut has left; the step in it is not lower than LEAST. Sets step.
state() {
    guest --store "$CUT" -c "tree-cut check $SEED"
    step=$(sed -nE 's/^step ([0-9]+): equal,.*/\1/p' <<<"$output")
    if [ -z "$step" ] || [ "$step" -lt "$2" ]; then
        wrong="$wrong [$1, at least step $2: $output; SEED=$SEED repeats it]"
        step=$2
    fi
    seen="$seen $step"
}

entries=$(scripts/cut "$LOG" --list | wc -l)
wrong='' seen=''
for keep in none all; do
    least=0
    for ((i = 1; i <= STATES; i++)); do
        at=$((entries * i / STATES))
        scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep $keep
        state "cut at $at, keep $keep" "$least"
        least=$step
    done
done
is "after each cut the trees are what the committed steps left, and none is lost later" "" "$wrong"
is "after the last commit all steps are there" "$STEPS" "$step"
echo "# steps found: $seen"

wrong='' seen=''
scripts/cut "$LOG" "$BASE" "$TEST_TMP/drawn" --random "$STATES" --seed "$SEED"
for ((i = 0; i < STATES; i++)); do
    mv "$TEST_TMP/drawn.$i" "$CUT"
    state "--random $STATES --seed $SEED, state $i" 0
done
is "also if the disk kept some open writes and lost others" "" "$wrong"
ok "these cuts left different steps" test "$(tr ' ' '\n' <<<"$seen" | sort -u | wc -l)" -gt 2
echo "# steps found: $seen"
done_testing
