#!/bin/bash
# A stress run on 4 CPUs, more than the host has: the kernel's transactions, evictions and deaths; then the store's
# commits, cleaning and checkpoints. The long tier takes N seeds: `make test-long ONLY=stress N=SEEDS SEED=FIRST` goes on for
# as long as there is time; a seed takes 30 s.
# Runs once: with 4 CPUs.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

first=${SEED:-1} seeds=1 steps=120 tier=''
[ "${TEST_TIER:-test}" != long ] || seeds=${N:-$((3 * ${TIMES:-1}))} steps=700 tier='TEST_TIER=long; '

# run COMMAND OPTIONS...: one run; what it says about a failure, the command that repeats it last.
run() {
    local command=$1 status=0
    shift
    scripts/run --seed "$seed" --cpus 4 --timeout 900 "$@" --allow all --add "build/tests/guest/${command%% *}" -c "$tier$command" \
        >"$TEST_TMP/out" 2>"$TEST_TMP/errors" || status=$?
    [ "$status" -eq 0 ] && return
    grep -v '^ok' "$TEST_TMP/out"
    tail -n 20 "$TEST_TMP/errors"
    return "$status"
}

for ((seed = first; seed < first + seeds; seed++)); do
    ok "kernel_stress, seed $seed" run "kernel_stress $seed" --no-store --memory 48
    ok "store_stress, seed $seed" run "store_stress $seed $steps" --memory 40
done
if [ "${TEST_TIER:-test}" = long ]; then
    ok "a snapshot beside 1,000,000 commits" scripts/run --no-store --icount --cpus 1 --memory 64 --timeout 7200 \
        --allow all --add build/tests/guest/kernel_versions -c "kernel_versions 1000000"
fi
done_testing
