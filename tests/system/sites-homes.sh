#!/bin/bash
# Two machines, each the home of a container, use both (user/sites/remote.md): a transaction of each with the other's
# container waits for what the other machine's program has kept of its last one. Nobody sees the whole of such a circle,
# and nobody waits for ever; what all have stored is there.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

common="--link lease=20000 --cpus 1 --store-size 64M --add build/tests/sites/homes"
scripts/sites --timeout 100 - >"$TEST_TMP/said" 2>&1 <<END
server a $common --store $TEST_TMP/a : homes make p0; store export p0 b write; homes run 0 p0 b:p1; sleep 1000
site b $common --store $TEST_TMP/b : homes make p1; store export p1 a write; homes run 1 a:p0 p1
link a b
END
is "both sites come to their end" "0" "$?"
is "what both have stored is there" "a: all is there" "$(grep -a '^a: all ' "$TEST_TMP/said")"
is "both have done all" "2" "$(grep -ac '= homes.all' "$TEST_TMP/said")"
ok "the first store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/a"
ok "so is the second" build/host/kstore check --strict --quiet "$TEST_TMP/b"
done_testing
