#!/bin/bash
# Transactions over pages that are at hand: what must happen, and how often, as bench-txn counts it. Its
# instructions are shown by `make bench ONLY=txn` and not tested.
# Runs once: with one CPU.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

OUT=$TEST_TMP/out
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-txn begin; bench-txn cached' 2>&1 | tr -d '\r' >"$OUT"

# exactly NAME: the row's measured value is its reach.
exactly() { awk -F '\t' -v name="$1" '$1 == name { found = 1; same = $3 == $4 } END { exit !(found && same) }' "$OUT"; }

for name in \
    'read transaction over 1,280 cached pages, whole pages read: faults' \
    'update transaction over 1,280 cached pages: write faults' \
    'update transaction over 1,280 cached pages: other faults, and waits' \
    'update transaction over 1,280 cached pages: messages until the commit' \
    'update transaction over 1,280 cached pages: messages of the commit' \
    'callback from an idle holder: messages' \
    'callback from an active holder: notices' \
    'callback from an active holder: other messages' \
    'reads of a snapshot while 8 writers run: waits, and messages' \
    'reads of a snapshot while 8 writers run: rights taken' \
    'reads of a snapshot while 8 writers run: seen half of a transaction'
do
    ok "$name" exactly "$name"
done
done_testing
