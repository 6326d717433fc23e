#!/bin/bash
# Group longest: how long a CPU stays in the kernel between two points that serve shootdowns and yield, at most.
set -eu
cd "$(dirname "$0")/../.."
scripts/run --no-store --icount --cpus 1 --memory 512 --append stretch=0 --timeout 300 --allow all \
    --add build/tests/guest/kernel_long -c 'kernel_long rows'
