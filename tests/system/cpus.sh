#!/bin/bash
# The kernel on 1 and 4 CPUs, while it checks itself every few milliseconds (check_ms): transactions and
# threads; in the long tier messages and container locks, too, which run unchecked with 2 CPUs in every tier. And the control: a planted bug, a count that is wrong, which nothing but that check
# finds.
# Runs once: with 1 and 4 CPUs.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

TESTS="kernel_txn linux_threads"
[ "${TEST_TIER:-test}" != long ] || TESTS="$TESTS kernel_ports kernel_locks"
adds=() all="TEST_TIER=${TEST_TIER:-test}; "
for name in $TESTS; do
    adds+=(--add "build/tests/guest/$name")
    all+="$name > /tmp/o || echo $name; "
done
for cpus in 1 4; do             # with 2 all guest tests run; in `make test` one of them, the other on the next day
    today $((cpus / 4)) 2 || continue
    status=0
    failed=$(scripts/run --no-store --cpus "$cpus" --timeout 300 --append check_ms=30 --allow all "${adds[@]}" -c "$all true" \
        2>"$TEST_TMP/errors") || status=$?
    is "$cpus CPUs: $TESTS, checked every 30 ms" "0 " "$status $failed"
done
status=0
scripts/bugs build kernel SPILL_CREDITS
scripts/run --no-store --kernel build/bugs/kernel/SPILL_CREDITS/kernel.elf --append check_ms=3 --allow all --timeout 300 \
    --add build/tests/guest/kernel_spill -c kernel_spill >/dev/null 2>"$TEST_TMP/errors" || status=$?
is "a planted bug: the kernel stops" 122 "$status"
ok "and says that its check found it" grep -q 'kcheck found errors' "$TEST_TMP/errors"
done_testing
