#!/bin/bash
# Group oo1: OO1 (tests/oo1/oo1.md) with files, mapped files, a container and plain memory, small and large, warm and
# cold; and as objects in four placements. In counted instructions; tests/oo1/tables.py makes tables of them.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tests/oo1/build "$scratch/bin"

# guest NAME MEMORY PROGRAM...: each PROGRAM is a command; what it prints goes to $scratch/NAME, below a line of its own.
guest() {
    local name=$1 memory=$2 commands='' command
    shift 2
    for command; do commands+="echo '== $command'; $command; "; done
    scripts/run --icount --cpus 1 --memory "$memory" --timeout 1500 --store "$scratch/store" --store-size 2G \
        --add "$scratch/bin/oo1-heap" --add "$scratch/bin/oo1-mapped" --add "$scratch/bin/oo1-file" \
        --add "$scratch/bin/oo1-store" --add "$scratch/bin/oo1-objects" -c "$commands" 2>&1 |
        tr -d '\r' >>"$scratch/$name"
}

for parts in 20000 200000; do
    # a file is made faster by a mapping
    guest "$parts" 1024 "oo1-heap all $parts 10" "oo1-mapped all $parts 10" "oo1-mapped create $parts" \
        "oo1-file run $parts 10" "oo1-file check $parts" "oo1-store create $parts"
    guest "cold$parts" 1024 "oo1-store run $parts 1"
    guest "$parts" 1024 "oo1-store all $parts 10"
    rm "$scratch/store"
done
guest objects 512 "oo1-objects all heap ordered 20000 10"
for growth in ordered random; do
    for where in order congeries near; do
        guest objects 512 "oo1-objects create $where $growth 20000"
        guest objects 512 "oo1-objects run $where $growth 20000 10" "oo1-objects check $where $growth 20000"
        rm "$scratch/store"
    done
done
python3 tests/oo1/tables.py "$scratch"
