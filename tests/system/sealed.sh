#!/bin/bash
# What `sealed` keeps of a page says nothing of what it kept before, also where the store was put back to an earlier
# state: by a backup, or by a power cut that left some of a lost commit in the log.
# shellcheck source=scripts/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

scripts/katydid-cc -Ilibpstore tests/system/sealed.c -o "$TEST_TMP/fill" || echo "Bail out! no program"

# sealed STORE LETTER: fills the page with it, and prints how it is kept.
sealed() {
    scripts/run --timeout 100 --memory 128 --store "$1" --store-size 24M --add "$TEST_TMP/fill" --allow names \
        -c "sealed vault secret & fill $2; fill" 2>/dev/null | grep -E '^[0-9a-f]{64}$'
}

ok "a page is kept" sealed "$TEST_TMP/first" a
cp --sparse=always "$TEST_TMP/first" "$TEST_TMP/second"
b=$(sealed "$TEST_TMP/first" b) c=$(sealed "$TEST_TMP/second" c)
together=''
for ((i = 0; i < ${#b}; i++)); do together+=$(printf %x $((16#${b:i:1} ^ 16#${c:i:1}))); done
ok "two pages are kept ($b)" test "${#b}" = 64 -a "${#c}" = 64
ok "nobody learns from both how they differ ($together)" test "$together" != "$(printf '01%.0s' {1..32})"
done_testing
