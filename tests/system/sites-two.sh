#!/bin/bash
# Two machines use a container of a third one at the same time (user/sites/remote.md): what both have read and
# then store to is a deadlock over two agents, which is found, and nobody waits for ever; the sum stays.
# Waits: for deadlocks, which are found after a while.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

common="--link lease=20000 --cpus 1 --memory 96 --add build/tests/sites/shared"
moves=25
[ "${TEST_TIER:-test}" != long ] || moves=60
scripts/sites --timeout 400 - >"$TEST_TMP/said" 2>&1 <<END
site home $common --store $TEST_TMP/store : shared box create=3; store export box left write; store export box right write; shared box await=2 sum
site left --no-store $common : shared home:box open moves=$moves phase=1
site right --no-store $common : shared home:box open seed=7 moves=$moves await=1 sum phase=2
link home left
link home right
END
is "both sites come to their end" "0" "$?"
is "the home sees what both have left" "home: 3 accounts, 3000" "$(grep -a '^home: ' "$TEST_TMP/said")"
is "so does one that is among them" "right: 3 accounts, 3000" "$(grep -a '^right: ' "$TEST_TMP/said")"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
