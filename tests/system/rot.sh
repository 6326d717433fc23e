#!/bin/bash
# Damage on the store's disk, made on the host: a page that rotted, went elsewhere or got lost is told to
# its reader, by container and address, and all else goes on; damaged metadata and history are
# refused, or opened for reading, with a sentence that says what to do; nothing wrong is ever served.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

GOOD=$TEST_TMP/good
STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel

# guest OPTIONS... COMMANDS: sets output and status; the kernel's log goes to $LOG.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 64 --store "$STORE" --log "$LOG" \
        --allow all --add build/tests/guest/store_rot "${@:1:$#-1}" -c "${!#}" 2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}
log_says() { grep -qE -- "$1" "$LOG" || { cat "$LOG"; false; }; }
same() { cmp "$1" "$2"; }

# damage PYTHON: `image` is the disk, home(page, n) the offset of a page's home. Works on a fresh copy.
damage() {
    cp --sparse=always "$GOOD" "$STORE"
    python3 - "$STORE" "$1" <<'END' || { echo "Bail out! the damage was not done"; exit 1; }
import mmap, struct, sys
with open(sys.argv[1], "r+b") as disk, mmap.mmap(disk.fileno(), 0) as image:
    def home(page, n=2):
        text = b"".join(struct.pack("<Q", 0x746f72 << 40 | page << 32 | n << 16 | i)
                        for i in range(512))
        at = image.find(text)
        while at % 4096:
            at = image.find(text, at + 1)
        return at
    def groups():
        at = image.find(b"1dKGuorp")
        while at >= 0:
            if at % 4096 == 0:
                yield at
            at = image.find(b"1dKGuorp", at + 1)
    def flip(at):
        image[at] ^= 4
    def areas():                        # the newest checkpoint's area, and the older one's
        slots = [at for at in range(0, len(image), 4096) if image[at:at+8] == image[0:8]]
        slot = max(slots, key=lambda at: struct.unpack("<Q", image[at+48:at+56]))
        newest, = struct.unpack("<I", image[slot+124:slot+128])
        starts = struct.unpack("<QQ", image[slot+96:slot+112])
        return starts[newest], starts[1 - newest]
    def map_bytes():
        return -(-struct.unpack("<I", image[112:116])[0] * 16 // 4096) * 4096
    exec(sys.argv[2])
END
}

build/host/kstore create --size 32 --force "$STORE" >/dev/null
guest 'store_rot write 1; cat /dev/null' # generation 1, for what gets lost
is "the first version is written" "0 written 0" "$status ${output%%$'\n'*}"
cp --sparse=always "$STORE" "$TEST_TMP/older"
guest 'store_rot write 2; todo add milk'
is "the second version is written" "0 written 0" "$status ${output%%$'\n'*}"
cp --sparse=always "$STORE" "$GOOD"
guest 'store_rot read'
is "undamaged: all pages are good" "0 good 64, damaged" "$status $output"

# --- pages ---
damage "flip(home(5) + 1234)
a, b = home(7), home(9)
image[a:a+4096], image[b:b+4096] = image[b:b+4096], image[a:a+4096]
a = home(63)
image[a:a+4096] = bytes(4096)
a = home(11)
old = open('$TEST_TMP/older', 'rb').read()[a:a+4096]
assert old != image[a:a+4096]
image[a:a+4096] = old"
guest 'store_rot read; todo; store_rot read'
bad="good 59, damaged 5 7 9 11 63"
is "a flipped bit (5), two pages in each other's place (7, 9), a write that got lost (11), a page of zeros (63): EIO, twice" \
    "0 $bad - milk $bad" "$status $(echo $output)"
is "the log names container and each address" 5 \
    "$(sed -nE 's/.*store: rot, address (0x[0-9a-f]+): .*damaged.*/\1/p' "$LOG" | sort -u | wc -l)"
damage 'flip(home(5))'
guest 'store_rot write 3; store_rot read'
is "a damaged page that is written anew as a whole stays damaged: it must be read first" \
    "0 written -1 good 63, damaged 5" "$status $(echo $output)"

# --- a sector that cannot be read: QEMU's blkdebug fails its reads ---
unreadable() { # PYTHON TIMES: the sector's place; fails so often, or always
    local sector
    damage 'pass'
    sector=$(($(damage "print($1)") / 512))
    printf '[inject-error]\nevent = "none"\niotype = "read"\nsector = "%d"\nerrno = "5"\nonce = "%s"\n' \
        "$sector" "$2" >"$TEST_TMP/rules"
    mv "$STORE" "$TEST_TMP/disk"
    status=0
    output=$(scripts/run --timeout 60 --memory 64 --no-store --log "$LOG" \
        --allow all --add build/tests/guest/store_rot -c 'store_rot read; todo; store_rot read' --qemu "\
-blockdev driver=file,node-name=image,filename=$TEST_TMP/disk \
-blockdev driver=blkdebug,node-name=fails,image=image,config=$TEST_TMP/rules \
-blockdev driver=raw,node-name=store,file=fails \
-device virtio-blk-pci,drive=store,serial=store,disable-legacy=on,werror=report,rerror=report" \
        2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
    failed=$(grep -cE 'disk store: read of sector .* failed' "$LOG" || true)
}
unreadable 'home(21) + 1024' off
is "a sector that cannot be read: its page's readers get EIO; others go on" \
    "0 good 63, damaged 21 - milk good 63, damaged 21" "$status $(echo $output)"
ok "its read was tried again, and failed each time ($failed times)" test "$failed" -ge 6
unreadable 'home(21) + 1024' on
is "one that is read at the second try does no harm" \
    "0 good 64, damaged - milk good 64, damaged" "$status $(echo $output)"
ok "it did fail ($failed)" test "$failed" -ge 1

# --- history: the last boot was cut off, so the log is needed ---
cut_off() {
    cp --sparse=always "$GOOD" "$STORE"
    guest --kill-on 'end' 'store_rot more 3; store_rot more 4; store_rot more 5; echo end; sleep 9'
    cp --sparse=always "$STORE" "$TEST_TMP/cut"
}
cut_off
guest 'store_rot read'
is "a cut-off store recovers" "0 good 64, damaged" "$status $output"
GOOD=$TEST_TMP/cut damage 'large = [at for at in groups() if struct.unpack("<I", image[at+52:at+56])[0] > 5000]    # empty ones lie between
large.sort(key=lambda at: struct.unpack("<Q", image[at+8:at+16]))
flip(large[-3] + 5000)'
cp --sparse=always "$STORE" "$TEST_TMP/before"
guest 'store_rot read; todo add more; todo'
ok "damaged history: said, and how to go on" log_says 'store: what is sound .*reading only.*kstore salvage'
is "what is sound can be read, but not written" "good 64, damaged" \
    "$(grep -v todo: <<<"$output" | tr '\n' ' ' | sed 's/ $//')"
ok "not a byte" same "$STORE" "$TEST_TMP/before"

# --- superblock, metadata ---
damage 'flip(100)'
guest 'store_rot read'
is "one superblock: the other serves" "0 good 64, damaged" "$status $output"
turn=0 # in `make test` one of the two, the other on the next day
for what in 'the map' 'a page'; do
    today $((turn++)) 2 || continue
    place=$([ "$what" = 'the map' ] && echo 0 || echo 'map_bytes()')
    damage "newest, older = areas(); flip(newest + $place + 8)"
    guest 'store_rot read; todo'
    is "$what of the newest checkpoint: the older one and the log serve" \
        "0 good 64, damaged - milk" "$status $(echo $output)"
    ok "and that is said" log_says 'store: .*from the older checkpoint'
    damage "for area in areas(): flip(area + $place + 8)"
    cp --sparse=always "$STORE" "$TEST_TMP/before"
    guest 'todo'
    ok "$what of both: refused, and what to do is said" log_says 'store: refused: .*kstore salvage'
    is "a program is told that there is no store" 1 "$status"
    ok "and nothing is written" same "$STORE" "$TEST_TMP/before"
done
damage 'image[0:4096] = b"x" * 4096
for at in range(4096, len(image), 4096):
    if image[at:at+8] == b"1otSKdib": image[at:at+4096] = bytes(4096)'
cp --sparse=always "$STORE" "$TEST_TMP/before"
guest 'todo'
ok "no superblock: refused, and what to do is said" log_says 'store: refused: .*kstore check'
is "a program is told that there is no store" 1 "$status"
ok "and nothing is written" same "$STORE" "$TEST_TMP/before"
done_testing
