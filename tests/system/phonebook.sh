#!/bin/bash
# The phone book: two indexes over one set of people, which agree whenever the power is cut.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

BASE=$TEST_TMP/base LOG=$TEST_TMP/log CUT=$TEST_TMP/cut

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --store-size 24M "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

guest --store "$BASE" -c 'phonebook list; phonebook check'
is "it begins empty" "0:0 people, sound" "$status:$output"
cp --sparse=always "$BASE" "$TEST_TMP/used"
changes='phonebook add ann 100; phonebook add bob 200; phonebook add ann 300; phonebook add carl 400; phonebook remove 100'
guest --store "$TEST_TMP/used" --record "$LOG" \
    -c "$changes; phonebook list; phonebook find ann; phonebook range b d; phonebook whose 400; phonebook check"
is "people are added, found by both, and removed" "ann                  300
bob                  200
carl                 400
ann                  300
bob                  200
carl                 400
carl
3 people, sound" "$output"
guest --store "$TEST_TMP/used" -c 'phonebook add dan 300; echo $?; phonebook remove 100'
is "a number has one person, and who is not there cannot be removed" "phonebook: it exists already
1
phonebook: there is nothing of that name or key, 1" "$output, $status"
guest --store "$TEST_TMP/used" -c 'phonebook check; phonebook list'
is "an addition that failed left nothing, and all is there at the next boot" "0:3 people, sound
ann                  300
bob                  200
carl                 400" "$status:$output"

# Each state that a cut may leave is one of these, and a later cut never leaves an earlier one.
states=("" "100" "100 200" "100 300 200" "100 300 200 400" "300 200 400")
entries=$(scripts/cut "$LOG" --list | wc -l)
ok "the disk was written" test "$entries" -gt 10
last=0 wrong=
parts=5
[ "${TEST_TIER:-test}" != long ] || parts=10
step=$((entries / parts + (entries < parts)))
for ((at = 0; at <= entries; at += step)); do
    scripts/cut "$LOG" "$BASE" "$CUT" --at "$at" --keep none
    guest --store "$CUT" -c 'phonebook check; phonebook list'
    found=$(awk 'NR > 1 { printf "%s%s", sep, $2; sep = " " }' <<<"$output")
    for ((k = last; k < ${#states[@]}; k++)); do
        [ "$found" = "${states[k]}" ] && break
    done
    grep -q '^[0-9]* people, sound$' <<<"$output" && [ "$k" -lt "${#states[@]}" ] || wrong="$wrong [cut at $at: $output]"
    [ "$k" -lt "${#states[@]}" ] && last=$k
done
is "after each cut both indexes agree, and nothing acknowledged before is lost" "" "$wrong"
scripts/cut "$LOG" "$BASE" "$CUT" --at "$entries" --keep none
guest --store "$CUT" -c 'phonebook check; phonebook whose 300'
is "after the last commit all is there" "0:3 people, sound
ann" "$status:$output"
done_testing
