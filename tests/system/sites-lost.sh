#!/bin/bash
# A machine that is gone has pages of a container still, as far as its home can know: nobody stores to
# them there before its lease is over, though agent, link or store of the home end meanwhile
# (user/sites/sites.md).
# Waits: for leases.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=2000 --cpus 1 --timeout 400 --allow processes --add build/tests/sites/shared \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | sed -u 's|\r||g' >"$TEST_TMP/$name"
}
lines() { grep -c 'counted' "$TEST_TMP/home"; }

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'shared box create=2; store export box far write
     shared box upto=3 phase=1 lost takes=3000 upto=7 phase=2 lost kill:agent takes=3000
     shared box upto=11 phase=3 lost kill:link takes=3000; shared box upto=15 phase=4 lost kill:store takes=3000' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
for round in 1 2 3 4; do
    site far --no-store --join "$TEST_TMP/socket" --kill-on 'the machine ends now' \
        "shared home:box open ups=3 await=$round stay"
    for _ in {1..8000}; do [ "$(lines)" -ge $round ] && break; sleep 0.05; done
done
wait

is "a lost machine's pages are left alone for two leases; also without its agent, without link, without the store" \
    "counted to 4
counted to 8
counted to 12
counted to 16" "$(grep -v '^\[\|^init: \|^remote: ' "$TEST_TMP/home" | sed 's/, through deaths//')"
for killed in agent link store; do
    ok "$killed was killed" grep -q "$killed\[.*killed: by" "$TEST_TMP/home.log"
done
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
