#!/bin/bash
# Many containers: the shell lists all of them; hundreds, in the long tier 10,000, are opened one after the other,
# also by three programs at once, though the manager has handles for some 240.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

guest() {
    scripts/run --add build/tests/guest/pstore_many "$@" 2>&1
}

seen=$(guest -c 'pstore_many >/tmp/out; containers')
is "containers lists each of 70" 70 "$(grep -cE '^ +[0-9]+ KiB  0x[0-9a-f]+  many000[0-9]+  \(struct page, version 1\)$' <<<"$seen")"

count=260 each=260
[ "${TEST_TIER:-test}" = long ] && count=10000 each=400
seen=$(guest --timeout 1000 --store "$TEST_TMP/s" --store-size 2G -c "pstore_many $count && check")
is "$count containers are opened in one boot" "3 of 1..3" "$(grep -c '^ok' <<<"$seen") of ${seen%%$'\n'*}"
ok "the store is sound after that" build/host/kstore check "$TEST_TMP/s"
[ "$tap_failed" = 0 ] || sed 's/^/# /' <<<"$seen"

seen=$(guest --timeout 300 -c "pstore_many $each >/tmp/a & pstore_many $each >/tmp/b & pstore_many $each; wait; cat /tmp/a /tmp/b; check")
is "three programs at once open the same $each" 9 "$(grep -c '^ok' <<<"$seen")"
done_testing
