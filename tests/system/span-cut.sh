#!/bin/bash
# One store over three disks under power cuts: the B+-trees of tree-cut.c, whose leaves lie on all of them and split
# in ordinary transactions. All disks are parts of one file while they are recorded, so their writes have one order; a
# flush is of one disk.
# Of each cut kstore check says that the store is sound; some are booted, and hold the first so many steps.
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

MIB=8 KSTORE=build/host/kstore DISKS=("$TEST_TMP"/disk{1,2,3}) CUTS=24 BOOTS=2
if [ "$TEST_TIER" = long ]; then CUTS=$((100 * ${TIMES:-1})) BOOTS=$((10 * ${TIMES:-1})); fi
on_disks() { guest --store-size ${MIB}M --store "${DISKS[0]}" --span "${DISKS[1]}" --span "${DISKS[2]}" "$@"; }
# split WHOLE: the disks of which it is made
split() {
    local i
    for i in 0 1 2; do dd if="$1" of="${DISKS[i]}" bs=1M skip=$((i * MIB)) count=$MIB conv=sparse status=none; done
}
step_of() { sed -nE 's/^step ([0-9]+): equal,.*/\1/p' <<<"$output"; }

scripts/katydid-cc tests/system/tree-cut.c -o "$TEST_TMP/tree-cut" || echo "Bail out! no tree-cut"
WITH=(--add "$TEST_TMP/tree-cut")
on_disks -c "tree-cut check $SEED"
is "all begins empty" "0:0" "$status:$(step_of)"
cat "${DISKS[@]}" >"$BASE"
on_disks --record "$LOG" --append store.checkpoint_ms=200 -c "tree-cut $SEED 150; tree-cut check $SEED"
is "each step is committed, splits too" "150:150" "$(grep -c '^ack' <<<"$output"):$(step_of)"
ok "kstore finds the store sound, its disks given in any order" "$KSTORE" check --strict "${DISKS[2]}" "${DISKS[0]}" "${DISKS[1]}"
for disk in "${DISKS[@]:1}"; do
    ok "$(basename "$disk") holds more than labels" test "$(tr -d '\0' <"$disk" | head -c 4000 | wc -c)" = 4000
done

PARTS=(--part $((MIB << 20)) --part $((MIB << 20)) --part $((MIB << 20)))
scripts/cut "$LOG" "$BASE" "$TEST_TMP/drawn" "${PARTS[@]}" --random "$CUTS" --seed "$SEED" >"$TEST_TMP/cuts"
wrong='' seen=''
for ((i = 0; i < CUTS; i++)); do
    split "$TEST_TMP/drawn.$i"
    $KSTORE check "${DISKS[@]}" >"$TEST_TMP/said" 2>&1 || wrong="$wrong [state $i: $(tail -1 "$TEST_TMP/said")]"
    ((i % (CUTS / BOOTS) == CUTS / BOOTS - 1)) || continue
    on_disks -c "tree-cut check $SEED"
    seen="$seen $(step_of)"
    [ -n "$(step_of)" ] || wrong="$wrong [state $i: $output]"
done
is "after each cut the store is whole, and holds the first so many steps (SEED=$SEED repeats it)" "" "$wrong"
echo "# $CUTS cuts; steps found:$seen"
done_testing
