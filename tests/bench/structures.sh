#!/bin/bash
# Group structures: structures in a container against the same object files on volatile memory.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 300 -c bench-structures
