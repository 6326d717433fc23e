#!/bin/bash
# Group managers: what managers of memory objects cost, in exactly counted instructions; what replacement
# policies ask for, beside simulations on the host: build/bench/replacement.svg.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/bench
compressed=()                           # large, so it is in a guest that names it only; not there without LZ4's source
[ ! -e build/user/compressed ] || compressed=(--add build/user/compressed)
scripts/run --icount --cpus 1 --timeout 240 "${compressed[@]}" --allow names -c bench-managers | tr -d '\r' | tee build/bench/managers.out
scripts/run --icount --cpus 1 --timeout 60 --append store.metadata=mapped -c 'bench-managers metadata'
make -s build/tests/host/test_replacement
{ cat build/bench/managers.out; build/tests/host/test_replacement curves; } |
    tests/bench/replacement-figure.py build/bench/replacement.svg
