#!/bin/bash
# Group dali: the benchmark of the Dali paper over items: counted instructions; then its tables in its own form, and
# latencies, on two CPUs; then a power cut while the exchange is at work, and how long it is away.
set -eu
cd "$(dirname "$0")/../.."
make -s build/tests/stretch.so
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-dali instructions'
scripts/run --icount --cpus 1 --timeout 300 --stretch "0,,$scratch/counts" -c 'bench-dali parts'
for each in 10 100; do      # sections 3 and 4, beside one of nothing
    tests/bench/parts.py build/kernel.elf "$scratch/counts" 1000 2 $((each == 10 ? 3 : 4)) |
        sed -E "s/^([^\t]*)\t[^\t]*\t([^\t]*)\t.*/an update, $each in a transaction, of the kernel's, \1\tinstructions\t\2\t-/"
done
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-dali indexes'
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-dali layer'
scripts/run --icount --cpus 1 --timeout 300 --append store.audit_kib=0 -c 'bench-dali protection'
scripts/run --icount --cpus 1 --timeout 300 --append store.audit_kib=0 --allow names -c 'bench-dali codewords'
scripts/run --icount --cpus 1 --timeout 300 --append store.audit_kib=0 --allow names --wild --memory 64 -c 'bench-dali sums'
scripts/run --cpus 2 --timeout 300 --allow names -c 'bench-dali paper 1000; bench-dali latency 3000'

scripts/run --store "$scratch/store" --timeout 120 --kill-on 'CUT' \
    -c 'exchange --lines 100000 --operators 2 --updates 50 --seconds 5; echo CUT; exchange --seconds 60' >"$scratch/out"
begin=$(date +%s.%N)
scripts/run --store "$scratch/store" --timeout 120 -c 'exchange find 5000000' >>"$scratch/out"
python3 -c 'import sys
seconds = float(sys.argv[2]) - float(sys.argv[1])
print(f"a power cut under 50 % updates: from power on to a look-up\tseconds\t{seconds:.2f}\t-")
print(f"the same, a cut in each week of a year\tminutes\t{seconds * 52 / 60:.2f}\t5")' "$begin" "$(date +%s.%N)"
scripts/run --store "$scratch/store" --timeout 120 -c 'exchange check' >>"$scratch/out"
grep -q 'equal$' "$scratch/out" || { cat "$scratch/out" >&2; exit 1; }
