#!/bin/bash
# A stress run on 4 CPUs, more than the host has: the kernel's transactions, evictions and deaths; in the long tier
# the store's commits, cleaning and checkpoints, too. Work is counted in operations, so a slow host only takes
# longer. `make test-long ONLY=stress N=SEEDS SEED=FIRST` goes on for as long as there is time: a seed takes 20 s.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

LONG=0
[ "${TEST_TIER:-test}" != long ] || LONG=1
first=${SEED:-1}
count=$((LONG ? ${N:-3} : 1))

# stress PROGRAM OPTIONS...: one run; what it says about a failure, the command that repeats it last.
stress() {
    local name=$1 status=0
    shift
    scripts/run --seed "$seed" --cpus 4 --timeout 900 "$@" --add "build/tests/guest/$name" -c "$name $seed" \
        >"$TEST_TMP/out" 2>"$TEST_TMP/errors" || status=$?
    [ "$status" -eq 0 ] && return
    grep -v '^ok' "$TEST_TMP/out"
    tail -n 20 "$TEST_TMP/errors"
    return "$status"
}

for ((seed = first; seed < first + count; seed++)); do
    ok "kernel_stress, seed $seed" stress kernel_stress --no-store --memory 48
    [ "$LONG" = 0 ] || ok "store_stress, seed $seed" stress store_stress --memory 40
done
done_testing
