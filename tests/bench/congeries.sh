#!/bin/bash
# Group congeries: pages that traversals touch, and reads of the disk, by placement. One boot grows all placements at
# random, others go through them with pages that come alone, or as the system likes. Each
# traversal's sum is compared with what was worked out in volatile memory.
set -eu
cd "$(dirname "$0")/../.."
dir=build/bench/congeries
rm -rf $dir && mkdir -p $dir
trap 'rm -rf $dir' EXIT
scripts/run --cpus 1 --timeout 600 --store $dir/store --store-size 256M -c 'bench-congeries grow'
for how in alone log grouped; do
    walks=$(for n in {0..12}; do echo -n "bench-congeries walk $n $how; "; done)
    scripts/run --cpus 1 --timeout 600 --store $dir/store -c "$walks" >$dir/$how
    cat $dir/$how
done
# pages of creation order over those of a placement, from the rows above
ratio() {
    awk -F '\t' -v name="$1" -v file="$2" '$1 == "one container, creation order: an assembly" && $2 == "pages touched" { all = $3 }
        $1 == file ": an assembly" && $2 == "pages touched" { part = $3 }
        END { printf "%s\ttimes\t%.1f\t>=5\n", name, all / part }' $dir/alone
}
ratio "pages: creation order over a congeries for each assembly" "one container, a congeries for each assembly"
ratio "pages: creation order over one congeries per container" "32 containers of one congeries"
ratio "pages: creation order over 4 containers of 8 congeries" "4 containers of 8 congeries, for assemblies"
