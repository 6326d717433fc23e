#!/bin/bash
# Group store: what commits, checkpoints, recovery and the start of the store manager cost. Instructions
# are counted by -icount, flushes and virtual times by host programs; only `recovery` is a time of this
# machine, as the guest measured it.
set -eu
cd "$(dirname "$0")/../.."
make -s build/tests/disk/test_reach build/tests/disk/test_manager_time
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
    cycles=$(sed -n "s/.*16 KiB:.*$kind \([0-9]*\).*/\1/p" "$scratch/boots" | sort -n | head -n 1)
    printf 'CRC of a page, TCG, by %s\tus\t%s\t%s\n' "$kind" \
        "$(awk -v c="$cycles" -v k="$khz" 'BEGIN { printf "%.1f", c / 4 * 1000 / k }')" \
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

# start NAME WORD: computing (us) and requests (requests) of a manager that opens the store, of which it
# says this word.
start() {
    guest --icount --cpus 1 --store "$scratch/$1"
    grep -q "store: $2" "$log"
    read -r us requests < <(sed -n \
        's/.*started with \([0-9]*\) us of computing, \([0-9]*\) reads, \([0-9]*\) writes.*/\1 \2 \3/p' \
        "$log" | awk '{ print $1, $2 + $3 }')
}
# times NAME A B REACH
times() {
    printf 'start of the manager, %s\ttimes\t%s\t%s\n' "$1" \
        "$(awk -v a="$2" -v b="$3" 'BEGIN { printf "%.2f", a / b }')" "$4"
}

# A store that was not closed has its log searched for the end; the boot that does so closes it.
for mib in 16 16384; do
    build/host/kstore create --size "$mib" --force "$scratch/$mib" >/dev/null
    scripts/run --store "$scratch/$mib" --kill-on open -c 'store >/tmp/said; echo open; sleep 30' >/dev/null
    start "$mib" 'nothing to recover'
    searched=$requests
    start "$mib" clean
    small_us=${small_us-$us} small_requests=${small_requests-$requests}
done
times 'closed store, 16 GiB against 16 MiB: requests' "$requests" "$small_requests" 1.1
times 'closed store, 16 GiB against 16 MiB: instructions' "$us" "$small_us" 1.1
times 'log of 32 MiB that was not closed: requests, of a closed store' "$searched" "$requests" -
