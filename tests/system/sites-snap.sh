#!/bin/bash
# Snapshots of another site's container (user/sites/remote.md): one sees the home's state of when it began,
# in what is cached here and in what is not, whatever is committed there or here meanwhile; messages are
# counted; it ends at the home when nobody sees its point any more.
# Waits: for snapshots to grow old.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 400 --allow processes --add build/tests/sites/snapshots \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}

site home --store "$TEST_TMP/store" --listen "$TEST_TMP/socket" \
    'snapshots box create=8; store export box far write; snapshots box await=1 store=2000 phase=2 await=3 store=1000 phase=4 moves=400 await=5 looks=1 until=6 later=7 await=9 kill:agent await=10' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --store "$TEST_TMP/own" --join "$TEST_TMP/socket" \
    'snapshots home:box open await=0 counts begin counts phase=1 await=2 see counts see share end again see end counts drop none=2000; snapshots home:box read counts begin share store=3000 see end again see end drop none=2000 counts store=1000 phase=3 await=4 looks=20 both=40; snapshots home:box local read begin see end looks=20 both=40 phase=5 later=6 until=7 later=8 until=8; containers home:; ls -l home: home:box; top 1 10; snapshots home:box begin see phase=9 dies; snapshots home:box begin see end phase=10'
wait

said() { sed -n "$2p" "$TEST_TMP/$1"; }
is "before there is a snapshot, nothing was said for one" "0 SNAP, 0 GET_OLD, 0 OLD, 0 there" "$(said far 1)"
is "its begin is one round trip" "1 SNAP, 0 GET_OLD, 0 OLD, 1 there" "$(said far 2)"
is "it sees the home as it was then, though the home has changed all pages" "8 pages of 1000 to 1000" "$(said far 3)"
is "each page that is not cached is a round trip" "0 SNAP, 9 GET_OLD, 9 OLD, 1 there" "$(said far 4)"
is "it sees them again" "8 pages of 1000 to 1000" "$(said far 5)"
is "as does another one at its point, when it has ended" "8 pages of 1000 to 1000" "$(said far 6)"
is "without a message" "0 SNAP, 0 GET_OLD, 0 OLD, 1 there" "$(said far 7)"
is "another program begins with what is cached, and this was said before" "1 SNAP, 9 GET_OLD, 9 OLD, 0 there" "$(said far 8)"
is "what is cached it sees as it was, though this site has changed it" "8 pages of 2000 to 2000" "$(said far 9)"
is "also behind its end" "8 pages of 2000 to 2000" "$(said far 10)"
is "for that it says nothing to the home; and it is over when nobody sees it" "1 SNAP, 0 GET_OLD, 0 OLD, 0 there" "$(said far 11)"
is "beside transfers of the home each snapshot has the sum that there was" "20 looks, 0 anew" "$(said far 12)"
is "and beside those of its own program" "40 looks, 0 anew" "$(said far 13)"
is "a program that uses its own store, too, has one" "8 pages of N to N" "$(said far 14 | sed -E 's/(of|to) -?[0-9]+/\1 N/g')"
is "and each sum, perhaps at the second try" "20 looks, N anew" "$(said far 15 | sed 's/, [0-9]*/, N/')"
is "also beside its transfers" "40 looks, N anew" "$(said far 16 | sed 's/, [0-9]*/, N/')"
# the programs go on: who sleeps was woken by the other machine's commit, and by one of its own
is "the home has the sum, too; and nothing else was said" "1 looks, 0 anew 19" "$(head -1 "$TEST_TMP/home") $(sed '/^up /,$d' "$TEST_TMP/far" | wc -l)"
is "the container is listed, at the site that may open it" "box  (struct root, version 1)" "$(said far 17 | sed 's/.*0x[0-9a-f]*  //')"
is "and so is the directory that was exported to it" "box" "$(said far 18 | sed 's/.* //')"
is "and an entry of it" "home:box" "$(said far 19 | sed 's/.* //')"
is "top says what is cached of the home" "site home: 0 pages, 0 to write, 0 waited for; 0 GET, 0 called, 0 gone, 0 commits" \
    "$(grep '^site ' "$TEST_TMP/far")"
ended() { sed -n '/^up /,$p' "$TEST_TMP/far" | grep -E 'pages of|snapshot' | sed -E 's/(of|to) -?[0-9]+/\1 N/g; s/ended:.*/ended/'; }
is "it ends when the home's agent dies, and the next one is of the next session" \
    "8 pages of N to N;the snapshot has ended;8 pages of N to N" "$(ended | paste -sd ';')"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
