#!/bin/bash
# Transactions over two stores under power cuts of both disks at one moment: after any cut of parts-cut.c both stores
# have the same first steps, each as a whole, and no less than was answered. Each disk has open writes of its own: what
# the one has flushed says nothing of the other (scripts/cut --part). A boot brings what is in doubt to its end.
# Waits: for the word of a disk that is not there.
STATES=${STATES:-3} least=15 # flushes that are tried, and more until one comes between a vote and its outcome
[ "${TEST_TIER:-test}" != long ] || STATES=5 least=17
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

ONE=$TEST_TMP/one TWO=$TEST_TMP/two BYTES=$((24 << 20))
STEPS=40
scripts/katydid-cc -I. tests/system/parts-cut.c -o "$TEST_TMP/parts-cut" || echo "Bail out! no parts-cut"
WITH=(--add "$TEST_TMP/parts-cut") STEP='s/^step ([0-9]+)$/\1/p'

join() { cat "$ONE" "$TWO" >"$1"; }
split() {
    head -c "$BYTES" "$1" >"$ONE"
    tail -c "$BYTES" "$1" >"$TWO"
}
both() { guest --store "$ONE" --store2 "$TWO" "$@"; }

both --seed 1 -c "parts-cut 1 1; parts-cut check"
is "it begins with one step in both" "0:ack 1 step 1" "$status:$(echo $output)"
join "$BASE"
both --seed 1 --record "$LOG" --append store.checkpoint_ms=300 --append store2.checkpoint_ms=200 -c "parts-cut 2 $STEPS; parts-cut check"
is "each step is committed" "$STEPS" "$(grep -c '^ack' <<<"$output")"
is "all steps are there" "step $((STEPS + 1))" "$(grep '^step' <<<"$output")"
PARTS=(--part "$BYTES" --part "$BYTES")
ok "the log has flushes of both disks" test "$(scripts/cut "$LOG" "${PARTS[@]}" --list | grep -o 'flush+part .' | sort -u | wc -l)" = 2

wrong='' seen='' doubts=0
scripts/cut "$LOG" "$BASE" "$TEST_TMP/drawn" "${PARTS[@]}" --random "$((2 * STATES))" --seed "$SEED" >"$TEST_TMP/cuts" ||
    echo "Bail out! no cuts"
for ((i = 0; i < 2 * STATES; i++)); do
    split "$TEST_TMP/drawn.$i"
    rm "$TEST_TMP/drawn.$i"
    cp --sparse=always "$ONE" "$TEST_TMP/before"
    both --log "$TEST_TMP/kernel" -c "parts-cut check"
    doubts=$((doubts + $(grep -c 'are prepared and wait' "$TEST_TMP/kernel")))
    grep -q ' store: .* are prepared and wait' "$TEST_TMP/kernel" && mv "$TEST_TMP/before" "$TEST_TMP/alone"
    step=$(sed -nE "$STEP" <<<"$output")
    [ -n "$step" ] || wrong="$wrong [state $i of $((2 * STATES)), SEED=$SEED: $output]"
    wrong="$wrong$(grep 'not closed' "$TEST_TMP/kernel")"
    seen="$seen $step"
done
is "after cuts of both disks at once both have the same steps, each as a whole" "" "$wrong"
ok "these cuts left different steps" test "$(tr ' ' '\n' <<<"$seen" | sort -u | wc -l)" -gt $((STATES > 3 ? 4 : 3))
ok "some left a transaction in doubt" test "$doubts" -gt 0

guest --store "$TEST_TMP/alone" --log "$TEST_TMP/kernel" -c 'todo add milk; sleep 4; todo'
is "with the other disk missing all else goes on" "- milk" "$output"
ok "and the log names the store that is missing" \
    grep -q 'waits for the word of store [-0-9a-f]*, which is not there: attach' "$TEST_TMP/kernel"
# --- a write of the second disk fails behind a number of flushes (QEMU's blkdebug counts them by its state) ---
rules() { # FLUSHES
    for ((i = 1; i < $1; i++)); do
        printf '[set-state]\nevent = "flush_to_disk"\nstate = "%d"\nnew_state = "%d"\n' "$i" $((i + 1))
    done
    printf '[inject-error]\nevent = "pwritev"\nstate = "%d"\nerrno = "5"\nonce = "on"\niotype = "write"\n' "$1"
}
wrong='' shown=0
for ((n = 14; n <= least || (shown == 0 && n < 30); n++)); do
    split "$BASE"
    rules $n >"$TEST_TMP/rules"
    guest --store "$ONE" --log "$TEST_TMP/kernel" -c "parts-cut 2 $STEPS" --timeout 60 --qemu "\
-blockdev driver=file,node-name=image,filename=$TWO \
-blockdev driver=blkdebug,node-name=fails,image=image,config=$TEST_TMP/rules \
-blockdev driver=raw,node-name=store2,file=fails \
-device virtio-blk-pci,drive=store2,serial=store2,disable-legacy=on,werror=report,rerror=report"
    acked=$(grep -c '^ack' <<<"$output") said="$status:${output##*$'\n'}"
    shown=$((shown + $(grep -c 'shows a transaction that is committed' "$TEST_TMP/kernel")))
    both -c "parts-cut check"
    step=$(sed -nE "$STEP" <<<"$output")
    [ "${said%%:*}" = 1 ] && [ "${step:-0}" -gt "$acked" ] ||
        wrong="$wrong [flush $n: $said, $acked acknowledged, then $step: $output]"
done
is "a log takes nothing more: who waits hears of it, and the next boot has the same steps in both" "" "$wrong"
ok "sometimes between a vote and its outcome" test "$shown" -gt 0
echo "# steps found:$seen; in doubt at $doubts starts"
done_testing
