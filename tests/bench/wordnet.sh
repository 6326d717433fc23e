#!/bin/bash
# Group wordnet: the whole import in 128 MiB of memory, and `wn dog` after a reboot.
set -eu
cd "$(dirname "$0")/../.."
dict=${WORDNET:-/usr/share/wordnet}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# guest OPTIONS...: runs with the store, its output without carriage returns.
guest() {
    scripts/run --memory 128 --timeout 300 --store "$scratch/store" "$@" 2>&1 | tr -d '\r'
}

imported=$(guest --import "$dict" -c 'wn-import /import')
seconds=$(sed -n 's/.* pointers, in \([0-9.]*\) s$/\1/p' <<<"$imported")
[ -n "$seconds" ] || { echo "$imported" >&2; exit 1; }

best_us=999999999 best_pages=0 container_pages=0
for _ in 1 2 3; do
    read -r us pages container_pages < <(guest -c 'wn --stats dog' |
        sed -n 's/^stats: \([0-9]*\) us, \([0-9]*\) pages read.* \([0-9]*\) pages in.*/\1 \2 \3/p')
    if [ "$us" -lt "$best_us" ]; then
        best_us=$us
        best_pages=$pages
    fi
done

printf 'wn-import, whole WordNet, 128 MiB of memory\ts\t%s\t20\n' "$seconds"
printf "wn-import: the container's pages\tMB\t%s\t72\n" \
    "$(awk -v pages="$container_pages" 'BEGIN { printf "%.1f", pages * 4096 / 1e6 }')"
printf 'wn dog after a reboot\tms\t%s\t50\n' "$(awk -v us="$best_us" 'BEGIN { printf "%.1f", us / 1000 }')"
printf 'wn dog after a reboot: pages read\tpages\t%s\t200\n' "$best_pages"
