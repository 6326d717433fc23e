#!/bin/bash
# Snapshots of several homes (user/sites/remote.md): three machines, each the home of a container, one of them moves money between all
# three, and each look at all accounts has the sum that there is; of two commits at two homes, one after the other, none
# sees the second alone; who sleeps until one of two homes changes. One of these three a day, but in the long tier.
# Waits: for homes that rest between holds, and for a program that writes ten times a second.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
common="--cpus 1 --memory 96 --link lease=20000 --allow processes --add build/tests/sites/circle --add build/tests/sites/shared"
times=1
[ "${TEST_TIER:-test}" != long ] || times=10

home() { # NAME OTHER OTHER COMMANDS: its store is $TEST_TMP/NAME
    echo "server $1 $common --store $TEST_TMP/$1 : circle box : create; store export box $2 write; store export box $3 write; $4"
}
run() { # NAME
    scripts/sites --timeout 400 "$TEST_TMP/plan" >"$TEST_TMP/said" 2>&1
}
counted() { grep -c "^$1: $2" "$TEST_TMP/said"; }
some_given() { # a busy host makes looks that had no part at the homes, perhaps more than others; they are right all the same
    local given
    given=$(sed -n 's/^c: .* \([0-9]*\) given/\1/p' "$TEST_TMP/said" | sort -n | tail -1)
    ok "looks have had a part at each home (${given:-0})" test "${given:-0}" -gt 0
}
explain() { sed 's/^/# /' "$TEST_TMP/said" | tail -30; }

moves=$((20 * times)) looks=$((8 * times)) looked="shared c:end open ups=1"    # of two: the third machine ends when both have
if today 0 3; then
    {   home a b c "circle box b:box c:box : open until=$moves counts; $looked; sleep 1000"
        home b a c "circle box a:box c:box : open until=$moves counts; $looked; sleep 1000"
        echo "site c $common --store $TEST_TMP/c : circle box : create; shared end create=1; store export box a write; store export box b write; store export end a write; store export end b write; circle box a:box b:box : open moves=$moves looks=20 counts; shared end upto=2"
        printf 'link a b\nlink a c\nlink b c\n'
    } >"$TEST_TMP/plan"
    run
    is "beside transfers of one machine each look of the two others has the sum" 2 "$(grep -c '^[ab]: .* looks' "$TEST_TMP/said")"
    is "and the transfers went on" 1 "$(counted c "$moves moves")"
    some_given
    explain
    for store in a b c; do
        ok "store $store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/$store"
    done
fi

rm -f "$TEST_TMP"/[abc]
if today 1 3; then
    # homes that never stand still by themselves: they are to hold; and two commits at two homes, in order, by one machine
    {   home a b c "circle box : moves=1000000 & sleep 1000"
        home b a c "circle box : moves=1000000 & sleep 1000"
        echo "site c $common --store $TEST_TMP/c : circle a:box b:box : open chains=$looks & circle a:box b:box : open order=$looks counts; wait"
        printf 'link a b\nlink a c\nlink b c\n'
    } >"$TEST_TMP/plan"
    run
    is "homes that commit all the time: of two commits, one behind the other, none is seen without the first" 1 "$(counted c "$looks looks in order")"
    is "and the commits go on" 1 "$(counted c "$looks chains")"
    some_given
    rounds=$(sed -n 's/^c: .* \([1-9][0-9]*\) rounds.*/\1/p' "$TEST_TMP/said" | head -1)
    ok "homes were asked more than once for a look (${rounds:-0} rounds)" test "${rounds:-0}" -gt "$looks"
    explain
fi

rm -f "$TEST_TMP"/[abc]
if today 2 3; then
    # who sleeps until pages of two homes change wakes by either
    {   home a b c "sleep 1000"
        home b a c "sleep 1000"
        echo "site c $common --store $TEST_TMP/c : circle a:box b:box : open; circle a:box b:box : sleep & circle a:box : drips=30 & wait; circle a:box b:box : sleep & circle b:box : drips=30 & wait"
        printf 'link a c\nlink b c\n'
    } >"$TEST_TMP/plan"
    run
    is "who sleeps until one of two homes changes is woken by it, in either order" 2 "$(counted c woken)"
    explain
fi

done_testing
