#!/bin/bash
# The objects of a container get another layout while a program that was built for the old one goes on
# (user/sites/spare.md): the spare converts them and what its home commits meanwhile, a person has it take
# over, and a program that was built for the new layout opens the container there. The lease is longer than a host stands
# still for, so that the copy that takes over is the one that is asked to; the machine that counts ends when the other one
# has come to its end, which a container says.
# Waits: for leases.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
store=$TEST_TMP/store common="--cpus 1 --memory 128 --add build/tests/sites/layouts --link lease=4000"
counts=through=200
[ "${TEST_TIER:-test}" != long ] || counts=ups=1200

build/host/kstore create --quiet --size 64M "$store.a" && cp "$store.a" "$store.b"
scripts/sites --verbose --timeout 400 - >"$TEST_TMP/out" 2>&1 <<PLAN
site c --no-store $common : layouts a:box old open $counts pause=40000 check && layouts a:end old open
server a --store $store.a --log $store.a.log $common : layouts box old make=24001; store export box c write; sleep 1000
server b --store $store.b --log $store.b.log $common : layouts box old spare; sleep 3; store recast box none; store recast box box.new; sleep 1; layouts box old ready; store status; store take-over; store status; layouts box old fail=71 try; layouts box new open check; store status --wait >/tmp/o; layouts end old make=1; store export end c write; sleep 1000
server w --store $store.w --store-size 64M --zone 7 $common : sleep 1000
link a b
link a w
link b w
link a c
link b c
pair a b w
PLAN
is "all guests end as they should" 0 "$?"
said() { sed -n "s/^$1: //p" "$TEST_TMP/out"; }
is "what has no description is refused" 1 "$(said b | grep -c '^store recast: ')"
is "before the take-over all pages are made" 1 "$(said b | grep -c '^layout  *box: .*; ready')"
is "then they are put in" 1 "$(said b | grep -c '^layout  *box: .*; put in')"
is "a program of the old layout does not open it there" 0 "$(said b | grep -c '^box: try')"
is "one of the new layout finds all, in its own" "24001 accounts, new" "$(said b | sed -n 's/\(accounts, new\),.*/\1/p')"
counted=$(said c | sed -n 's/^counted to \([0-9]*\) .*/\1/p')
is "the program of the old layout goes on, and finds all that it counted" "24001 accounts, old, $counted of $counted counted" \
    "$(said c | grep accounts)"
ok "the former home is the spare, and follows" [ "$(sed -n 's/.* store: \(spare\|home\|out\), term .*/\1/p' "$store.a.log" | tail -1)" = spare ]
ok "the copy that is home is sound" build/host/kstore check --strict --quiet "$store.b"
ok "also the one that the former home has become" build/host/kstore check --strict --quiet "$store.a"
said b | sed -n '/^layout/,/took/s/^/# /p'
said b | sed -n 's/^lag  /# lag /p'
said c | sed -n '/counted to\|pause/s/^/# /p'
done_testing
