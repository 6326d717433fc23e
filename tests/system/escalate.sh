#!/bin/bash
# Runs once: with one CPU and counted instructions, where the same threads always run behind each other.
# pstore_escalate in that machine: who ends with a container's lock and begins anew at once must not be before those whom
# the lock has shut out. They starved here, always in the same order, while the others had thousands of turns.
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

output=$(scripts/run --icount --cpus 1 --timeout 300 --allow all --add build/tests/guest/pstore_escalate -c pstore_escalate 2>&1)
is "all ends, in its turn" "0 22" "$? $(grep -c '^ok' <<<"$output")"
grep -q '^ok 22' <<<"$output" || echo "# behind: $(grep '^ok' <<<"$output" | tail -1)"
done_testing
