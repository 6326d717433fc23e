#!/bin/bash
# ps_upgrade under power cuts: wherever the power goes between the first and the last batch of upgrade-cut.c, the next
# start goes on and ends with each record there once, in as many batches as without a cut; nothing of the older layout
# is left over. Until then neither program opens the container.
[ "${TEST_TIER:-test}" != long ] || STATES=4
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"

WITH=(--add "$TEST_TMP/upgrade-cut")
whole='right: 3000 records in 50 batches'
refused='the layout does not match: '
scripts/katydid-cc tests/system/upgrade-cut.c -o "$TEST_TMP/upgrade-cut" || echo "Bail out! no upgrade-cut"

guest --store "$BASE" -c 'upgrade-cut fill; upgrade-cut older; upgrade-cut check'
ok "the older program fills it, the newer one is refused" \
    grep -q "^$refused.*ps_upgrade" <<<"$output"
recorded 'upgrade-cut grow; upgrade-cut check'
is "fifty batches" 50 "$(grep -c '^batch' <<<"$output")"
is "each record once" "$whole" "$(tail -1 <<<"$output")"
guest --store "$TEST_TMP/used" -c 'upgrade-cut grow; upgrade-cut older'
ok "then the step is not called again, and the older program is refused" grep -q "^$refused" <<<"$output"
is "(no batch)" 0 "$(grep -c '^batch' <<<"$output")"

# state WHAT LEAST: boots the disk that the cut has left, first as programs that do not upgrade, then as the newer one.
# A step is a batch. Counts the states in which the upgrade was half done.
state() {
    local older newer lost
    guest --store "$CUT" -c 'upgrade-cut older && echo older opens; upgrade-cut check; echo ==; upgrade-cut grow; upgrade-cut check'
    older=$(grep -c '^older opens' <<<"$output") newer=$(sed '/^==/q' <<<"$output" | grep -c '^right')
    step=$((50 - $(grep -c '^batch' <<<"$output")))
    case $step in
        0) [ "$older$newer" = 10 ] || wrong="$wrong [$1: nothing was done, and yet: $output]" ;;
        50) [ "$older$newer" = 01 ] || wrong="$wrong [$1: all was done, and yet: $output]" ;;
        *) [ "$older$newer" = 00 ] || wrong="$wrong [$1: half done, and a program opened it: $output]"
            half=$((half + 1)) ;;
    esac
    [ "$(tail -1 <<<"$output")" = "$whole" ] || wrong="$wrong [$1: $output]"
    build/host/kstore check "$CUT" >/dev/null || wrong="$wrong [$1: kstore check]"
    lost=$(build/host/kstore leaks "$CUT")
    [[ $lost = "no leaks among "* ]] || wrong="$wrong [$1 leaves $lost]"
    [ "$step" -ge "$2" ] || wrong="$wrong [$1: $step batches, before there were $2]"
    seen="$seen $step"
}

half=0
cuts 0 50
ok "some cuts were in the middle" test "$half" -gt 1
done_testing
