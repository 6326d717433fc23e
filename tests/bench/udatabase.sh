#!/bin/bash
# Group udatabase: uDatabase's Table 1. Each row is a boot of its own, so that both ways begin cold: first the LRU buffer
# manager on a raw disk, then the mapped container, with as many pages in memory as that had in its frames (option
# `pages`), and two for the root and the page that is just coming. UDATABASE=FOLDER keeps what was built.
set -eu
cd "$(dirname "$0")/../.."
if [ -n "${UDATABASE-}" ]; then
    scratch=$UDATABASE
    mkdir -p "$scratch"
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
kinds=(tree boxes graph85 graph90 graph95)
rows=(0 0 0 0 0 1 1 2 3 4)      # of which kind each query file is

# The store reads whole extents: 8 KiB, as the paper's systems; of the boxes, whose nodes are 20 KiB, single pages.
extent() { [ "$1" = boxes ] && echo 4 || echo 8; }
# guest KIND OPTIONS... -c COMMANDS: a machine that has the kind's store and the raw disk.
guest() {
    local kib name options=''
    kib=$(extent "$1")
    shift
    for name in store raw; do
        options+=" -drive file=$scratch/$name$([ $name = raw ] || echo "$kib"),format=raw,if=none,id=$name"
        options+=" -device virtio-blk-pci,drive=$name,serial=$name,disable-legacy=on"
    done
    scripts/run --cpus 1 --timeout 600 --no-store --allow disks --qemu "$options" "$@"
}
if [ ! -e "$scratch/sizes" ]; then
    truncate -s 200M "$scratch/raw"
    truncate -s 1G "$scratch/store4" "$scratch/store8"
    for kind in "${kinds[@]}"; do
        guest "$kind" --memory 512 --append "store.extent_kib=$(extent "$kind")" -c "udatabase build $kind" |
            tr -d '\r' >>"$scratch/new"
    done
    mv "$scratch/new" "$scratch/sizes"
fi
cat "$scratch/sizes"
for percent in 100 10 5; do
    for number in ${ROWS:-0 1 2 3 4 5 6 7 8 9}; do
        kind=${kinds[${rows[$number]}]}
        read -r units bytes <<<"$(sed -n "s/^$kind: \([0-9]*\) units of \([0-9]*\) .*/\1 \2/p" "$scratch/sizes")"
        frames=$((units * percent / 100))
        guest "$kind" --icount --append "pages=$((percent == 100 ? 0 : frames * bytes / 4096 + 2)) store.scrub_kib=0 crc=instruction" \
            -c "udatabase run $number $frames $percent" | tr -d '\r'
    done
done
