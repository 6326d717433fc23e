#!/bin/bash
# Group txn: transactions at memory speed, in counted instructions; and replacement against exact LRU.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 120 -c 'bench-txn begin; bench-txn tree'
scripts/run --memory 64 --timeout 600 --store-size 2G -c 'bench-txn replace 65536 60000'
