#!/bin/bash
# A disk that was made larger: the next start of the store manager grows the store with it, and what was
# there is there; a start after that finds nothing to grow. And `kstore grow` under a running guest, which lost
# commits: kstore writes to no store in use, and reads each.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel
guest() { scripts/run --timeout 60 --store "$STORE" --log "$LOG" -c "$1" 2>&1 | tr -d '\r'; }
grown() { grep -q 'store: the disk has grown, and the store with it' "$LOG"; }
not() { ! "$@"; }

build/host/kstore create --size 16 --force "$STORE" >/dev/null
build/host/kstore create --size 16 "$TEST_TMP/other" >/dev/null
is "a small store is used" "- milk" "$(guest 'todo add milk; todo')"
ok "it has not grown" not grown
truncate -s 80M "$STORE"
is "what was there is there after the disk has grown" "- milk" "$(guest todo)"
ok "the manager says that the store has grown" grown
ok "the host sees the new size" grep -q 'disk 80 MiB' <(build/host/kstore info "$STORE")
ok "and no damage" build/host/kstore check "$STORE"
is "the next start has it, too" "- milk" "$(guest todo)"
ok "and finds nothing to grow" not grown

coproc GUEST { exec scripts/run --timeout 60 --store "$STORE" 2>&1; }
guest=$GUEST_PID
exec 3<&"${GUEST[0]}" 4>&"${GUEST[1]}"
# see TEXT: reads on until the guest has said it.
see() {
    local character new=
    while [[ $new != *"$1"* ]] && IFS= read -r -d '' -n 1 -t 60 character <&3; do
        new+=$character
    done
    [[ $new == *"$1"* ]]
}
ok "a guest is started with the store" see 'katydid> '
printf 'todo add bread; todo\r' >&4
ok "and commits" see '- bread'
refused() {
    local output status=0
    output=$(build/host/kstore "$@" 2>&1) || status=$?
    echo "$output"
    [ "$status" = 3 ] && grep -q 'in use by a QEMU' <<<"$output"
}
ok "its store is not grown from outside" refused grow "$STORE" 160M
ok "nor made anew" refused create --force "$STORE"
ok "nor put into" refused put "$STORE" name README.md
ok "nor overwritten by what is saved of another" refused salvage --force "$TEST_TMP/other" "$STORE"
for command in info check dump log map; do
    ok "it is read: $command" build/host/kstore $command "$STORE"
done
printf 'todo add eggs; halt\r' >&4
cat <&3 >"$TEST_TMP/rest"
wait "$guest"
is "what was committed before and after is there" "- eggs - bread - milk" "$(guest todo | xargs)"
ok "and no damage" build/host/kstore check "$STORE"
done_testing
