#!/bin/bash
# Group sparse: what a touch of one page in 256 KiB costs while memory is empty, and when each must make room; by the
# kernel's sources, in exactly counted instructions.
set -eu
cd "$(dirname "$0")/../.."
make -s build/tests/stretch.so build/tests/guest/kernel_sparse
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
scripts/run --no-store --icount --cpus 1 --memory 96 --stretch "0,,$counts" --timeout 300 --allow all \
    --add build/tests/guest/kernel_sparse -c 'kernel_sparse marks' | tr -d '\r'
# two marks a GiB: 2 ends the first one, 8 to 18 those with full memory
rows() { # WHAT FIRST LAST REACH
    tests/bench/parts.py build/kernel.elf "$counts" 4096 "$2" "$3" | while IFS=$'\t' read -r part first last more; do
        [ "$2" != 2 ] || printf 'sparse touch, %s: memory empty\tinstructions\t%s\t-\n' "$part" "$first"
        [ "$2" != 2 ] || printf 'sparse touch, %s: memory full\tinstructions\t%s\t-\n' "$part" "$last"
        [ "$part" != all ] || printf 'sparse touch, memory full, of %s\ttimes\t%s\t%s\n' "$1" "$more" "$4"
    done
}
rows 'one that finds memory empty' 2 14,16,18 1.1
rows 'the first ones then' 8,10,12 14,16,18 1.1
