#!/bin/bash
# A container from before pages were marked (tests/disk/fixtures/unmarked-pages.c says how it was made), in a store of
# format 2: a start upgrades it when it is told to, all calls of today work on it, new objects go beside the old ones, and it outlives a power cut and a clean stop.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

OLD=$TEST_TMP/old
xz -dc tests/disk/fixtures/unmarked-pages.store.xz >"$OLD"
scripts/katydid-cc -Itests/disk/fixtures tests/system/old-pages.c -o "$TEST_TMP/old-pages" || echo "Bail out! no old-pages"

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/old-pages" "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}
# sound NAME: kstore finds no damage and has nothing to warn of; pages in use are in $pages.
sound() {
    checked=$(build/host/kstore check --strict "$1" 2>&1)
    is "$2: kstore check has nothing to say" "sound: 0 damages, 0 warnings" "$(tail -1 <<<"$checked")"
    pages=$(sed -nE 's/^space: .* ([0-9]+) pages in .*/\1/p' <<<"$checked")
}

guest --store "$OLD" -c true
is "a start does not upgrade it unasked" 1 "$(grep -c 'store.upgrade=yes' <<<"$output")"
guest --store "$OLD" --log "$TEST_TMP/upgraded" --append store.upgrade=yes -c true
is "a start that is told to does" "0 1" "$status $(grep -c 'was of format 2' "$TEST_TMP/upgraded")"
sound "$OLD" "as it was made"
cp "$OLD" "$TEST_TMP/cut"
cp "$OLD" "$TEST_TMP/room"
guest --store "$TEST_TMP/cut" --record "$TEST_TMP/log" --kill-on 'cut here' \
    -c 'PS_LINT=1 old-pages look names refused undone look grow && old-pages grown look names; echo cut here; sleep 30'
is "old and new objects in one container; lint has nothing to say" "0 done
done
cut here" "$status $output"
last=$(scripts/cut "$TEST_TMP/log" --list | wc -l)
scripts/cut "$TEST_TMP/log" "$OLD" "$TEST_TMP/cut" --at "$last" --keep none
sound "$TEST_TMP/cut" "after a power cut"

guest --store "$TEST_TMP/cut" -c 'PS_LINT=1 old-pages grown look names && old-pages empty'
is "all of it is there; then all is freed" "0 done
done" "$status $output"
sound "$TEST_TMP/cut" "after a clean stop"
ok "the pages went back to the store" test "$pages" -le 5

guest --store "$TEST_TMP/room" -c 'old-pages hole; old-pages beside; old-pages one; old-pages one; old-pages one; old-pages one'
is "objects with types do not take a page each because an old one has room" "0 0" "$status $(grep -c failed <<<"$output")"
is "nor does each process that adds one: four of them fill the rest of two pages" 2 "$(grep ^page <<<"$output" | sort -u | wc -l)"
echo "# ${output//$'\n'/; }"
sound "$TEST_TMP/room" "where room of old pages was used"
done_testing
