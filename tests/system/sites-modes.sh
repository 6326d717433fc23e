#!/bin/bash
# One program on a container of another site (user/sites/modes.md): its pages come to it, only its locks do, or all is
# carried out at the home; and who may read there only reads, who dies or is silent keeps nobody.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/modes
scripts/katydid-cc tests/system/modes.c -o "$program" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 400 --add "$program" \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

# A home stays until the others have come to their end, which they say here.
ends="modes ends serve & modes ends local add=0; store export ends far write; store export ends third write; " end="modes home:ends local add=1 >/tmp/end"
site home --store "$TEST_TMP/store" --zone 16 --allow names --listen "$TEST_TMP/socket" --listen "$TEST_TMP/socket2" \
    "modes box serve & modes box local add=0; $ends"'store export box far write; store export box third read; modes box local await=100; modes ends local await=2' &
until [ -S "$TEST_TMP/socket2" ]; do sleep 0.05; done
does="add=3 enter=2 undone=2 do=2 sum calls"
site far --no-store --join "$TEST_TMP/socket" "modes home:box local $does; modes home:box mix $does; modes home:box server $does
    modes home:box mix add=10 enter=10 & modes home:box server add=10 enter=10 & modes home:box local add=10 enter=10 await=81
    modes home:box server fail=110 hold=4000 & modes home:box local after=500; modes home:box server die
    modes home:box mix after=0; modes home:box local sum; modes home:box server await=83 add=17; $end" &
site third --no-store --join "$TEST_TMP/socket2" "modes home:box server read await=83 fail=30 add=1; $end" &
wait

# the calls are counted where no function had to be run again
again='' found=$(cat "$TEST_TMP/far")
! grep -q ' calls again$' <<<"$found" || again='s/^[0-9]+ calls.*/calls/'
is "one program, by pages that come, by locks that come, and all at the home; all at once; one silent, one dead" \
    "$(sed -E "$again" <<<"7, 4 entries, 4
0 calls
14, 8 entries, 8
17 calls
21, 12 entries, 12
65 calls
held
dies
83, 42 entries, 42")" "$(sed -E "$again" <<<"$found")"
is "a site that may only read has what is committed shown, and stores nothing" "" "$(cat "$TEST_TMP/third")"
is "the home's program has the same container" "" "$(cat "$TEST_TMP/home")"
rm -f "$TEST_TMP/socket" "$TEST_TMP/store"

# updates: what the home changes five times, and a site reads each time
site home --store "$TEST_TMP/store" --zone 16 --allow names --listen "$TEST_TMP/socket" \
    "modes box serve & modes box local add=0; $ends"'store export box far write; modes box local await=1 slow=5 await=7 slow=5 await=13; modes ends local await=1' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/socket" "modes home:box local add=1 told await=6 told
    modes home:box local updates sum told add=1 told await=12 told add=1 sum told; $end" &
wait
said() { sed -n "$1p" "$TEST_TMP/far"; }
counted() { sed -nE "s/.*\b([0-9]+) $2\b.*/\1/p" <<<"$(said "$1")"; }
unread=$(($(counted 2 GONE) - $(counted 2 GET))) # the last that was called back, if nobody has read there since
ok "ownership: a page that is called back is asked for when it is read" test "$unread" = 0 -o "$unread" = 1
ok "... each time that it has changed ($(counted 2 seen))" test "$(counted 2 GET)" -ge "$(counted 2 seen)" -a "$(counted 2 GET)" -ge 1
is "updates: it comes without being asked for" "0" "$(counted 6 GET)"
ok "... as often ($(counted 6 seen))" test "$(counted 6 GRANT)" -ge "$(counted 6 seen)" -a "$(counted 6 GRANT)" -ge 1
is "both saw what was stored" "6, 0 entries, 0 13, 0 entries, 0" "$(said 3) $(said 7)"
echo "# $(said 2)"
echo "# $(said 6)"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
