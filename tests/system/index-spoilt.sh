#!/bin/bash
# An index whose pages are none: a container of objects that an image says is one. Nobody crashes or hangs for it, who
# uses it is told, and other indexes of the store serve.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
IMAGE=$TEST_TMP/store

for name in index-spoilt index-cut; do
    scripts/katydid-cc "tests/system/$name.c" -o "$TEST_TMP/$name" || echo "Bail out! no $name"
done
scripts/run --timeout 100 --store-size 24M --store "$IMAGE" --add "$TEST_TMP/index-cut" -c 'index-cut 1 9; halt' >"$TEST_TMP/out" 2>&1
build/host/kstore export "$IMAGE" index-cut | sed '1s/"type": "[^"]*"/"type": "ps_index numbers"/' >"$TEST_TMP/lines"
ok "the image has such a container" build/host/kstore import -q --name=spoilt "$IMAGE" "$TEST_TMP/lines"
output=$(scripts/run --timeout 100 --store "$IMAGE" --add "$TEST_TMP/index-spoilt" -c 'index-spoilt spoilt' 2>&1)
is "who uses it is told, and other indexes serve" "spoilt: find spoilt, put spoilt
sound: find done, put done
spoilt: the manager's word: spoilt
sound: the manager's word: done" "${output//$'\r'/}"
done_testing
