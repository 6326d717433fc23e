#!/bin/bash
# The store manager with a log so small that checkpoints never end, with more pages than memory, and
# with a disk that fails: nothing acknowledged is lost, and the host finds every image clean. After a
# halt the store is closed, and the next boot has nothing to recover.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel

# guest OPTIONS...: sets output and status; the kernel's log goes to $LOG.
guest() {
    status=0
    output=$(scripts/run --timeout 300 --allow all --add build/tests/guest/store_stress --log "$LOG" "$@" \
        2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}

blank() { build/host/kstore create --size "$1" --log "$2" --force "$STORE" >/dev/null; }
host_check() { build/host/kstore check "$STORE"; }

# --- a small log, little memory ---
logs=256 steps=120                      # the one that goes round most often
[ "${TEST_TIER:-test}" != long ] || logs='1024 256' steps=700
for log in $logs; do
    blank 128 $log
    guest --memory 40 --store "$STORE" -c "store_stress 1 $steps"
    is "a log of $log KiB: all processes find what they committed" 0 "$status"
    [ "$status" -eq 0 ] || tail -n 20 <<<"$output" | sed 's/^/# /'
    ok "the manager ended properly" grep -q 'store: closed' "$LOG"
    ok "the host finds no damage" host_check
done

# --- closed, or not ---
guest --store "$STORE" -c 'todo add milk'
ok "after a halt the boot finds the store clean" grep -q 'store: clean' "$LOG"
guest --store "$STORE" --kill-on '- milk' -c 'todo; sleep 30'
guest --store "$STORE" -c 'todo; kill -9 2; todo > /tmp/o 2>&1; todo > /tmp/o 2>&1; todo' # one may come before its end, one hears of it; the next waits
is "after a kill it does not" 'store: nothing to recover' "$(grep -m 1 -o 'store: clean\|store: nothing to recover' "$LOG")"
is "what was there is there" "0 - milk" "$status ${output%%$'\n'*}"
ok "a manager that was started anew is closed as well" grep -q 'store: closed' "$LOG"
is "and has what was there" "0 - milk" "$status ${output##*$'\n'}"

# --- a disk that fails once, after it was flushed a number of times ---
# rules EVENT RULES...: QEMU's blkdebug counts flushes by its state.
FLUSHES=40
rules() {
    local i event=$1
    shift
    for ((i = 1; i < FLUSHES; i++)); do
        printf '[set-state]\nevent = "flush_to_disk"\nstate = "%d"\nnew_state = "%d"\n' \
            "$i" $((i + 1))
    done
    printf '[inject-error]\nevent = "%s"\nstate = "%d"\nerrno = "5"\nonce = "on"\n' \
        "$event" $FLUSHES
    printf '%s\n' "$@"
}

on_failing_disk() { # COMMAND
    guest --no-store --memory 64 -c "$1" --qemu "\
-blockdev driver=file,node-name=image,filename=$STORE \
-blockdev driver=blkdebug,node-name=fails,image=image,config=$TEST_TMP/rules \
-blockdev driver=raw,node-name=store,file=fails \
-device virtio-blk-pci,drive=store,serial=store,disable-legacy=on,werror=report,rerror=report"
}

failing() {
    local name=$1 acknowledged
    blank 32 1024
    on_failing_disk 'store_stress ledger'
    ok "$name: the disk has failed" grep -qE 'disk store: (write|flush) of sector .* failed' "$LOG"
    is "$name: a commit says EIO, and no later one is taken" \
        "0 result -5, fenced, readable" "$status ${output%, acknowledged*}"
    ok "$name: the store is not closed" grep -q 'store: not closed' "$LOG"
    acknowledged=${output##* }
    guest --memory 64 --store "$STORE" -c "store_stress look $acknowledged"
    is "$name: the next boot has all that was acknowledged" 0 "$status"
    ok "$name: the host finds no damage" host_check
}

# In `make test` one of the three, another one each day.
rules flush_to_disk 'iotype = "flush"' >"$TEST_TMP/rules"
! today 0 3 || failing "a flush"
rules pwritev 'iotype = "write"' >"$TEST_TMP/rules"
! today 1 3 || failing "a log write"
rules pwritev 'iotype = "write"' "sector = \"$((32 << 20 >> 10))\"" >"$TEST_TMP/rules"
! today 2 3 || failing "a superblock"

# --- and memory runs out beside what the store had in memory, and cannot bring home any more ---
rules flush_to_disk 'iotype = "flush"' >"$TEST_TMP/rules"
blank 512 131072
on_failing_disk 'store_stress hoard'
is "memory that is full of a fenced store's pages: who takes the rest gets ENOMEM, or ends" \
    "0 result -5, many dirty, who takes all ends, a commit is refused, readable, kcheck 0" \
    "$status $(grep -v '^#' <<<"$output")"
grep '^#' <<<"$output"
done_testing
