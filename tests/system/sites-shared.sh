#!/bin/bash
# A program of one machine uses a container whose home is another one (user/sites/remote.md): it reads
# through pointers, commits at the home's store, undoes; each machine's programs see what the other's
# have committed; pages are called back in both directions; deadlocks of both are found. Messages are
# counted: what is cached costs none.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 400 --add build/tests/sites/shared \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'shared box create=8; store export box far write; shared box await=1 sum abort phase=2 await=3 sum seed=5 busy=4 await=5 sum; store export box far read' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/socket" \
    'shared home:box open sum counts sum counts abort sum counts seed=9 moves=10 counts phase=1 await=2 sum phase=3 deadlocks=3 phase=4 sum snapshot; shared home:nobody fail=2 sum; shared hoem:box fail=6 sum; shared home:box phase=5'
wait

said() { sed -n "$2p" "$TEST_TMP/$1"; }
is "another machine's program follows the pointers" "8 accounts, 8000" "$(said far 1)"
is "each page that it reads is one round trip" "9 GET, 9 GRANT, 0 CALL, 0 GONE, 0 COMMIT, 0 answer" "$(said far 2)"
is "it reads them again" "8 accounts, 8000" "$(said far 3)"
is "and says nothing to the home for that" "0 GET, 0 GRANT, 0 CALL, 0 GONE, 0 COMMIT, 0 answer" "$(said far 4)"
is "what it undoes is as before" "8 accounts, 8000" "$(said far 5)"
is "each page that it stores to is one round trip more" "8 GET, 8 GRANT, 0 CALL, 0 GONE, 0 COMMIT, 0 answer" "$(said far 6)"
is "commits of pages that it has are one round trip each" "0 GET, 0 GRANT, 0 CALL, 0 GONE, 10 COMMIT, 10 answer" "$(said far 7)"
is "the home sees what was committed" "8 accounts, 8000" "$(said home 1)"
is "the other machine, what the home has undone" "8 accounts, 8000" "$(said far 8)"
is "the home, behind the next phase" "8 accounts, 8000" "$(said home 2)"
is "transfers of both, deadlocks included, keep the sum" "8 accounts, 8000" "$(said far 9)"
is "at the home, too" "8 accounts, 8000" "$(said home 3)"
is "a snapshot sees what is cached, or begins again" "8 accounts, 8000" "$(said far 10)"
# shellcheck disable=SC2016 # the message has the quotes
is "a container is exported once" 'store export: box: far has something of that name already: `cap drop exports/far/box` takes it back' \
    "$(said home 4)"
is "what is not exported is not there, nor is a site that nobody knows; and nothing else was said" "10 4" "$(wc -l <"$TEST_TMP/far") $(wc -l <"$TEST_TMP/home")"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
