#!/bin/bash
# Group structures: the B+-tree in a container against the same object file on volatile memory.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 300 -c bench-trees
