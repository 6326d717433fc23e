#!/bin/bash
# WordNet in the guest: import with 128 MiB of memory while the plug is pulled, from where each boot recovers and the next
# run goes on from the last commit; in the long tier also in one go. At the end nothing is missing, nothing is there twice.
# Then, after a reboot and without the files, some 70 words, in the long tier 300, that print what the wordnet package's tool
# prints for them.
# The words are chosen by SEED (default 7) from index.*, *.exc and the adjectives with a marker.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

DICT=${WORDNET:-/usr/share/wordnet}
SEED=${SEED:-7}
STORE=$TEST_TMP/store
SEARCHES="-over -hypen -hypev -synsa -antsa -synsr"

# guest IMPORT COMMANDS OPTIONS...: sets output and status; what goes wrong is shown as a remark.
guest() {
    status=0
    output=$(scripts/run --memory 128 --timeout 240 --store "$STORE" --import "$1" -c "$2" "${@:3}" \
        2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
    sed 's/^/# /' "$TEST_TMP/stderr"
}

# has TEXT PART...: every part is in the text.
has() {
    local text=$1 part
    shift
    for part; do
        [[ $text == *"$part"* ]] || { printf '%s\nis not in:\n%s\n' "$part" "$text"; return 1; }
    done
}

share=5
[ "${TEST_TIER:-test}" != long ] || share=1

# pick COUNT FILE: a share of so many; seeded, from the first words of the lines that are no licence.
pick() {
    grep -v '^  ' "$2" | cut -d' ' -f1 |
        awk -v seed="$SEED" 'BEGIN { srand(seed) } length < 50 { print rand() "\t" $0 }' |
        sort -n | head -n $(($1 / share)) | cut -f2
}

choose_words() {
    pick 110 "$DICT/index.noun"
    pick 70 "$DICT/index.verb"
    pick 50 "$DICT/index.adj"
    pick 20 "$DICT/index.adv"
    for file in noun verb adj; do
        pick 10 "$DICT/$file.exc"
    done
    grep -o '[a-z_-]*([a-z]*) ' "$DICT/data.adj" | grep -v '^(' | cut -d'(' -f1 >"$TEST_TMP/marked"
    pick 15 "$TEST_TMP/marked"
    printf '%s\n' dog dogs ran boxesful 'hot dog' asked_for_it attorneys_general U.S. run restrain
}

if [ ! -r "$DICT/data.noun" ]; then
    echo "1..0 # skip no WordNet in $DICT (apt install wordnet-base wordnet)"
    exit 0
fi
mkdir "$TEST_TMP/words"
choose_words >"$TEST_TMP/words/words"

scripts/run --memory 128 --store "$TEST_TMP/empty" -c 'wn dog' >"$TEST_TMP/out" 2>&1
is "wn without an import ends with status 2" 2 $?
ok "wn without an import says what to do" has "$(cat "$TEST_TMP/out")" "wn-import /import"

# pulled PERCENT...: the plug is pulled where the import is so far.
pulled() {
    local percent first=yes
    for percent; do
        guest "$DICT" 'wn-import /import' --kill-on " $percent%"
        is "the plug is pulled at $percent percent" 0 "$status"
        [ "$first" = yes ] || ok "before that the import went on" grep -q "goes on at" <<<"$output"
        first=no
    done
    guest "$DICT" 'wn dog; echo "half: $?"; wn-import /import && echo again && wn-import /import'
    ok "half an import is not taken for a whole one" grep -qx 'half: 2' <<<"$output"
    is "the import goes on and ends, and a second one" 0 "$status"
    ok "it did not begin anew" grep -q "goes on at [89]" <<<"$output"
    ok "a second import says that there is nothing to do" has "${output#*again}" "complete already"
}
if [ "${TEST_TIER:-test}" = long ]; then
    guest "$DICT" 'wn-import /import && echo again && wn-import /import'
    is "the import ends well in 128 MiB, and a second one" 0 "$status"
    ok "the import says what it brought in" has "${output%%again*}" \
        "117659 synsets, 155287 index entries, 206978 senses, 377592 pointers"
    ok "a second import says that there is nothing to do" has "${output#*again}" "complete already"
    mv "$STORE" "$TEST_TMP/whole"
    pulled 20 60 80
    guest "$TEST_TMP/words" 'wn --counts; wn --check'
    is "all is there, and once" "synsets 117659 index entries 155287 senses 206978 pointers 377592 sound" "$(echo $output)"
    mv "$TEST_TMP/whole" "$STORE"
else
    pulled 20 80
fi

guest "$TEST_TMP/words" "wn --counts; wn --check; wn --path dog cat; wn zzzq >/tmp/o 2>/tmp/e; echo \$?; wn --bogus >/tmp/o 2>/tmp/e; echo \$?"
is "the four counts, walked in the store after a reboot" \
    "synsets 117659
index entries 155287
senses 206978
pointers 377592" "$(sed -n 1,4p <<<"$output")"
is "every pointer leads where it should" sound "$(sed -n 5p <<<"$output")"
is "a shortest path from dog to cat" \
    "dog, domestic dog, Canis familiaris (noun)
  hypernym: domestic animal, domesticated animal (noun)
  hyponym: domestic cat, house cat, Felis domesticus, Felis catus (noun)
  hypernym: cat, true cat (noun)
3 steps" "$(sed -n 6,10p <<<"$output")"
is "a word that is not there gives status 1, an unknown option 2" "1 2" "$(sed -n '11,$p' <<<"$output" | paste -sd' ')"

guest "$TEST_TMP/words" "wn --file /import/words $SEARCHES"
is "the words are found" 0 "$status"
printf '%s\n' "$output" >"$TEST_TMP/ours"
if command -v /usr/bin/wn >/dev/null; then
    while read -r word; do
        # shellcheck disable=SC2086 # a list of options
        /usr/bin/wn "$word" $SEARCHES 2>/dev/null
    done <"$TEST_TMP/words/words" >"$TEST_TMP/theirs"
    printf '%s\n' "$(cat "$TEST_TMP/theirs")" >"$TEST_TMP/theirs.end"
    ok "$(wc -l <"$TEST_TMP/words/words") words (SEED=$SEED) print what the package's tool prints" \
        diff "$TEST_TMP/theirs.end" "$TEST_TMP/ours"
else
    ok "words print what the package's tool prints # skip apt install wordnet" true
fi

done_testing
