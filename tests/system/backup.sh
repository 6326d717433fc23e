#!/bin/bash
# store backup: a copy of a store that a program commits to all the time is a sound store with everything that
# was acknowledged before the backup began; a power cut in the middle costs the store nothing, and the copy says
# that it was never finished; blocks that cannot be read are told, and only what is needed stops the copy.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

BASE=$TEST_TMP/base STORE=$TEST_TMP/store COPY=$TEST_TMP/copy LOG=$TEST_TMP/kernel
guest() { # OPTIONS...: sets output and status
    status=0
    output=$(scripts/run --timeout 100 --memory 128 --log "$LOG" "$@" 2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}
fresh() { cp --sparse=always "$BASE" "$STORE"; rm -f "$COPY"; }

# A store with a log of 2 MiB and much more in it, so that there are rounds.
build/host/kstore create --quiet --size 96 --log 2M "$BASE"
head -c 40M /dev/urandom >"$TEST_TMP/bytes"
build/host/kstore put --quiet "$BASE" bytes "$TEST_TMP/bytes" >/dev/null
guest --store "$BASE" -c 'bank 100; todo add milk'

fresh
guest --store "$STORE" --backup "$COPY" -c 'bank 12000 &
todo add bread; store backup; todo'
copied=$(grep -o '[0-9]* KiB copied in .*' <<<"$output")
ok "a store is copied while two processes transfer money" test -n "$copied"
echo "# $copied; $(grep -o 'backup: .*' "$LOG")"
ok "all blocks were read" grep -q ' 0 blocks not read$' <<<"$copied"
ok "in rounds" test "$(sed -E 's/.* in ([0-9]+) rounds.*/\1/' <<<"$copied")" -ge 2
build/host/kstore check --strict "$COPY" >"$TEST_TMP/check" 2>&1
is "kstore finds nothing in the copy" 0 $?
sed 's/^/# /' "$TEST_TMP/check" | tail -2
guest --store "$COPY" -c 'bank check; todo'
is "it starts, the sum is right, and what was acknowledged before is there" \
    "bank: the sum is 64000, as it should be: yes - bread - milk" "$(tr '\n' ' ' <<<"$output" | sed 's/ *$//')"
guest --store "$STORE" --backup "$COPY" -c 'bank check; store backup; store backup backup x; todo add eggs; store backup -f'
ok "nor has the store lost anything" grep -q "64000.*yes" <<<"$output"
is "nothing that is on the disk is overwritten unless that is wished" \
    "store backup: not done: something is on that disk; .store backup --force. overwrites it store [scrub | backup [--force] [DISK] | manager NAME [PROGRAM ...]]" \
    "$(sed '/64000.*yes/d; / KiB copied/d; /^manager NAME:/d; /^    /d; s/`/./g' <<<"$output" | tr '\n' ' ' | sed 's/ $//')"
ok "a copy may be made over an older one" build/host/kstore check --strict --quiet "$COPY"
guest --store "$COPY" -c todo
is "and has what came since" "- eggs - bread - milk" "$(tr '\n' ' ' <<<"$output" | sed 's/ *$//')"

# The power is cut after so many items, some of them while the copy is made.
unfinished='' wrong=''
after='1 3'
[ "${TEST_TIER:-test}" != long ] || after='1 3 8'
for items in $after again again again; do
    if [ "$items" = again ]; then       # the processor of the shell may have stood still until each copy was whole
        [ -z "$unfinished" ] || break
        items=1
    fi
    fresh
    words='store backup &'
    for ((i = 1; i <= items; i++)); do words="$words
todo add item$i"; done
    guest --store "$STORE" --backup "$COPY" --kill-on "power goes" -c "$words
echo power goes"
    guest --store "$STORE" -c 'todo; bank check'
    [ "$(grep -c '^- item' <<<"$output")" = "$items" ] && grep -q "64000.*yes" <<<"$output" ||
        wrong="$wrong [$items items: $output]"
    build/host/kstore check --quiet "$COPY" >"$TEST_TMP/check" 2>&1
    case $? in
    0) ;;
    4) unfinished="$unfinished $items"
       grep -q "never finished" "$TEST_TMP/check" || wrong="$wrong [$(cat "$TEST_TMP/check")]"
       guest --store "$COPY" -c todo
       grep -q "never finished" "$LOG" || wrong="$wrong [$(grep refused "$LOG")]" ;;
    *) wrong="$wrong [$items items: $(cat "$TEST_TMP/check")]" ;;
    esac
done
is "a power cut beside a backup costs the store nothing, and the copy is whole or refused as unfinished" "" "$wrong"
ok "some copies were not finished (cut after$unfinished items)" test -n "$unfinished"

# A page's home cannot be read: all else is copied, and the copy lacks that page as the store does.
fresh
at=$(python3 - "$STORE" "$TEST_TMP/bytes" <<'END'
import sys
image, page = open(sys.argv[1], "rb").read(), open(sys.argv[2], "rb").read()[20 << 20:(20 << 20) + 4096]
at = image.find(page)
while at < 8192 + (2 << 20) or at % 4096:           # in the log
    at = image.find(page, at + 1)
print(at)
END
)
DISKS="\
-blockdev driver=file,node-name=image,filename=$STORE \
-blockdev driver=blkdebug,node-name=fails,image=image,config=$TEST_TMP/rules \
-blockdev driver=raw,node-name=store,file=fails \
-device virtio-blk-pci,drive=store,serial=store,disable-legacy=on,werror=report,rerror=report \
-blockdev driver=file,node-name=backup,filename=$COPY \
-device virtio-blk-pci,drive=backup,serial=backup,disable-legacy=on,werror=report,rerror=report"
fails() { # BYTE...: these of the store cannot be read; the copy's disk is blank
    for at; do
        printf '[inject-error]\nevent = "none"\niotype = "read"\nsector = "%d"\nerrno = "5"\nonce = "off"\n' $((at / 512))
    done >"$TEST_TMP/rules"
    truncate -s 96M "$COPY"
}
fails "$at"
guest --no-store -c 'store backup; todo' --qemu "$DISKS"
ok "a block that cannot be read is counted, and the copy goes on" \
    grep -q ' 1 blocks not read; .kstore check' <<<"$output"
ok "its place is said" grep -q "backup: byte $at of the disk cannot be read" "$LOG"
build/host/kstore check --quiet "$COPY" >"$TEST_TMP/check" 2>&1
is "kstore finds the one page that the copy lacks" "1 1" "$? $(grep -c 'page 5120\b' "$TEST_TMP/check")"

rot=$at

# Metadata cannot be read: of the area that the next checkpoint writes, and so the copy needs. (The log has the same way.)
fresh
build/host/kstore dump -s "$STORE" | head -n 4 >"$TEST_TMP/slot"
areas=$(sed -n 's/.* areas at \([0-9]*\) and \([0-9]*\),.*/\1 \2/p' "$TEST_TMP/slot")
grep -q 'checkpoint 1 (newest)' "$TEST_TMP/slot" && fails "${areas% *}" || fails "${areas#* }"
guest --no-store -c 'todo add eggs; store backup; todo add tea; todo' --qemu "$DISKS"
is "metadata that cannot be read ends the copy, and nothing else" "store backup: not done: a disk does not read or write - tea - eggs - milk" \
    "$(sed 's/;.*//' <<<"$output" | tr '\n' ' ' | sed 's/ $//')"
build/host/kstore check --quiet "$COPY" >"$TEST_TMP/check" 2>&1
ok "and the copy says that it was never finished" grep -q "never finished" "$TEST_TMP/check"

# kstore backup: what is rotten at home is told.
fresh
printf 'rot' | dd of="$STORE" bs=1 seek=$((rot + 100)) conv=notrunc status=none
build/host/kstore backup --quiet "$STORE" "$COPY" >"$TEST_TMP/said" 2>&1
is "a page that is rotten is told by its number, and the copy is kept" "1 1 1" \
    "$? $(grep -c '^damage: .*page 5120\b' "$TEST_TMP/said") $(grep -c 'The copy is kept' "$TEST_TMP/said")"
guest --store "$COPY" -c 'bank check; todo'
ok "and starts" grep -q "64000.*yes" <<<"$output"

# kstore backup: copies from the host, while the guest works.
fresh
moves=600
[ "${TEST_TIER:-test}" != long ] || moves=3000
live=0 wrong=''
for more in 1 8 64; do                  # a host that stands still may copy for longer than the guest works
    scripts/run --timeout 300 --memory 128 --store "$STORE" --log "$LOG" -c "bank $((more * moves)); bank check" >"$TEST_TMP/out" 2>&1 &
    running=$!
    for ((i = 1; i <= 4; i++)); do
        build/host/kstore backup --quiet --force "$STORE" "$COPY" >"$TEST_TMP/said" 2>&1 || wrong="$wrong [$(cat "$TEST_TMP/said")]"
        kill -0 $running 2>/dev/null && live=$i
        build/host/kstore check --strict --quiet "$COPY" >"$TEST_TMP/check" 2>&1 || wrong="$wrong [copy $i: $(cat "$TEST_TMP/check")]"
    done
    wait $running
    [ "$live" = 0 ] || break
done
is "copies that kstore makes of a store in use are sound" "" "$wrong"
ok "copies were made beside the guest ($live of 4), the last in: $(cat "$TEST_TMP/said")" test "$live" -ge 1
ok "the guest did not notice" grep -q "64000.*yes" "$TEST_TMP/out"
guest --store "$COPY" -c 'bank check; todo'
is "and start, with the right sum" "bank: the sum is 64000, as it should be: yes - milk" \
    "$(tr '\n' ' ' <<<"$output" | sed 's/ *$//')"
(ulimit -f 20000 && trap '' XFSZ && build/host/kstore backup --quiet --force "$STORE" "$COPY") >"$TEST_TMP/said" 2>&1
is "a copy for which there is no room is not finished" "3 1" "$? $(grep -c 'not finished' "$TEST_TMP/said")"
is "and says so" "4 1" "$(build/host/kstore check --quiet "$COPY" >"$TEST_TMP/check" 2>&1; echo $?) $(grep -c 'never finished' "$TEST_TMP/check")"
is "a store is not copied over itself" 2 "$(build/host/kstore backup --quiet --force "$STORE" "$STORE" >/dev/null 2>&1; echo $?)"
ok "which harms nothing" build/host/kstore check --quiet "$STORE"
done_testing
