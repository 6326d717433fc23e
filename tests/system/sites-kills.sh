#!/bin/bash
# What a machine has acknowledged of another one's container is there, whichever program of the two is
# killed, and one of the machines at the end; and whoever is left can use the pages that the dead had
# (user/sites/remote.md).
# Waits: for leases.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=${LEASE:-1000} --cpus 1 --timeout 400 --allow processes --add build/tests/sites/shared \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'shared box create=8; store export box far write
     shared box upto=15 kill:agent upto=30 kill:link upto=45 kill:agent upto=60 kill:remote upto=70 kill:agent upto=160 await=9 lost ups=5 moves=20 total' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/socket" --kill-on 'the machine ends now' \
    'shared home:box open ups=80
     shared home:box upto=95 kill:remote upto=110 kill:link upto=125 kill:remote & shared home:box ups=80; wait
     shared home:box open moves=20 total moves=5 phase=9; echo the machine ends now; sleep 100'
wait

lines() { grep -v '^\[\|ends now' "$TEST_TMP/$1"; }
is "all is counted, whatever ends at the home and at the other machine" "counted to 80
counted to 160
8 accounts, 8000" "$(lines far | sed 's/, through deaths//')"
is "the home goes on with pages of a machine that is gone" "counted to 165
8 accounts, 8000" "$(lines home)"
ok "counting went on through deaths" grep -q 'through deaths' "$TEST_TMP/far"
for killed in home:agent home:link home:remote far:link far:remote; do
    ok "killed was ${killed#*:}, ${killed%:*}" grep -q "${killed#*:}\[.*killed: by" "$TEST_TMP/${killed%:*}.log"
done
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
