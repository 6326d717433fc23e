#!/bin/bash
# Group oo1-huge: OO1's third size, 2,000,000 parts and 6,000,000 connections, in a container; HUGE=PARTS for another
# number. Files of Katydid are in memory, so they have no such size. The database is made without counting, since that
# takes a minute, and some on a busy host; what is printed is counted.
set -eu
cd "$(dirname "$0")/../.."
parts=${HUGE:-2000000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tests/oo1/build "$scratch/bin"

guest() {
    scripts/run --memory 1024 --timeout 3000 --store "$scratch/store" --store-size 6G --add "$scratch/bin/oo1-store" "$@" 2>&1 |
        tr -d '\r'
}

guest --cpus 2 -c "oo1-store create $parts" >"$scratch/made"
[ ! -s "$scratch/made" ] || { cat "$scratch/made" >&2; exit 1; }
guest --icount --cpus 1 -c "oo1-store run $parts 5" >"$scratch/runs"
guest --cpus 2 -c "oo1-store check $parts" >"$scratch/check"
grep -q ', sound$' "$scratch/check" || { cat "$scratch/check" >&2; exit 1; }
for operation in lookup traversal insert; do
    awk -F '\t' -v o="$operation" -v n="$parts" '$1 == o && $2 == 1 {
        printf "OO1, huge, %d parts in a container: first %s after a boot\tinstructions\t%d\t-\n", n, o, $3
        printf "OO1, huge: first %s after a boot: pages read\tpages\t%d\t-\n", o, $4
    }
    $1 == o && $2 == 5 {
        printf "OO1, huge: fifth %s, of other parts\tinstructions\t%d\t-\n", o, $3
        printf "OO1, huge: fifth %s: pages read\tpages\t%d\t-\n", o, $4
    }' "$scratch/runs"
done
awk -F '\t' '$1 == "insert" { if ($5 > most) most = $5 } END {
    printf "OO1, huge: insertion of 100 parts: flushes\tflushes\t%d\t1\n", most }' "$scratch/runs"
