# power-cuts.sh - sourced by tests of programs under power cuts: a program goes on step by step, the disk is cut, and
# after any cut the first so many steps must be there, each as a whole; open writes of the disk are all there, all
# missing, or drawn at random. The program prints `ack N` for each step that is committed.
# SEED=N repeats a run of another seed; STATES, how many cuts, may be set before.
# shellcheck shell=bash source=scripts/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SEED=${SEED:-1} BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut
if [ "${TEST_TIER:-test}" = long ]; then STATES=$((7 * ${STATES:-3} * ${TIMES:-1})); else STATES=${STATES:-2}; fi
WITH=()         # what scripts/run adds or imports
KEEPS="none all"
CHECK=''        # the command in the guest that tells the step,
STEP=''         # and how sed finds it in what that prints

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 100 --memory 128 "${WITH[@]}" --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

# recorded COMMANDS: runs them on a copy of the disk BASE, which a cut begins with, and records the writes.
recorded() {
    cp --sparse=always "$BASE" "$TEST_TMP/used"
    guest --store "$TEST_TMP/used" --record "$LOG" --append store.checkpoint_ms=300 -c "$1"
}

# state WHAT LEAST: boots the disk that the cut has left; the step in it is not lower than LEAST. Sets step.
state() {
    guest --store "$CUT" -c "$CHECK"
    step=$(sed -nE "$STEP" <<<"$output")
    if [ -z "$step" ] || [ "$step" -lt "$2" ]; then
        wrong="$wrong [$1, at least step $2: $output; SEED=$SEED repeats it]"
        step=$2
    fi
    seen="$seen $step"
}

# cuts FIRST LAST: cuts the recorded run; the steps FIRST and LAST are those of its begin and its end.
cuts() {
    local entries keep least at i places=$STATES
    [ "$places" != 3 ] || places=2      # a sample: the middle, without the open writes, and the end, with all of them
    entries=$(scripts/cut "$LOG" --list | wc -l)
    wrong='' seen=''
    for keep in $KEEPS; do
        least=$1
        for ((i = 1; i <= places; i++)); do
            case $places.$i.$KEEPS.$keep in "2.2.none all.none" | "2.1.none all.all") continue ;; esac
            at=$((entries * i / places))
            scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep "$keep"
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
        state "--random $STATES --seed $SEED, state $i" "$1"
    done
    is "also if the disk kept some open writes and lost others" "" "$wrong"
    # a few that are drawn may all be the same
    [ "$STATES" -le 3 ] || ok "these cuts left different steps" test "$(tr -s ' ' '\n' <<<"$seen" | grep . | sort -u | wc -l)" -gt 1
    echo "# steps found: $seen"
}

# power_cuts PROGRAM STEPS BEGIN END: of a program of structures, which takes the seed; BEGIN, END: what its `check`
# says of the store before and after all steps.
power_cuts() {
    WITH=(--add "$TEST_TMP/$1") CHECK="$1 check $SEED" STEP='s/^step ([0-9]+): equal,.*/\1/p'
    guest --store "$BASE" -c "$CHECK"
    is "all begins empty" "0:step 0: $3" "$status:$output"
    recorded "$1 $SEED $2; $CHECK"
    is "each step is committed" "$2" "$(grep -c '^ack' <<<"$output")"
    ok "at the end all is equal" grep -Eq "^step $2: $4" <<<"$output"
    cuts 0 "$2"
    done_testing
}
