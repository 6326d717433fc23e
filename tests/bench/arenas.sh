#!/bin/bash
# Group arenas: deadlocks and commits a second of 16 writers, by what shares pages. Two CPUs.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --cpus 2 --timeout 300 -c bench-arenas
