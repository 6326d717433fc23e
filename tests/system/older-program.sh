#!/bin/bash
# A program that was built against an older libpstore, which says so of itself to the store manager: it is refused, and both
# the program and the log say what to do. Programs of today work beside it, and it has changed nothing.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

HEADER=libpstore/store_protocol.h
NOW=$(sed -nE 's/^#define STORE_PROTOCOL_VERSION ([0-9]+)$/\1/p' "$HEADER")
OLD=$((NOW - 1))

# The older library differs in what store.c says first; what is linked before the archive goes before it.
older() {
    sed "s/^\(#define STORE_PROTOCOL_VERSION\) .*/\1 $OLD/" "$HEADER" >"$TEST_TMP/older.h" &&
        scripts/katydid-cc -include "$TEST_TMP/older.h" -c libpstore/store.c -o "$TEST_TMP/store.o" &&
        objcopy --redefine-syms=build/libpstore.a.names "$TEST_TMP/store.o" &&
        scripts/katydid-cc user/todo.c "$TEST_TMP/store.o" -o "$TEST_TMP/older-todo"
}
ok "a program of version $OLD of the protocol is built; today's is $NOW" older

status=0
output=$(scripts/run --timeout 60 --memory 64 --add "$TEST_TMP/older-todo" --log "$TEST_TMP/log" \
    -c 'todo add new; older-todo add old; echo $?; older-todo; todo' 2>&1) || status=$?
MESSAGE="todo: program and store manager are of different versions: build the program again with the libpstore that belongs \
to this Katydid; what is stored is not concerned"
is "it is told what to do, and does nothing" "$MESSAGE
1
$MESSAGE
- new
0" "${output//$'\r'/}
$status"
is "the log says so once for each" 2 \
    "$(grep -c "was built for version $OLD of the store's protocol, this is $NOW: build it again" "$TEST_TMP/log")"
done_testing
