#!/bin/bash
# The first persistent program across power cuts. Five items are added by five commits while QEMU logs
# every write of the disk; the disk is then rebuilt as a power cut at some moment would have left it,
# booted, and asked. Whatever the moment: the list is whole, holds the first k items, and k never
# falls when the cut comes later; after the last commit all five are there.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut
items=(one two three four five)
places=3
[ "${TEST_TIER:-test}" != long ] || places=8

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 64 --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

# list K: what `todo` prints when the first K items are there, the newest first.
list() {
    local i
    for ((i = $1 - 1; i >= 0; i--)); do
        echo "- ${items[i]}"
    done
}

guest --store "$BASE" -c 'todo' # a formatted store, with an empty list
is "the list begins empty" "0:" "$status:$output"
cp --sparse=always "$BASE" "$TEST_TMP/used"
adds=$(printf 'todo add %s; ' "${items[@]}")
guest --store "$TEST_TMP/used" --record "$LOG" -c "$adds todo"
is "five items are added" "$(list 5)" "$output"

entries=$(scripts/cut "$LOG" --list | wc -l)
ok "the disk was written" test "$entries" -gt 10

# A cut between a write and its flush leaves the write open: there, or not.
step=$((entries / places))
for keep in none all; do
    last=0
    for ((at = 0; at <= entries; at += step)); do
        rm -f "$CUT"
        scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep "$keep" >"$TEST_TMP/said" ||
            cat "$TEST_TMP/said"
        guest --store "$CUT" -c 'todo'
        count=$(grep -c '^- ' <<<"$output")
        is "cut at $at of $entries, open writes: $keep" "$(list "$count")" "$output"
        ok "  $count items, at least the $last of the cut before" test "$count" -ge "$last"
        last=$count
    done
done
scripts/cut "$LOG" "$BASE" "$CUT" --at "$entries" --keep none >"$TEST_TMP/said"
guest --store "$CUT" -c 'todo'
is "after the last commit nothing is missing" "$(list 5)" "$output"
done_testing
