#!/bin/bash
# Cricket's open points of a distributed store, counted (user/sites/remote.md): where indexes lie, where pages are buffered,
# what runs where, how much of a commit the client does, a back end without a pager. And the program of the chapter on sites
# (user/sites/sites.md), as it stands there, counts at the home and at the other machine.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/sites-split
scripts/katydid-cc tests/system/sites-split.c -o "$program" || exit 1
sed -n '/^```c$/,/^```$/p' user/sites/sites.md | grep -v '^```' >"$TEST_TMP/count.c"
ok "the chapter's program compiles" scripts/katydid-cc -Werror "$TEST_TMP/count.c" -o "$TEST_TMP/count"

site() { # NAME OPTIONS ... COMMANDS: what it prints in $TEST_TMP/NAME
    local name=$1
    shift
    scripts/run --site "$name" --link lease=20000 --cpus 1 --timeout 400 --add "$program" --add "$TEST_TMP/count" \
        --log "$TEST_TMP/$name.log" "${@:1:$#-1}" -c "${!#}" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}
said() { sed -n "$1p" "$TEST_TMP/far"; }

site home --store "$TEST_TMP/store" --zone 16 --listen "$TEST_TMP/socket" \
    'count pad; store export pad far write; sites-split box make=20000; store export box far write; sites-split box await=99' &
until [ -S "$TEST_TMP/socket" ]; do sleep 0.05; done
site far --no-store --join "$TEST_TMP/socket" 'sites-split home:box count; count home:pad; sites-split home:box end=99' &
wait

is "it counts at its home, and by the same lines at another machine" "1 2" "$(cat "$TEST_TMP/home") $(said 9)"
is "a key of 20,000 is found through the tree's own pages" "found 12345" "$(said 1)"
first=$(said 2 | sed -nE 's/.*look-up: ([0-9]+) GET, 0 COMMIT, [0-9]+ ASK/\1/p')
ok "the index lies in the container: its path comes page by page, at most 6" test "${first:-99}" -le 6
echo "# $(said 2)"
is "pages are buffered at the client: nothing is said again" "the same 100 times: 0 GET, 0 COMMIT, 0 ASK" "$(said 3)"
is "another leaf is one page" "another leaf: 1 GET, 0 COMMIT, 0 ASK" "$(said 4)"
is "a change wants its page to write, and commits by one message" "first change of it: 1 GET, 1 COMMIT, 0 ASK" "$(said 5)"
is "then only by that" "ten more: 0 GET, 10 COMMIT, 0 ASK" "$(said 6)"
is "an object that is made in leased space asks nobody" "10 COMMIT, 0 ASK" "$(said 8 | sed 's/.* GET, //')"
echo "# $(said 8)"
is "the agent of the home is no pager: it makes no memory object, supplies none" 0 \
    "$(cat user/sites/agent*.c | grep -c 'KD_OBJECT_\(CREATE\|SUPPLY\|GRANT\|CLEANED\)')"
ok "the store is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/store"
done_testing
