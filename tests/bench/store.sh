#!/bin/bash
# Group store: what commits, checkpoints, recovery and the start of the store manager cost. Instructions
# are counted by -icount, flushes and virtual times by host programs; only `recovery` is a time of this
# machine, as the guest measured it.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

# guest OPTIONS...: runs `true`, its log in $log.
guest() { scripts/run --timeout 120 --log "$log" "$@" -c true >/dev/null; }
value() { sed -n "s/.*$1.*/\1/p" "$log" | head -n 1; }

scripts/run --icount --cpus 1 --timeout 120 -c bench | grep '^commit of one'
build/tests/disk/test_reach --bench
build/tests/disk/test_manager_time --bench | grep -v '^#'
scripts/run --timeout 120 -c 'bench checkpoint'

# The least of five boots: the kernel measures once, and a busy host can disturb that.
for _ in 1 2 3 4 5; do
    guest --cpus 1
    cat "$log" >>"$scratch/boots"
done
khz=$(value 'counter \([0-9]*\) kHz')
variant=$(value 'crc32c: by \([a-z]*\)')
for kind in instruction sums; do
    cycles=$(sed -n "s/.*8 KiB:.*$kind \([0-9]*\).*/\1/p" "$scratch/boots" | sort -n | head -n 1)
    printf 'CRC of a page, TCG, by %s\tus\t%s\t%s\n' "$kind" \
        "$(awk -v c="$cycles" -v k="$khz" 'BEGIN { printf "%.1f", c / 2 * 1000 / k }')" \
        "$([ "$kind" = "$variant" ] && echo 5 || echo -)"
done

# An image is recovered by the guest from its log; the time is the manager's.
recover() { # NAME KIND N
    build/tests/disk/test_reach --image "$scratch/store" "$2" "$3"
    guest --memory 512 --store "$scratch/store"
    printf '%s\tms\t%s\t2000\n' "$1" "$(value 'store: recovered .* in \([0-9]*\) ms')"
    rm "$scratch/store"
}
recover 'recovery of 256 MiB of log, TCG' log 256
recover 'recovery of 100,000 records of 44 bytes, TCG' records 100000

# start MIB: computing and requests of a manager that opens a closed store of this size.
start() {
    build/host/kstore create --size "$1" --log 2048 --force "$scratch/$1" >/dev/null
    guest --icount --cpus 1 --append store.crc=table --store "$scratch/$1"
    read -r us requests < <(sed -n \
        's/.*started with \([0-9]*\) us of computing, \([0-9]*\) reads, \([0-9]*\) writes.*/\1 \2 \3/p' \
        "$log" | awk '{ print $1, $2 + $3 }')
}
start 16
small_us=$us small_requests=$requests
start 16384
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
printf 'start of the manager, 16 GiB against 16 MiB: requests\ttimes\t%s\t1.1\n' \
    "$(ratio "$requests" "$small_requests")"
printf 'start of the manager, 16 GiB against 16 MiB: instructions\ttimes\t%s\t1.1\n' \
    "$(ratio "$us" "$small_us")"
