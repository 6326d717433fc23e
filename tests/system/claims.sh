#!/bin/bash
# Pages of a committed object that were never written belong to it in later boots, too.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store

boot() {
    scripts/run --timeout 60 --store "$STORE" --store-size 64M --allow all --add build/tests/guest/pstore_claim \
        -c "pstore_claim $1" >"$TEST_TMP/out" 2>&1 || { sed 's/^/# /' "$TEST_TMP/out"; return 1; }
}

ok "a program allocates a large object and writes nothing" boot make
ok "in the next boot another fills what it is given" boot fill
ok "in a third the large object is untouched" boot check
ok "the host finds no damage" build/host/kstore check "$STORE"
done_testing
