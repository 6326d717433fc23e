#!/bin/bash
# Import disks that are wrong: nothing crashes, what can be read is there, the log says the rest.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

mkdir -p "$TEST_TMP/in/deep/er"
echo first >"$TEST_TMP/in/first"
head -c 300000 /dev/zero | tr '\0' 'x' >"$TEST_TMP/in/large"
echo last >"$TEST_TMP/in/deep/er/last"
ln -s first "$TEST_TMP/in/link"
tar --format=ustar --sort=name -C "$TEST_TMP/in" -cf "$TEST_TMP/good" .

# guest ARCHIVE COMMANDS: the output of the commands with that import disk.
guest() {
    scripts/run --no-store --timeout 60 --log "$TEST_TMP/log" --import "$1" -c "$2" 2>&1
}


# header NAME SIZE: a ustar header with a right checksum.
header() {
    python3 - "$1" "$2" <<'PY'
import sys
name, size = sys.argv[1:]
h = bytearray(512)
h[0:len(name)] = name.encode()
h[100:107], h[124:136], h[156:157], h[257:265] = \
    b"0000644", size.encode().ljust(12, b"\0"), b"0", b"ustar\x0000"
h[148:156] = b" " * 8
h[148:156] = b"%06o\0 " % sum(h)
sys.stdout.buffer.write(h)
PY
}

is "a good archive" $'first\nlast\n    300000 /import/large' \
    "$(guest "$TEST_TMP/good" 'cat /import/first /import/deep/er/last; ls /import/large')"
ok "a link is skipped, and said to be" grep -q "import disk: skipped.*: 1" "$TEST_TMP/log"

head -c 1048576 /dev/urandom >"$TEST_TMP/noise"
is "noise" "alive" "$(guest "$TEST_TMP/noise" 'ls /import; echo alive')"
ok "noise is named" grep -q "no ustar header at byte 0" "$TEST_TMP/log"

head -c 1048576 /dev/zero >"$TEST_TMP/zeros"
is "a blank disk" "alive" "$(guest "$TEST_TMP/zeros" 'ls /import; echo alive')"

head -c 102400 "$TEST_TMP/good" >"$TEST_TMP/short"
is "an archive that is cut off" $'first\nalive' \
    "$(guest "$TEST_TMP/short" 'cat /import/first; ls /import/large 2> /dev/null; echo alive')"
ok "a cut archive is named" grep -q "is cut off" "$TEST_TMP/log"

{ header ../../bin/sh 00000000000; header /etc/command 00000000000; header . 00000000000
  header a/b/../c 00000000000; header fine 00000000000; head -c 10240 /dev/zero
} >"$TEST_TMP/names"
is "names that lead elsewhere" $'         - etc/\n         0 fine' \
    "$(guest "$TEST_TMP/names" 'ls /import')"

{ header huge 77777777777; head -c 10240 /dev/zero; } >"$TEST_TMP/huge"
is "a member larger than the disk" "alive" "$(guest "$TEST_TMP/huge" 'ls /import; echo alive')"

{ header size 9x; head -c 10240 /dev/zero; } >"$TEST_TMP/size"
is "a size that is no number" "alive" "$(guest "$TEST_TMP/size" 'ls /import; echo alive')"

{ header "$(printf 'a/%.0s' {1..49})x" 00000000000; header x 00000000000; header x/y 00000000000
  head -c 10240 /dev/zero; } >"$TEST_TMP/deep"
is "folders too deep, files as folders" "alive" \
    "$(guest "$TEST_TMP/deep" 'ls /import > /dev/null; echo alive')"

seeds='1 2'
[ "${TEST_TIER:-test}" != long ] || seeds='1 2 3 4 5 6'
for seed in $seeds; do # one byte in each header and some more
    python3 - "$TEST_TMP/good" "$TEST_TMP/fuzz" "$seed" <<'PY'
import random, sys
source, target, seed = sys.argv[1:]
data = bytearray(open(source, "rb").read())
random.seed(int(seed))
for _ in range(30):
    data[random.randrange(8) * 512 + random.randrange(512)] = random.randrange(256)
open(target, "wb").write(data)
PY
    is "bytes changed at random, seed $seed" "alive" \
        "$(guest "$TEST_TMP/fuzz" 'ls /import > /dev/null; cat /import/first > /dev/null 2>&1; echo alive')"
done

is "no import disk" "ls: /import: No such file or directory" \
    "$(scripts/run --no-store --timeout 60 -c 'ls /import; true' 2>&1)"
done_testing
