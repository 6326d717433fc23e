#!/bin/bash
# Bad input from end to end: what a user can do wrong, or find broken, is answered by a status other
# than 0 and a text that says what to do; and whatever it was, the to-do list stored before is there.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store LOG=$TEST_TMP/kernel.log
LIST=$'- two\n- one'

# guest OPTIONS...: sets output and status; what the kernel said is in $LOG.
guest() {
    status=0
    output=$(scripts/run --timeout 100 --log "$LOG" "$@" 2>&1) || status=$?
    output=${output//$'\r'/}
}

# said NAME STATUS TEXT: the last run ended with this status (or, "x", with any but 0 and those of
# scripts/run), and its output has the text.
said() {
    local good=0
    case $2 in
        x) [ "$status" -ne 0 ] && { [ "$status" -lt 120 ] || [ "$status" -ge 126 ]; } || good=1 ;;
        *) [ "$status" = "$2" ] || good=1 ;;
    esac
    grep -qF -- "$3" <<<"$output" || good=1
    tap_result "$good" "$1" <<<"status $status, wanted $2, and the text: $3
$output"
}

logged() { ok "$1" grep -qF -- "$2" "$LOG"; }

# kept WHEN [STORE [OPTIONS...]]: the image is clean, and the list is whole. The boot that looks does more, by the last option,
# COMMANDS: status and output are those of these.
kept() {
    local listed
    ok "the image is clean after: $1" build/host/kstore check "${2:-$STORE}"
    guest --store "${2:-$STORE}" "${@:3:$(($# > 3 ? $# - 3 : 0))}" -c "todo; echo \"list \$?\"; ${*:$(($# > 2 ? $# : $# + 1))}"
    listed=${output%%list 0*}
    output=${output#*list 0}
    is "the list is there after: $1" "$LIST" "${listed%$'\n'}"
}

cat >"$TEST_TMP/bad.c" <<'C'
/* bad WHAT: does one thing wrong and shows what ps_strerror() says; its status is 1. */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct root { long value; };
struct larger { long value, more; };
static ps_container *c;

static int nothing(void *unused) { (void)unused; return 0; }
static int nested(void *unused) { (void)unused; return ps_transaction(nothing, NULL); }

static char *taken[800];

static int take(void *mebibytes)
{
    for (long i = 0; i < *(long *)mebibytes * 4; i++) {
        char *p = ps_alloc(c, 250000, NULL);
        if (!p) return -errno;
        taken[i % 800] = p;
        for (int at = 0; at < 250000; at += 4096) p[at] = (char)(i + 1);
    }
    return 0;
}

static int change(void *mebibytes)
{
    for (long i = 0; i < *(long *)mebibytes * 4; i++)
        for (int at = 0; at < 250000; at += 4096) taken[i][at]++;
    return 0;
}

static int attempt(const char *what, long size)
{
    if (strcmp(what, "missing") == 0) return ps_open("no-such", PS_WRITE, NULL) ? 0 : -errno;
    if (strcmp(what, "exists") == 0)
        return ps_open("todo", PS_CREATE | PS_EXCLUSIVE, NULL) ? 0 : -errno;
    if (strcmp(what, "layout") == 0)
        return ps_open("todo", PS_WRITE, PS_LAYOUT(struct larger, 1)) ? 0 : -errno;
    c = ps_open("bad", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c) return -errno;
    if (strcmp(what, "nested") == 0) return ps_transaction(nested, NULL);
    if (strcmp(what, "large") == 0) /* new pages go past the log, old ones do not */
        return ps_transaction(take, &size) ? 1 : ps_transaction(change, &size);
    int error = 0; /* fill: until the disk is full */
    for (long i = 0; error == 0 && i < 4096; i++) error = ps_transaction(take, &size);
    return error;
}

int main(int argc, char **argv)
{
    int error = argc > 1 ? attempt(argv[1], argc > 2 ? atol(argv[2]) : 1) : 0;
    if (error) fprintf(stderr, "bad: %s\n", ps_strerror(error));
    return error != 0;
}
C
ok "a program that does things wrong" scripts/katydid-cc "$TEST_TMP/bad.c" -o "$TEST_TMP/bad"

guest --store "$STORE" --store-size 32M -c 'todo add one; todo add two; todo'
is "a list is stored" "0:$LIST" "$status:$output"

# --- containers, layouts, transactions ---
guest --store "$STORE" --add "$TEST_TMP/bad" \
    -c 'bad missing; echo "status $?"; bad exists; echo "status $?"; bad layout; echo "status $?"; bad nested'
said "a container that is not there" x "there is no container of that name: check it"
said "a container that is there" x "leave PS_EXCLUSIVE out, or choose another name"
said "a layout that does not match" x "open it with the program that made it"
said "a transaction begun twice" x "commit or suspend it first"
is "the program hears of each" 3 "$(grep -c '^status 1$' <<<"$output")"
kept "mistakes of programs" "$STORE" --add "$TEST_TMP/bad" 'bad large 16'
said "a transaction larger than the log" x "smaller transactions"
guest --memory 32 --add "$TEST_TMP/bad" -c 'bad "large" 48'
said "a transaction larger than memory" x "smaller transactions"

# --- disks ---
kept "a transaction larger than the log" "$STORE" --add "$TEST_TMP/bad" 'bad fill 1'
said "a full disk" x "what is stored is safe. Delete containers or objects"
kept "a full disk" "$STORE" 'rm-container bad; todo add three; todo done three; todo'
is "room again when a container was deleted" "$LIST" "$(tail -n 2 <<<"$output")"
truncate -s 64K "$TEST_TMP/tiny"
guest --store "$TEST_TMP/tiny" -c 'todo add one'
said "a disk that is too small for a store" x "start Katydid with a store disk"
logged "and the log says how large it must be" "it is too small"
guest --no-store -c 'todo add one'
said "no disk" x "start Katydid with a store disk"

head -c 33554432 /dev/urandom >"$TEST_TMP/noise"
cp "$TEST_TMP/noise" "$TEST_TMP/noise.before"
guest --store "$TEST_TMP/noise" -c 'todo'
said "a disk that is no store" x "start Katydid with a store disk"
logged "is refused with advice" "this disk holds something that is no store; give another disk"
ok "and not formatted" cmp "$TEST_TMP/noise" "$TEST_TMP/noise.before"
status=0; output=$(timeout 20 build/host/kstore info "$TEST_TMP" 2>&1) || status=$?
said "a folder is no store either, and kstore says so at once" 3 "Is a directory"
build/host/kstore create --size 16M --log 1M "$TEST_TMP/small"
status=0; output=$(build/host/kstore info "$TEST_TMP/small" 2>&1) || status=$?
said "a size may name its unit" 0 "disk 16 MiB, log 1 MiB"
status=0; output=$(scripts/run --store "$TEST_TMP/none" --store-size 64 -c true 2>&1) || status=$?
said "a new store has 512 KiB at least" 120 "--store-size 64: a store has 512K at least"
status=0; output=$(scripts/bench --known nonsense 2>&1) || status=$?
said "bench names its groups" 2 "no such group: nonsense; there are: arenas board boot"

# A superblock of a later version, with the checksum that belongs to it, in both slots.
cp --sparse=always "$STORE" "$TEST_TMP/newer"
python3 - "$TEST_TMP/newer" <<'PY'
import struct, sys

def crc32c(crc, data):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

with open(sys.argv[1], "r+b") as store:
    store.seek(0)
    second = struct.unpack_from("<Q", store.read(4096), 64)[0]
    for place in (0, second):
        store.seek(place)
        slot = bytearray(store.read(4096))
        struct.pack_into("<I", slot, 12, 99)
        number = struct.unpack_from("<I", slot, 40)[0]
        seed = crc32c(0, bytes(slot[16:32]) + struct.pack("<IIQ", 1, 0, number))
        struct.pack_into("<I", slot, 8, crc32c(seed, bytes(slot[12:])))
        store.seek(place)
        store.write(slot)
PY
cp --sparse=always "$TEST_TMP/newer" "$TEST_TMP/newer.before"
guest --store "$TEST_TMP/newer" -c 'todo'
said "a store of a newer version" x "start Katydid with a store disk"
logged "is refused with advice" "this store was made by a newer Katydid; start that one"
ok "and left alone" cmp "$TEST_TMP/newer" "$TEST_TMP/newer.before"

cp --sparse=always "$STORE" "$TEST_TMP/short"
truncate -s 24M "$TEST_TMP/short"
guest --store "$TEST_TMP/short" -c 'todo'
said "a store whose end is missing" x "start Katydid with a store disk"
logged "is refused with both sizes" "the disk has 24576 KiB, the store on it"
said "and -c says so, too" x "store: refused: the disk has 24576 KiB"

# --- imports and programs ---
guest --store "$STORE" --import "$TEST_TMP/nowhere" -c todo
said "an import folder that is not there" 120 "nowhere: no such folder"
guest --store "$STORE" -c 'wn-import /import'
said "an import that is not attached" x "scripts/run --import DIR"
mkdir -p "$TEST_TMP/empty"
guest --store "$STORE" --import "$TEST_TMP/empty" -c 'wn-import /import'
said "an import without WordNet" x "Is WordNet's folder attached?"
guest --store "$STORE" --add "$TEST_TMP/nowhere" -c todo
said "a program that is not there" 120 "nowhere: no such file"
head -c 5000 "$TEST_TMP/bad" >"$TEST_TMP/cut"
guest --store "$STORE" --add "$TEST_TMP/cut" -c cut
ok "a program that is cut off is refused" test "$status" -ne 0
logged "and the log says why" "/bin/cut: refused:"
kept "wrong disks, imports and programs"

# --- wild programs: the log names the address, the kind of access and the container ---
guest --store "$TEST_TMP/wild" --store-size 64M --allow all --add build/tests/guest/hostile_memory \
    -c 'todo add one; todo add two; hostile_memory container 0; hostile_memory container 1;
        hostile_memory container 3; hostile_memory write 4; hostile_memory other 4; hostile_memory other 10;
        hostile_memory code 0; hostile_memory code 1; hostile_memory code 2; true'
logged "a load outside a transaction" \
    "container hostile touched outside a transaction: load from 0x"
logged "a store outside a transaction" \
    "container hostile touched outside a transaction: store to 0x"
logged "a store into what is open read-only" "container hostile is open read-only: store to 0x"
logged "a wild store" "nothing is mapped there: store to 0x123456789000, at hostile_memory+0x"
ok "the first thread's stack overflows, and another one's" test \
    "$(grep -c 'killed: stack overflow: store to 0x' "$LOG")" -eq 2
ok "sgdt, sidt, smsw" test "$(grep -c 'killed: general protection fault' "$LOG")" -eq 3

# --- hostile clients: what they leave is a store without problems ---
kept "wild programs" "$TEST_TMP/wild" --allow all --add build/tests/guest/hostile_store 'hostile_store'
is "bad requests and commits" "0 " "$status $(grep '^not ok' <<<"$output")"
kept "bad requests and commits" "$TEST_TMP/wild"
done_testing
