#!/bin/bash
# Group structures: structures in a container against the same object files on volatile memory; and an index that the
# store manager keeps beside a tree of one's own.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 300 -c bench-structures
