#!/bin/bash
# The store manager's scrub: what rots on the disk of a store that is at work is found and put back, and said
# in the kernel's log; what has no other copy is said, too, and everything else goes on.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

GOOD=$TEST_TMP/good
STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel

guest() { # COMMANDS: sets output and status
    status=0
    output=$(scripts/run --timeout 100 --memory 64 --store "$STORE" --log "$LOG" \
        --allow all --add build/tests/guest/store_rot -c "$1" 2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}
line() { tr '\n' ' ' | sed 's/ *$//'; }

# damage PYTHON: `image` is the disk, home(page) the offset of a page's home. Works on a fresh copy.
damage() {
    cp --sparse=always "$GOOD" "$STORE"
    python3 - "$STORE" "$1" <<'END' || { echo "Bail out! the damage was not done"; exit 1; }
import mmap, struct, sys
with open(sys.argv[1], "r+b") as disk, mmap.mmap(disk.fileno(), 0) as image:
    log, log_bytes = struct.unpack("<QQ", image[72:88])
    areas = struct.unpack("<QQ", image[96:112])
    def home(page):
        text = b"".join(struct.pack("<Q", 0x746f72 << 40 | page << 32 | 2 << 16 | i) for i in range(512))
        at = image.find(text)
        while at % 4096 or log <= at < log + log_bytes:
            at = image.find(text, at + 1)
        return at
    def flip(at):
        image[at] ^= 4
    exec(sys.argv[2])
END
}

build/host/kstore create --size 32 --force "$STORE" >/dev/null
guest 'store_rot write 1; store_rot write 2; todo add milk; store scrub'
is "in a sound store nothing is found" "0 repairs, 0 lost" "$(grep -o '[0-9]* repairs.*' <<<"$output")"
cp --sparse=always "$STORE" "$GOOD"

# Superblocks are written anew by the start, as is the area that it does not begin with; so one of the two areas
# is mended here, and the signpost, and pages. (tests/disk/manager/test_manager spoils all of them at work.)
mended=0
while IFS='|' read -r what repairs python; do
    damage "$python"
    guest 'store scrub; store scrub; store_rot read; todo'
    grep -o 'scrub: .*' "$LOG" | sed 's/^/# /'
    first=$(grep -o '[0-9]* repairs' <<<"$output" | head -1)
    mended=$((mended + ${first% *}))
    is "$what: found and mended, then nothing is found" "${repairs:-$first}, 0 lost 0 repairs, 0 lost" \
        "$(grep -o '[0-9]* repairs.*' <<<"$output" | line)"
    is "and all is there" "good 64, damaged - milk" "$(grep -v repairs <<<"$output" | line)"
    build/host/kstore check --strict "$STORE" >"$TEST_TMP/check"
    is "and kstore finds the disk sound" 0 $?
done <<'END'
a page|1 repairs|flip(home(5)+1234)
two pages|2 repairs|flip(home(7)); flip(home(63))
superblock A|0 repairs|flip(100)
metadata area 0||flip(areas[0]+8)
metadata area 1||flip(areas[1]+8)
the signpost|1 repairs|flip(4096+40)
END
is "the scrub mended pages, the signpost and one of the areas" 5 "$mended"
damage 'flip(home(5)); image[log:log+log_bytes] = bytes(log_bytes)'
guest 'store scrub; store scrub; todo; store'
# Zeros over the log are rot of the log, too, which two checkpoints let go of: one repair.
is "a page without another copy is lost, and all else works" "1 repairs, 1 lost; 0 repairs, 1 lost; - milk" \
    "$(grep -oE '[0-9]* repairs, [0-9]* lost;|^- milk' <<<"$output" | line)"
is "which is said once, and what to do" 1 "$(grep -cE 'store: scrub: rot, page 5 .*lost.*restore it' "$LOG")"
ok "and store counts it" grep -qE '^scrub +2 rounds, .* 1 repairs, 2 lost' <<<"$output"
done_testing
