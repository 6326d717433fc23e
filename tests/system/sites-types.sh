#!/bin/bash
# A site whose data look otherwise than the home's (user/sites/types.md): pages are converted when they
# are granted and when they are committed, into the other byte order and into an older layout. What only one
# side describes is refused by its name.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/sites-types
scripts/katydid-cc tests/system/sites-types.c -o "$program" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 400 --add "$program" \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'sites-types box home make=2; store export box far write; sites-types box home await=1 list raise=1000 phase=2 await=3 list await=4' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
many=$(printf 'fail=91 add=1 %.0s' {1..40})
site far --no-store --join "$TEST_TMP/socket" \
    "sites-types home:box part refused; sites-types home:box big open list raise=-7 add=1 name=9 again list fail=16 as=plain as=big phase=1; sites-types home:box big await=2 list; sites-types home:box old open list raise=5 name=8 list $many list phase=3; sites-types home:box plain open list phase=4" &
wait

said() { sed -n "$2p" "$TEST_TMP/$1"; }
is "a type that one side does not describe is named" "refused: struct phase" "$(said far 1)"
is "the other byte order: read" "owner 2: 200, owner 1: 100" "$(said far 2)"
is "stored to, allocated, freed and allocated again where the same bytes still lie" "called 9: 300, owner 2: 193, owner 1: 93" "$(said far 3)"
is "the home has it in its own" "called 9: 300, owner 2: 193, owner 1: 93" "$(said home 1)"
is "what the home stores then comes converted" "called 9: 1300, owner 2: 1193, owner 1: 1093" "$(said far 4)"
is "an older layout: read" "called 9: 1300, owner 2: 1193, owner 1: 1093" "$(said far 5)"
is "stored to" "called 8: 1305, owner 2: 1198, owner 1: 1098" "$(said far 6)"
is "an object that is too small for the home's is refused, and undone" "called 8: 1305, owner 2: 1198, owner 1: 1098" "$(said far 7)"
is "the home has the older layout's stores in its own" "called 8: 1305, owner 2: 1198, owner 1: 1098" "$(said home 2)"
is "without a description all is as at the home" "called 8: 1305, owner 2: 1198, owner 1: 1098" "$(said far 8)"
is "nothing else was said" "8 2" "$(wc -l <"$TEST_TMP/far") $(wc -l <"$TEST_TMP/home")"
is "the home said of which type it could not convert an object, and had enough after 32 of 40 times" 32 \
    "$(grep -c "cannot be converted, type [0-9a-f]*: " "$TEST_TMP/home.log")"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
