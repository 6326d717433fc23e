# power-cuts.sh - sourced by tests of structures under power cuts: a program changes them step by step, the disk is
# cut, and after any cut they must be, record by record, what the committed steps have left; open writes of the disk
# are all there, all missing, or drawn at random. The program prints `ack N` for each step, and with `check` `step N: equal`.
# SEED=N repeats a run of another seed.
# shellcheck shell=bash source=scripts/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SEED=${SEED:-1} BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut STATES=5
[ "${TEST_TIER:-test}" != long ] || STATES=$((40 * ${TIMES:-1}))

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/$PROGRAM" --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

# state WHAT LEAST: boots the disk that the cut has left; the step in it is not lower than LEAST. Sets step.
state() {
    guest --store "$CUT" -c "$PROGRAM check $SEED"
    step=$(sed -nE 's/^step ([0-9]+): equal,.*/\1/p' <<<"$output")
    if [ -z "$step" ] || [ "$step" -lt "$2" ]; then
        wrong="$wrong [$1, at least step $2: $output; SEED=$SEED repeats it]"
        step=$2
    fi
    seen="$seen $step"
}

# power_cuts PROGRAM STEPS BEGIN END: BEGIN, END: what `check` says of the store before and after all steps.
power_cuts() {
    PROGRAM=$1
    guest --store "$BASE" -c "$PROGRAM check $SEED"
    is "all begins empty" "0:step 0: $3" "$status:$output"
    cp --sparse=always "$BASE" "$TEST_TMP/used"
    guest --store "$TEST_TMP/used" --record "$LOG" --append store.checkpoint_ms=300 \
        -c "$PROGRAM $SEED $2; $PROGRAM check $SEED"
    is "each step is committed" "$2" "$(grep -c '^ack' <<<"$output")"
    ok "at the end all is equal" grep -Eq "^step $2: $4" <<<"$output"

    local entries keep least at i
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
    is "after each cut all is what the committed steps left, and none is lost later" "" "$wrong"
    is "after the last commit all steps are there" "$2" "$step"
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
}
