#!/bin/bash
# A home that ends, and comes back much later: a program that has opened something there goes on at another home, waits
# for the one that is away once, and finds it again (user/sites/remote.md).
# Waits: for a home that is not there.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/sites-away
scripts/katydid-cc tests/system/sites-away.c -o "$program" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=2000 --cpus 1 --memory 96 --timeout 400 --add "$program" \
        "${@:1:$#-1}" -c "${!#}" 2>&1 | sed -u 's|\r||g' >"$TEST_TMP/$name"
}
home() { # NAME COMMANDS
    site "$1" --store "$TEST_TMP/$1.store" --listen "$TEST_TMP/$1.socket" "$2"
}

home two 'sites-away box make; store export box far write; sites-away box 1000' &
home one 'sites-away box make; store export box far write; sites-away box 5' &
until [ -S "$TEST_TMP/one.socket" ] && [ -S "$TEST_TMP/two.socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/one.socket" --join "$TEST_TMP/two.socket" 'sites-away one:box two:box' & far=$!
until grep -q 'done at the other' "$TEST_TMP/far" 2>/dev/null || ! kill -0 $far; do sleep 0.1; done
home one 'sites-away box 1000' &
wait
sed 's/^/# /' "$TEST_TMP/far"
# the other home may stand still for a lease, too: few are undone by that
ok "a program waits once for a home that is away, and goes on at another one" \
    grep -qE '(9[0-9]|100) done at the other home, [0-9] were told, 100 refused, 0 other' "$TEST_TMP/far"
ok "it is found when it is there again" grep -q 'found again' "$TEST_TMP/far"
for name in one two; do
    ok "the store of $name is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/$name.store"
done
done_testing
