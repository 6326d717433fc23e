#!/bin/bash
# Group longest: how long a CPU stays in the kernel between two points that serve shootdowns and yield, at most.
set -eu
cd "$(dirname "$0")/../.."
make -s build/tests/stretch.so build/tests/guest/kernel_long
out=$(mktemp)
trap 'rm -f "$out"' EXIT
rows=$(scripts/run --no-store --icount --cpus 1 --memory 512 --stretch "0,$out" --timeout 300 --allow all \
    --add build/tests/guest/kernel_long -c 'kernel_long rows')
paste <(cut -d' ' -f1 "$out") - <<<"$rows" | while IFS=$'\t' read -r count what; do
    [ "$what" = - ] || printf 'longest stretch: %s\tinstructions\t%s\t200000\n' "$what" "$count"
done
