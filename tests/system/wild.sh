#!/bin/bash
# Wild writes and a power cut: pages that were hit, mended and changed further are on the disk as they were committed, and
# what was hit and nobody found is not there (pstore_codewords).
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

guest() { # OPTIONS... WORD
    scripts/run --wild --memory 64 --timeout 60 --store "$STORE" --store-size 64M --allow all --log "$TEST_TMP/log" \
        --append "store.log_mib=4 store.group_kib=1024 store.audit_kib=0" \
        --add build/tests/guest/pstore_codewords "${@:1:$#-1}" -c "pstore_codewords ${!#} $LOCKED" | tr -d '\r'
}
for LOCKED in items pages; do
    STORE=$TEST_TMP/store-$LOCKED
    is "$LOCKED are locked: 12 pages are hit and mended, 6 more are hit, and the power goes" "hit 18 mended 12" \
        "$(guest --kill-on cut crash | grep hit)"
    is "each is said, by container, page and region" 12 \
        "$(grep -cE 'store: codewords.*, page [0-9]+, region 2 of 8: not what was committed: it was mended' "$TEST_TMP/log")"
    is "the next start has all as it was committed" "wrong 0" "$(guest check)"
    is "and so has the disk" 1 "$(build/host/kstore check "$STORE" | grep -c 'sound: 0 damages, 0 warnings')"
done
done_testing
