#!/bin/bash
# Group logs: what a changed byte costs in the log, and how long a recovery of it takes, by the form of the container's log,
# on five kinds of data (pictures: build/bench/logs-*.svg); what a commit costs, by durability, and in two stores; how long a recovery takes, of a log of small
# records and of one of pages: seconds of one processor of this machine, of the store's library over an image in memory (the
# group store has the same in the guest); and what a backup of a store in use costs, in virtual time, of the manager over a
# disk that serves one request after the other.
set -eu
cd "$(dirname "$0")/../.."
make -s build/tests/disk/test_reach build/tests/disk/test_manager_time
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# bytes, instructions and recovery by form; a tree does not declare ranges
mkdir -p "$scratch/text" build/bench
head -n 20000 "${WORDNET:-/usr/share/wordnet}/data.noun" >"$scratch/text/data"
for what in oo1 tree index phone wordnet; do
    for form in difference whole ranges adaptive compressed operations; do
        case "$what $form" in tree\ ranges | index\ ranges) continue ;; esac
        scripts/run --icount --cpus 1 --timeout 300 --import "$scratch/text" --store "$scratch/store" \
            --store-size 256M --kill-on 'the power may be cut' -c "bench-logs $what $form" |
            grep "^$what" | tr '\n' '\t' >>"$scratch/lines"
        build/tests/disk/test_reach --recover "$scratch/store" - - >>"$scratch/lines"
        rm "$scratch/store"
    done
done
tests/bench/logs-figure.py build/bench <"$scratch/lines"

# flushes and instructions by durability
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-logs lazy'

# a transfer between two stores, two disks with a log each, beside one within a store
scripts/run --icount --cpus 1 --timeout 300 --store "$scratch/one" --store2 "$scratch/two" -c 'bench-logs parts'
rm "$scratch/one" "$scratch/two"

# recover NAME REACH KIND N
recover() {
    build/tests/disk/test_reach --image "$scratch/store" "$3" "$4"
    build/tests/disk/test_reach --recover "$scratch/store" "$1" "$2"
    rm "$scratch/store"
}
recover 'recovery of 100,000 records of 44 bytes' 250 records 100000
recover 'recovery of 256 MiB of log' 1000 log 256
build/tests/disk/test_manager_time --copies

# loads past the log in counted instructions and bytes; Table 3 of the Dali paper, on two CPUs
scripts/run --icount --cpus 1 --timeout 300 -c 'bench-loads load'
scripts/run --cpus 2 --timeout 300 --allow names -c 'bench-loads paper'

# commits beside a checkpoint: by chunks, and of the whole store in one go
scripts/run --cpus 2 --timeout 300 --allow names -c 'bench-loads beside'
scripts/run --cpus 2 --timeout 300 --allow names --append store.chunk_pages=256 -c 'bench-loads beside whole'
