#!/bin/bash
# Group udatabase: uDatabase's Tables 1 and 2, and its B-tree with layered and integrated storage. Each row of Table 1 is a boot of its own, so that both ways begin cold: first the LRU buffer
# manager on a raw disk, then the mapped container, with as many pages in memory as that had in its frames (its policy
# PS_MEMORY), and two for the root and the page that is just coming. UDATABASE=FOLDER keeps what was built.
# PARTS="layers calls loaded queries": some of the four; calls are those of the representative, the loaded machine is Table 2.
set -eu
cd "$(dirname "$0")/../.."
if [ -n "${UDATABASE-}" ]; then
    scratch=$UDATABASE
    mkdir -p "$scratch"
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
PARTS=${PARTS:-layers calls loaded queries}

# Storage in layers against storage written into the tree: creation, then each query file in a machine that was just
# booted, with 10 % of the tree's pages in memory. The sums over what was read must be the same.
layers() {
    local kind number
    machine() { scripts/run --cpus 1 --icount --timeout 300 --store "$scratch/layers" "$@" | tr -d '\r'; }
    for kind in layered integrated; do
        machine --store-size 256M --memory 512 --append "store.extent_kib=8 store.scrub_kib=0" -c "udatabase layers $kind build"
        for number in 0 1 2 3 4; do
            machine --append "store.scrub_kib=0" -c "udatabase layers $kind $number"
        done
    done
}
# The rows of both, then the ratios, those of creation and of all queries together within the paper's 2 %.
layers_rows() {
    awk -F '\t' '{ print } { split($1, name, ": "); value[name[1], name[2]] = $3 }
        name[1] == "layered tree" { rows[++count] = name[2] }
        function ratio(what, a, b, reach) { printf "layered over integrated: %s\tratio\t%.3f\t%s\n", what, a / b, reach }
        END {
            for (i = 1; i <= count; i++) {
                what = rows[i]; a = value["layered tree", what]; b = value["integrated tree", what]
                if (what ~ /, sum$/ && a != b) { print "# the answers differ: " what; bad = 1 }
                if (what !~ /, sum$/) ratio(what, a, b, what ~ /^creation/ ? 1.02 : "-")
                if (what ~ /, CPU$/) { cpu[1] += a; cpu[2] += b }
                if (what ~ /, read$/) { read[1] += a; read[2] += b }
            }
            ratio("all queries, CPU", cpu[1], cpu[2], 1.02)
            ratio("all queries, read", read[1], read[2], 1.02)
            exit bad || !count
        }' "$1"
}
if [[ $PARTS = *layers* ]]; then
    layers >"$scratch/layers.rows"
    layers_rows "$scratch/layers.rows"
    rm -f "$scratch/layers"
fi
SLOW=
if [[ $PARTS = *calls* ]]; then
    scripts/run --cpus 1 --icount --timeout 60 --allow names -c bench-representative | tr -d '\r'
fi
[[ $PARTS = *queries* || $PARTS = *loaded* ]] || exit 0
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
        options+=" -drive file=$scratch/$name$([ $name = raw ] || echo "$kib"),format=raw,if=none,id=$name$SLOW"
        options+=" -device virtio-blk-pci,drive=$name,serial=$name,disable-legacy=on"
    done
    scripts/run --cpus 1 --timeout 600 --no-store --allow disks --qemu "$options" "$@"
}
if [ ! -e "$scratch/sizes" ]; then
    truncate -s 200M "$scratch/raw"
    truncate -s 1G "$scratch/store4" "$scratch/store8"
    touch "$scratch/sizes"
fi
for kind in "${kinds[@]}"; do
    [[ $PARTS = *queries* || $kind = tree ]] && ! grep -q "^$kind:" "$scratch/sizes" || continue
    guest "$kind" --memory 512 --append "store.extent_kib=$(extent "$kind")" -c "udatabase build $kind" |
        tr -d '\r' >"$scratch/new"
    cat "$scratch/new" >>"$scratch/sizes"
done
cat "$scratch/sizes"

# Table 2: mapped and buffered at once, each on a disk of 1,000 requests a second, among 20 programs that are busy; mapped
# pages may fill all memory. TRIALS boots of each row, and the paper's figures beside the means.
loaded() {
    local units number trial
    units=$(sed -n 's/^tree: \([0-9]*\) units.*/\1/p' "$scratch/sizes")
    SLOW=,throttling.iops-total=1000
    for number in 0 1 2 3 4; do
        for ((trial = 0; trial < ${TRIALS:-5}; trial++)); do
            guest tree --icount --append "store.scrub_kib=0 crc=instruction" -c "udatabase loaded $number $((units / 10))" | tr -d '\r'
        done
    done
    SLOW=
}
loaded_rows() {
    awk -F '\t' -v paper="1x10000 21.6 60 35.7 53 10x1000 21.8 56 36.8 58 100x100 25.24 143 38.68 150 \
                            10000x1 277 6677 263.3 8746 normal 134.5 2063 217 6638" '
        NF < 4 { print; next }
        { if (!($1 in sum)) names[++rows] = $1; sum[$1] += $3; count[$1]++; unit[$1] = $2 }
        function mean(name) { return sum[name] / count[name] }
        function ratio(query, what, theirs) {
            printf "loaded, %s, mapped over buffered, %s (paper %.2f)\tratio\t%.3g\t-\n", query, what, theirs,
                mean("loaded, " query ", mapped, " what) / mean("loaded, " query ", buffered, " what)
        }
        END {
            for (i = 1; i <= rows; i++) printf "%s, mean of %d\t%s\t%.5g\t-\n", names[i], count[names[i]], unit[names[i]], mean(names[i])
            n = split(paper, p, " ")
            for (i = 1; i < n; i += 5) {
                ratio(p[i], "elapsed", p[i + 1] / p[i + 3])
                ratio(p[i], "read", p[i + 2] / p[i + 4])
            }
            exit !rows
        }' "$1"
}
if [[ $PARTS = *loaded* ]]; then
    loaded >"$scratch/loaded.rows"
    loaded_rows "$scratch/loaded.rows"
fi
[[ $PARTS = *queries* ]] || exit 0
for percent in 100 10 5; do
    for number in ${ROWS:-0 1 2 3 4 5 6 7 8 9}; do
        kind=${kinds[${rows[$number]}]}
        units=$(sed -n "s/^$kind: \([0-9]*\) units of .*/\1/p" "$scratch/sizes")
        frames=$((units * percent / 100))
        guest "$kind" --icount --append "store.scrub_kib=0 crc=instruction" \
            -c "udatabase run $number $frames $percent" | tr -d '\r'
    done
done
