#!/bin/bash
# Data in more containers than one process can have open (user/shards/shards.md): by one process that closes and opens, by
# two that have half of the shards each, and over two sites. All ways see the same counters.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

guest() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --cpus 1 --timeout 400 --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}
said() { sed -n "$2p" "$TEST_TMP/$1"; }

guest one --allow names --store "$TEST_TMP/store" \
    'shards add=300 sum; shards servers=2 serve=0 & shards servers=2 serve=1 & shards servers=2 add=300 sum; shards servers=2 where=7; shards servers=3 serve=3; shards servers=17 add=1; shards shards=5000 sum; shards sum'
is "80 containers by one process, 16 at a time" "300 in 300 counters, yes" \
    "$(said one 1 | sed -E 's/, [0-9]{3,} opened here/, yes/')"
is "by calls to two processes, with none open here" 1 "$(grep -c '^600 in 300 counters, 0 opened here' "$TEST_TMP/one")"
is "a key's place is known without asking" 1 "$(grep -c '^shard [0-9]* of 80, server [01]$' "$TEST_TMP/one")"
is "who is none of the servers has no shards" 1 "$(grep -c '^shards: serve=3: ' "$TEST_TMP/one")"
is "more servers or shards than there may be are none" 2 "$(grep -c '^shards: \(add=1\|sum\): ' "$TEST_TMP/one")"
is "and again by one process" 1 "$(grep -c '^600 in 300 counters, 80 opened here' "$TEST_TMP/one")"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"

# keys 0 to 39 in odd ones of four shards, as shards_of says
odd=$(python3 -c 'print(sum(1 for k in range(40) if ((k * 0x9e3779b97f4a7c15 % 2**64 >> 32) * 4 >> 32) % 2))')
# the home stays until the other site, which has still to read there, has gone
guest home --site home --link lease=5000 --store "$TEST_TMP/home.store" --listen "$TEST_TMP/socket" --add build/tests/sites/shared \
    "shards shards=4 add=40; store export shards.1 far write; store export shards.3 far write; shards shards=4 until=$((40 + odd)) sum; shared none lost" &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
guest far --site far --link lease=5000 --store "$TEST_TMP/far.store" --join "$TEST_TMP/socket" \
    "shards shards=4 far=home until=$odd add=40 sum" &
wait
is "with every second shard at another site" "$((40 + odd)) in 40 counters, 4 opened here" "$(tail -1 "$TEST_TMP/far")"
is "whose own shards have the others' calls" "$((40 + odd)) in 40 counters, 4 opened here" "$(tail -1 "$TEST_TMP/home")"
done_testing
