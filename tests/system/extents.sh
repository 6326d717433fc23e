#!/bin/bash
# A store with extents of each size: it is made by the kernel's command line or on the host, takes
# commits, recovers after the machine was cut off, and is sound on the host.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 64 --store "$STORE" --store-size 32M \
        --allow all --add build/tests/guest/store_rot "$@" 2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}
for kib in 4 8 16 32 64; do
    rm -f "$STORE"
    [ $kib -lt 32 ] || build/host/kstore create --size 32 --extent $kib "$STORE" >/dev/null
    guest --append "store.extent_kib=$kib" --kill-on 'end' \
        -c 'store_rot write 1; store_rot more 2; todo add milk; echo end; sleep 9'
    is "$kib KiB: written" 0 "$status"
    extent() { build/host/kstore info "$STORE" | grep -q "extents of $kib KiB"; }
    ok "$kib KiB: the store says so" extent
    guest -c 'store_rot read; todo'
    is "$kib KiB: all is there after recovery" "0 good 64, damaged - milk" "$status $(echo $output)"
    ok "$kib KiB: the host finds no damage" build/host/kstore check "$STORE"
done
done_testing
