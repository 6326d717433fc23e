#!/bin/bash
# fuzz.sh - runs the libFuzzer targets from generated seeds; `make fuzz` builds them before.
#
#   tests/fuzz/fuzz.sh [RUNS [SEED]]      runs of each target (200000); the same seed repeats them
#
# scripts/test does, too, in `make test` for some seconds if clang is there, and longer in the long tier.
#
# A finding is left as build/fuzz/TARGET-crash-..., and the line that repeats it is
# printed. What was learnt stays in build/fuzz/corpus-* for the next time.
set -u
cd "$(dirname "$0")/../.." || exit 1
runs=${1:-200000} seed=${2:-${SEED:-1}} status=0

if [ ! -x build/fuzz/parsers ]; then
    printf '1..1\nok - # SKIP no fuzzers were built: they want clang (apt install clang-14 libclang-rt-14-dev)\n'
    exit 0
fi
echo 1..4

for part in image log kcheck parsers; do
    corpus=build/fuzz/corpus-$part
    mkdir -p "$corpus"
    if [ $part = parsers ]; then
        build/tests/host/test_parsers corpus "$corpus" || exit 1
    else
        build/fuzz/corpus "$corpus" $part || exit 1
    fi
    log=build/fuzz/$part.log
    if build/fuzz/$part -runs="$runs" -seed="$seed" -max_len=524288 -timeout=20 -verbosity=1 \
        -print_final_stats=1 -artifact_prefix=build/fuzz/$part- "$corpus" >"$log" 2>&1; then
        echo "ok - $part: $(awk '/number_of_executed_units/ { print $2 }' "$log") executions," \
            "coverage $(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1), 0 findings"
    else
        tail -n 30 "$log"
        echo "not ok - $part: again: build/fuzz/$part FILE, with the file named above"
        status=1
    fi
done
exit $status
