#!/bin/bash
# Group pointers: 8-byte pointers beside 4-byte numbers, cold walks (after a reboot) beside warm ones, pointers rewritten.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
scripts/run --store "$scratch/store" -c 'bench-pointers make' >/dev/null
scripts/run --store "$scratch/store" --icount --cpus 1 --timeout 120 -c bench-pointers
