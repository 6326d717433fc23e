#!/bin/bash
# A commit to another machine's container whose answer is lost is not in doubt for its program: it hears in the next
# session what became of it, also when `remote` or the home is no more (user/sites/remote.md).
# Waits: for leases.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
common="--cpus 1 --memory 96 --link lease=1000 --allow processes --add build/tests/sites/shared"
kills="upto=75 kill:remote upto=90 kill:remote upto=105 kill:remote"
cat >"$TEST_TMP/plan" <<PLAN
server home $common --store $TEST_TMP/store --zone 0 : shared box create=2; store export box far write; shared box upto=100000
site far $common --no-store : shared home:box open truths=60; shared home:box $kills & shared home:box truths=80; wait
link home far
$(for n in {50..150..10}; do echo "at home>far $n cut"; echo "at far>home $((n + 5)) cut"; done)
at far>home commit 20 cut
at far>home commit 40 cut
at home>far done 30 cut
at home>far done 50 cut
at home>far 200 kill home again
PLAN
scripts/sites --seed 1 --verbose --timeout 400 "$TEST_TMP/plan" >"$TEST_TMP/said" 2>&1
ok "what each commit was told is true, through breaks of the link" \
    test "$(grep -c 'were committed' "$TEST_TMP/said")" = 2
ok "some were undone" grep -q 'others undone' "$TEST_TMP/said"
sed 's/^/# /' "$TEST_TMP/said" | tail -${LINES_SAID:-12}
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
