#!/bin/bash
# The plug is pulled in each phase of wn-import. Each boot recovers, and the next run goes on from
# the last commit; at the end nothing is missing, nothing is there twice.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

DICT=${WORDNET:-/usr/share/wordnet}
STORE=$TEST_TMP/store

if [ ! -r "$DICT/data.noun" ]; then
    echo "1..0 # skip no WordNet in $DICT (apt install wordnet-base)"
    exit 0
fi

# guest OPTIONS...: sets output and status.
guest() {
    status=0
    output=$(scripts/run --memory 128 --timeout 240 --store "$STORE" "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

first=yes
percents='20 80'
[ "${TEST_TIER:-test}" != long ] || percents='20 60 80'
for percent in $percents; do
    guest --import "$DICT" --kill-on " $percent%" -c 'wn-import /import'
    is "the plug is pulled at $percent percent" 0 "$status"
    if [ "$first" = no ]; then
        ok "before that the import went on" grep -q "goes on at" <<<"$output"
    fi
    first=no
done

guest --import "$DICT" -c 'wn dog; echo "half: $?"; wn-import /import'
ok "half an import is not taken for a whole one" grep -qx 'half: 2' <<<"$output"
is "the import goes on and ends" 0 "$status"
ok "it did not begin anew" grep -q "goes on at [89]" <<<"$output"

guest -c 'wn --counts; wn --check'
is "all is there, and once" \
    "synsets 117659
index entries 155287
senses 206978
pointers 377592" "$(head -n 4 <<<"$output")"
is "every pointer leads where it should" sound "$(tail -n +5 <<<"$output")"
done_testing
