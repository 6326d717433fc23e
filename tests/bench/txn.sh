#!/bin/bash
# Group txn: transactions at memory speed. In counted instructions first; then, in time, several clients
# on two CPUs; then replacement against an exact LRU of the same trace.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 120 \
    -c 'bench faults; bench-txn begin; bench-txn cached; bench-txn tree; bench-txn items; bench-txn lazy; bench-txn cricket'
scripts/run --cpus 2 --timeout 300 -c 'bench-txn clients 2000'
scripts/run --memory 64 --timeout 600 --store-size 2G -c 'bench-txn replace 65536 60000'
