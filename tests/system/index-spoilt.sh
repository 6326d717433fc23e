#!/bin/bash
# Indexes of an image beside what kstore does with images: each command knows them, or says why not; their rotten pages
# are found and mended; what backup, grow and salvage made has the same keys.
# Then an index whose pages are none: a container of objects that an image says is one. Nobody crashes or hangs for it,
# who uses it is told, and other indexes of the store serve.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
IMAGE=$TEST_TMP/store

for name in index-spoilt index-cut; do
    scripts/katydid-cc "tests/system/$name.c" -o "$TEST_TMP/$name" || echo "Bail out! no $name"
done
scripts/run --timeout 100 --store-size 24M --store "$IMAGE" --add "$TEST_TMP/index-cut" -c 'index-cut 1 9; halt' >"$TEST_TMP/out" 2>&1
kstore() { build/host/kstore "$@" 2>&1; }
# rot IMAGE: of the only node of one index.
rot() {
    node=$(kstore dump -p "$1" | sed -n 's/^page 2:2 at \([0-9]*\):.*/\1/p')
    printf 'rotten' | dd of="$1" bs=1 seek=$((node + 100)) conv=notrunc status=none
}
COPY=$TEST_TMP/copy ROTTEN=$TEST_TMP/rotten SALVAGED=$TEST_TMP/salvaged LOST=$TEST_TMP/lost
ok "indexes are sound" grep -q '^sound: 0 damages, 0 warnings' <<<"$(kstore check "$IMAGE")"
is "what only they lead to is no leak" "no leaks among 159 objects" "$(kstore leaks "$IMAGE")"
ok "they are not exported, and that is said" grep -q '^kstore: not exported: it is an index' \
    <<<"$(kstore export "$IMAGE" index-cut.words)"
ok "they are copied" build/host/kstore backup -q "$IMAGE" "$COPY"
cp --sparse=always "$IMAGE" "$ROTTEN"
rot "$ROTTEN"
ok "a rotten node is found" grep -q '^damage: index-cut.numbers (container 2), page 2 ' <<<"$(kstore check "$ROTTEN")"
ok "what verifies is saved, the node out of the log" build/host/kstore salvage -q "$ROTTEN" "$SALVAGED"
ok "the node is mended from there" grep -q ' 1 repairs, 0 lost' <<<"$(kstore scrub "$ROTTEN")"
ok "what was saved grows" build/host/kstore grow -q "$SALVAGED" 48M
output=$(scripts/run --timeout 100 --store "$SALVAGED" --backup "$TEST_TMP/backup" --allow all \
    --add "$TEST_TMP/index-cut" -c 'index-cut check 1 && store backup && echo copied' 2>&1)
is "its keys are those that lead to objects, and the manager copies it" \
    "step 9: equal, 158 keys, heights 1 2 copied" "$(tr -d '\r' <<<"$output" | grep -E '^(step|copied)' | xargs)"
ok "as sound as it was" grep -q '^sound: 0 damages' <<<"$(kstore check "$TEST_TMP/backup")"

rot "$COPY"
ok "of a copy, which has no log, the node is lost" grep -q '^lost: index-cut.numbers (container 2), page 2 ' \
    <<<"$(kstore salvage -q "$COPY" "$LOST")"
output=$(scripts/run --timeout 100 --store "$LOST" --add "$TEST_TMP/index-spoilt" -c 'index-spoilt index-cut.numbers' 2>&1)
is "who uses that index is told" "spoilt: find spoilt, put spoilt
sound: find done, put done
spoilt: the manager's word: spoilt
sound: the manager's word: done" "${output//$'\r'/}"

build/host/kstore export "$IMAGE" index-cut | sed '1s/"type": "[^"]*"/"type": "ps_index numbers"/' >"$TEST_TMP/lines"
ok "the image has such a container" build/host/kstore import -q --name=spoilt "$IMAGE" "$TEST_TMP/lines"
output=$(scripts/run --timeout 100 --store "$IMAGE" --add "$TEST_TMP/index-spoilt" -c 'index-spoilt spoilt' 2>&1)
is "who uses it is told, and other indexes serve" "spoilt: find spoilt, put spoilt
sound: find done, put done
spoilt: the manager's word: spoilt
sound: the manager's word: done" "${output//$'\r'/}"
done_testing
