#!/bin/bash
# Six programs of one machine, and two at the home that never pause, transfer between the same accounts:
# all six get to their end (user/sites/remote.md: Deadlocks).
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
MOVES=${MOVES:-6}

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 240 --add build/tests/sites/shared \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'shared box create=8; store export box far write; shared box await=1
     shared box seed=11 busy=2 & shared box seed=12 busy=2; wait; shared box sum' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/socket" \
    "shared home:box open phase=1; $(for i in 1 2 3 4 5 6; do echo "shared home:box seed=$i moves=$MOVES sum &"; done) wait; shared home:box phase=2"
wait

is "all programs of the other machine end" "6" "$(grep -o '8 accounts, 8000' "$TEST_TMP/far" | wc -l)" # lines may run into each other
is "and no transfer is lost" "8 accounts, 8000" "$(tail -1 "$TEST_TMP/home")"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
