#!/bin/bash
# Group kernel: calls, messages, faults and commits, in exactly counted instructions.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 120 -c bench
tests/bench/tracepoint.py
