#!/bin/bash
# A stress run on 4 CPUs, more than the host has: the kernel's transactions, evictions and deaths; then the store's
# commits, cleaning and checkpoints. It goes on, seed after seed, until the guests have run for some seconds; a program
# counts its work in operations, so on a slow host there are fewer seeds, and each is as good. The long tier takes N
# seeds: `make test-long ONLY=stress N=SEEDS SEED=FIRST` goes on for as long as there is time; a seed takes 30 s.
# Runs once: with 4 CPUs.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

RUN_MS=2000
ran_ms=0

# stress PROGRAM OPTIONS...: one run; what it says about a failure, the command that repeats it last.
stress() {
    local name=$1 status=0
    shift
    scripts/run --seed "$seed" --cpus 4 --timeout 900 "$@" --allow all --add "build/tests/guest/$name" -c "$name $seed && info" \
        >"$TEST_TMP/out" 2>"$TEST_TMP/errors" || status=$?
    [ "$status" -eq 0 ] && return
    grep -v '^ok' "$TEST_TMP/out"
    tail -n 20 "$TEST_TMP/errors"
    return "$status"
}

# run PROGRAM OPTIONS...: the same, counted; and how long the guest was up.
run() {
    ok "$1, seed $seed" stress "$@"
    ran_ms=$((ran_ms + $(awk '/^uptime_ns/ { ms = int($2 / 1e6) } END { print ms + 0 }' "$TEST_TMP/out")))
}

goes_on() {
    if [ "${TEST_TIER:-test}" = long ]; then
        [ "$seed" -lt $((first + ${N:-$((3 * ${TIMES:-1}))})) ]
    else
        [ "$ran_ms" -lt $RUN_MS ] && [ "$tap_failed" = 0 ]
    fi
}

first=${SEED:-1}
seed=$first
while goes_on; do
    run kernel_stress --no-store --memory 48
    run store_stress --memory 40
    seed=$((seed + 1))
done
if [ "${TEST_TIER:-test}" = long ]; then
    ok "a snapshot beside 1,000,000 commits" scripts/run --no-store --icount --cpus 1 --memory 64 --timeout 7200 \
        --allow all --add build/tests/guest/kernel_versions -c "kernel_versions 1000000"
fi
echo "# the guests were up for $((ran_ms / 1000)) s"
done_testing
