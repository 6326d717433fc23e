#!/bin/bash
# Group disks: uDatabase's Figure 6, range queries over one to four disks at two controllers, round robin against Larson
# and Seeger. Disks are files with a service time (slow-disks.py), as a host's disks have none that could be told. Each
# point is a tree of its own and two boots: it is built on files, then asked cold, with memory for 5 % of it. Then the
# same with one store over the disks (disk/span.md), whose extents go round them, and what a commit costs each.
# QUERIES=N (1000), SEEK_US, TRANSFER_US; the picture is build/bench/disks.svg. Some minutes.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."
queries=${QUERIES:-1000} seek=${SEEK_US:-3000} transfer=${TRANSFER_US:-6000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

drive() { echo " -blockdev driver=nbd,node-name=$1,server.type=unix,server.path=$scratch/$2,export= -device virtio-blk-pci,drive=$1,serial=$1,disable-legacy=on"; }

# build PARTS RULE: the tree, on new disks; by rule 2 they are those of one store
build() {
    local stores=(--store "$scratch/file1") files=("$scratch/file1") i
    for ((i = 2; i <= $1; i++)); do
        files+=("$scratch/file$i")
        if [ "$2" = 2 ]; then stores+=(--span "$scratch/file$i"); else stores+=("--store$i" "$scratch/file$i"); fi
    done
    rm -f "$scratch"/file?
    [ "$2" != 2 ] || build/host/kstore create --size 64 --extent 8 "${files[@]}"
    scripts/run "${stores[@]}" --store-size 64M --memory 512 --append store.extent_kib=8 --timeout 300 -c "bench-disks build $1 $2"
}

# ask PARTS RULE: a line of bench-disks
ask() {
    local files=() disks i name=store one=
    [ "$2" != 2 ] || one="ONE=1 "
    for ((i = 1; i <= $1; i++)); do
        files+=("$scratch/file$i")
        disks+=$(drive "$name" $((i - 1)))
        name=store${one:+.}$((i + 1))
    done
    rm -f "$scratch"/[0-9] "$scratch/signal" "$scratch/end"
    mkfifo "$scratch/end"
    : >"$scratch/ready"
    tests/bench/slow-disks.py "$scratch" 2 "$seek" "$transfer" "${files[@]}" <"$scratch/end" >"$scratch/ready" &
    exec 9>"$scratch/end"
    until grep -q ready "$scratch/ready"; do sleep 0.1; done
    scripts/run --no-store --allow disks --append "store.scrub_kib=0" --timeout 900 --qemu "$disks$(drive signal signal)" \
        -c "${one}bench-disks run $1 $queries" | tr -d '\r'
    exec 9>&-
    wait
}

for rule in 0 1 2; do
    for parts in 1 2 3 4; do
        build $parts $rule
        row=$(ask $parts $rule)
        echo "rule $rule $row"
    done
done | tee "$scratch/rows" >&2
mkdir -p build/bench
tests/bench/disks-figure.py build/bench/disks.svg "$seek" "$transfer" <"$scratch/rows"
