#!/bin/bash
# ps_upgrade under power cuts: wherever the power goes between the first and the last batch of upgrade-cut.c, the next
# start goes on and ends with each record there once, in as many batches as without a cut; nothing of the older layout
# is left over. Until then neither program opens the container. SEED=N draws other states.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SEED=${SEED:-1} BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut STATES=4
[ "${TEST_TIER:-test}" != long ] || STATES=$((25 * ${TIMES:-1}))
whole='right: 3000 records in 50 batches'
refused='the layout does not match: '
scripts/katydid-cc tests/system/upgrade-cut.c -o "$TEST_TMP/upgrade-cut" || echo "Bail out! no upgrade-cut"

# guest STORE OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/upgrade-cut" --store-size 24M --store "$@" 2>&1) ||
        status=$?
    output=${output//$'\r'/}
}

guest "$BASE" -c 'upgrade-cut fill; upgrade-cut older; upgrade-cut check'
ok "the older program fills it, the newer one is refused" \
    grep -q "^$refused.*ps_upgrade" <<<"$output"
cp --sparse=always "$BASE" "$TEST_TMP/used"
guest "$TEST_TMP/used" --record "$LOG" --append store.checkpoint_ms=300 -c 'upgrade-cut grow; upgrade-cut check'
is "fifty batches" 50 "$(grep -c '^batch' <<<"$output")"
is "each record once" "$whole" "$(tail -1 <<<"$output")"
guest "$TEST_TMP/used" -c 'upgrade-cut grow; upgrade-cut older'
ok "then the step is not called again, and the older program is refused" grep -q "^$refused" <<<"$output"
is "(no batch)" 0 "$(grep -c '^batch' <<<"$output")"

# state WHAT: boots the disk that the cut has left, first as programs that do not upgrade, then as the newer one.
# Counts the batches that were there, and the states in which the upgrade was half done.
state() {
    local older newer
    guest "$CUT" -c 'upgrade-cut older && echo older opens; upgrade-cut check; echo ==; upgrade-cut grow; upgrade-cut check'
    older=$(grep -c '^older opens' <<<"$output") newer=$(sed '/^==/q' <<<"$output" | grep -c '^right')
    there=$((50 - $(grep -c '^batch' <<<"$output")))
    case $there in
        0) [ "$older$newer" = 10 ] || wrong="$wrong [$1: nothing was done, and yet: $output]" ;;
        50) [ "$older$newer" = 01 ] || wrong="$wrong [$1: all was done, and yet: $output]" ;;
        *) [ "$older$newer" = 00 ] || wrong="$wrong [$1: half done, and a program opened it: $output]"
            half=$((half + 1)) ;;
    esac
    [ "$(tail -1 <<<"$output")" = "$whole" ] || wrong="$wrong [$1: $output]"
    build/host/kstore check "$CUT" >/dev/null || wrong="$wrong [$1: kstore check]"
    lost=$(build/host/kstore leaks "$CUT")
    [[ $lost = "no leaks among "* ]] || wrong="$wrong [$1 leaves $lost]"
    [ "$there" -ge "${least:-0}" ] || wrong="$wrong [$1: $there batches, before there were $least]"
    seen="$seen $there"
}

entries=$(scripts/cut "$LOG" --list | wc -l)
wrong='' seen='' half=0
for keep in none all; do
    least=0
    for ((i = 1; i <= STATES; i++)); do
        at=$((entries * i / STATES))
        scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep $keep
        state "cut at $at, keep $keep"
        least=$there
    done
done
is "after each cut the next start goes on and ends" "" "$wrong"
ok "some cuts were in the middle" test "$half" -gt 1
echo "# batches found: $seen"

wrong='' seen='' least=0
scripts/cut "$LOG" "$BASE" "$TEST_TMP/drawn" --random "$STATES" --seed "$SEED"
for ((i = 0; i < STATES; i++)); do
    mv "$TEST_TMP/drawn.$i" "$CUT"
    state "--random $STATES --seed $SEED, state $i"
done
is "also if the disk kept some open writes and lost others" "" "$wrong"
echo "# batches found: $seen"
done_testing
