#!/bin/bash
# Group dali: the benchmark of the Dali paper over items: counted instructions; then its tables in its own form, and
# latencies, on two CPUs.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-dali instructions'
scripts/run --cpus 2 --timeout 300 --allow names -c 'bench-dali paper 1000; bench-dali latency 3000'
