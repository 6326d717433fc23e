#!/bin/bash
# The disk library writes the same bytes on the host and in the guest: seeded lives against a disk in
# memory, on both sides. N= seeds (20; 300 in the long tier, times TIMES) from SEED= (1) on.
# Runs once: it is the bytes that count.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

preset=20 timeout=300
[ "${TEST_TIER:-test}" != long ] || preset=$((300 * ${TIMES:-1})) timeout=$((2000 * ${TIMES:-1}))
count=${N:-$preset} first=${SEED:-1}
build/tests/same/host "$first" "$count" >"$TEST_TMP/host"
scripts/run --no-store --memory 128 --timeout "$timeout" --add build/tests/same/guest:same-log \
    -c "same-log $first $count" 2>"$TEST_TMP/stderr" | tr -d '\r' >"$TEST_TMP/guest"

is "the host wrote $count logs" "$count" "$(grep -c ' writes, ' "$TEST_TMP/host")"
is "each life made commits" 0 "$(grep -c ' 0 commits' "$TEST_TMP/host")"
if cmp -s "$TEST_TMP/host" "$TEST_TMP/guest"; then
    ok "the guest wrote the same bytes for all of them" true
else
    diff "$TEST_TMP/host" "$TEST_TMP/guest" | head -n 6 | sed 's/^/# /'
    echo "# again: SEED=$first N=$count scripts/test --only same-log"
    ok "the guest wrote the same bytes for all of them" false
fi
done_testing
