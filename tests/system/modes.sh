#!/bin/bash
# Functions and operations at the client or at a server of the same machine (user/sites/modes.md): one program in each
# configuration, all of them at once, a client that lies, one that is silent, one that dies.
# Waits: for a client that is silent.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/modes
scripts/katydid-cc tests/system/modes.c -o "$program" || exit 1

guest() {
    rm -f "$TEST_TMP/store"
    output=$(scripts/run --timeout 100 --store "$TEST_TMP/store" --store-size 64M --add "$program" --allow names -c "$1" 2>&1)
    output=${output//$'\r'/}
}
is_output() { # the calls are counted where no function had to be run again
    local again=''
    ! grep -q ' calls again$' <<<"$output" || again='s/^[0-9]+ calls.*/calls/'
    is "$1" "$(sed -E "$again" <<<"$2")" "$(sed -E "$again" <<<"$output")"
}
rules="read and lock have one place: a load takes its lock
commit, abort and allocate have one place: they end together
who commits has lock and log: it commits what it has stored"
log=read=client-lock=client-log=server-commit=server-abort=server-allocate=server
batch=read=server-lock=server-log=client-commit=server-abort=server-allocate=server
does="add=3 enter=2 undone=2 do=2 sum"

guest "modes box serve & modes box local $does calls wrong; modes box mix $does calls wrong; modes box $log $does calls
    modes box $batch $does calls; modes box server $does calls wrong"
is_output "one program has the same results in five configurations, by fewer questions the more it does itself" \
    "7, 4 entries, 4
0 calls
$rules
14, 8 entries, 8
17 calls
$rules
21, 12 entries, 12
28 calls
28, 16 entries, 16
58 calls
35, 20 entries, 20
73 calls
$rules"

all=
for where in local mix $log $batch server; do all+="modes box $where add=10 enter=10 & "; done
guest "modes box serve & $all modes box server do=20; modes box local await=120; modes box mix sum; modes box server sum"
is_output "all of them at once: nothing is lost, nothing is done twice" "120, 70 entries, 70
120, 70 entries, 70"

guest "modes box serve & modes box server noise=2000 add=1 read sum fail=30 add=1; modes box server fail=110 hold=4000 &
    modes box local after=1000; modes box server die; modes box mix after=0; modes box mix die; modes box server sum"
is_output "a client that lies, may only read, is silent with a lock, or dies with one" "1, 0 entries, 0
held
dies
dies
3, 0 entries, 0"
# 1: EPERM, 30: EROFS
guest "modes box serve & modes box server do=2 sum; run --via box modes box server do=3 fail=1 sum fail=1 add=1
    run --via box:r modes box server read fail=30 do=1; run --via box sh -c 'modes box server do=1'
    run --via box:rwg sh -c 'modes box server do=1'; run --via nobody ls; modes box server sum"
is_output "a confined program has operations, with the rights that it is given, and no container" "2, 2 entries, 2
sh: modes: what this shell has of the store it may not pass on (who started it gives it \`grant\`)
sh: run: nobody serves that container: its server is to be started first
6, 6 entries, 6"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
