#!/bin/bash
# A sample of OO1 (tests/oo1/oo1.md): the schema compiler, one code with four kinds of storage that has the same
# results with each, and insertions that survive a cut. The whole of it: make bench ONLY=oo1.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

PARTS=2000

# ---- the schema compiler ----

# refused SCHEMA MESSAGE: what is compiled of it, with \n for line ends, is nothing, and why.
refused() {
    local found status=0
    printf '%b' "$1" >"$TEST_TMP/s"
    found=$(scripts/katydid-schema "$TEST_TMP/s" -o "$TEST_TMP/s.h" 2>&1) || status=$?
    found=${found#"$TEST_TMP/"}
    if [ "$status:$found" != "1:$2" ] || [ -e "$TEST_TMP/s.h" ]; then
        echo "of: $1: $status:$found, wanted: $2"
        return 1
    fi
}
all_refused() {
    local status=0
    while IFS='|' read -r schema message; do
        refused "$schema" "$message" || status=1
    done <<'LIST'
|s:1: there is no table
x int|s:1: a schema begins with `table NAME`
table a b|s:1: `table` takes one name
table A|s:1: `A` is no name of a table: small letters, digits, _ between them, at most 31
table int|s:1: `int` has a meaning in C or in schemas, and cannot be a table
table a_by_b|s:1: `a_by_b` has a meaning in C or in schemas, and cannot be a table
table a\nx int\nkey x\ntable a|s:4: there is a table `a` already
table a\n\n# nothing\ntable b|s:1: table `a` has no fields
table a\nx int|s:1: table `a` has no key
table a\nx int\nx long\nkey x|s:3: there is a field `x` already
table a\nx_ int|s:2: `x_` is no name of a field: small letters, digits, _ between them, at most 31
table a\nwhile int|s:2: `while` has a meaning in C or in schemas, and cannot be a field
table a\nx|s:2: a field is `NAME TYPE`, TYPE one of char N, date, int, long, real
table a\nx int 3|s:2: a field is `NAME TYPE`, TYPE one of char N, date, int, long, real
table a\nx char|s:2: char takes a number of bytes: `char 10`
table a\nx char -1|s:2: char takes a number of bytes: `char 10`
table a\nx char 4001|s:2: char has 1 to 4000 bytes
table a\nx int\nkey|s:3: `key` names no field
table a\nx int\nkey y|s:3: table `a` has no field `y`
table a\nx int\nkey x x|s:3: `x` stands twice in one index
table a\nx int\nkey x\nindex x|s:4: there is an index of that name already
table a\nx int\nindex x|s:3: table `a` needs a key before its indexes
table a\nx char 600\nkey x|s:3: the fields of an index are too long: 512 bytes, less 8 for each
table a\nx int\nkey x\ny int|s:4: fields come before keys and indexes
LIST
    return $status
}
ok "the schema compiler refuses what is wrong, with its line" all_refused

# Every type, keys of text, and names that its own functions might use.
cat >"$TEST_TMP/words.schema" <<'END_SCHEMA'
table word                      # a remark
    text char 12
    row  int
    t    long
    size real
    day  date
    key  text
    key  day t
    index row text
END_SCHEMA
cat >"$TEST_TMP/words.c" <<'END_C'
#include "words.h"
#include <stdio.h>
static struct word_table words;
static int run(void *unused)
{
    (void)unused;
    struct word w = {"one", 7, 1, 1.5, 100}, twin = {"two", 8, 1, 2.5, 100}, again = {"one", 9, 2, 1.5, 1};
    struct word_by_row_text_range r;
    int error = word_set_up(&words);
    if (error || (error = word_begin(&words, PS_CHANGE)))
        return error;
    printf("%d\n", word_insert(&words, &w));
    printf("%d\n", word_insert(&words, &again));
    printf("%d\n", word_insert(&words, &twin));
    memcpy(twin.text, "twelve bytes", sizeof twin.text);   /* no 0 behind it */
    twin.day++;
    printf("%d\n", word_insert(&words, &twin));
    printf("%lu\n", word_count(&words));
    printf("%g %g\n", word_by_text(&words, "one")->size, word_by_day_t(&words, 101, 1)->size);
    printf("%d\n", word_by_text(&words, "twelve byte") == NULL);
    if ((error = word_by_row_text(&r, &words, 8, "twelve bytes")))
        return error;
    for (const struct word *found; (found = word_by_row_text_next(&r));)
        printf("%.12s\n", found->text);
    return 0;
}
int main(void)
{
    int error = word_open(&words, 100);
    error = error ? error : storage_operation(run, NULL, 1);
    return error || word_close(&words);
}
END_C
schema_runs() {
    scripts/katydid-schema "$TEST_TMP/words.schema" -o "$TEST_TMP/words.h" &&
        scripts/katydid-cc -Werror -I"$TEST_TMP" -Itests/oo1 "$TEST_TMP/words.c" tests/oo1/{files,storage_heap}.c \
            -o "$TEST_TMP/words" && "$TEST_TMP/words"
}
is "a compiled schema stores and finds rows, and refuses keys that are there" "0
-17
-17
0
2
1.5 2.5
1
twelve bytes" "$(schema_runs 2>&1)"

# ---- OO1 ----

ok "OO1 is built" tests/oo1/build "$TEST_TMP"
WITH=()
for storage in heap mapped file store; do WITH+=(--add "$TEST_TMP/oo1-$storage"); done

# guest COMMANDS OPTIONS...: sets output and status.
guest() {
    local commands=$1
    shift
    status=0
    output=$(scripts/run --timeout 100 --memory 256 --store "$TEST_TMP/store" --store-size 64M "${WITH[@]}" "$@" \
        -c "$commands" 2>&1) || status=$?
    output=${output//$'\r'/}
}
# part N: what the program behind N lines `==` has said. results [N]: of its lines of `run`, what must be the same in all builds.
part() { awk -v n="$1" '/^==$/ { at++; next } at == n' <<<"$output"; }
results() { part "${1:-0}" | cut -f 1,2,6,7; }

guest "oo1-heap all $PARTS 2; echo ==; oo1-mapped all $PARTS 2; echo ==; OO1_FORGET=1 oo1-file all $PARTS 2; echo ==
oo1-file create $PARTS; oo1-file run $PARTS 2; oo1-file check $PARTS"
wanted=$(results)
sound="$((PARTS + 400)) parts, $((3 * PARTS + 1200)) connections, ... in 1000 near, types 3ff, \
x ... to ..., y ... to ..., built ... to ..., length ... to ..., sum ..., sound"
is "parts and connections are as OO1 has them" "$sound" \
    "$(part 0 | tail -n 1 | sed -E 's/ [0-9]+ in 1000/ ... in 1000/; s/-?[0-9]+ to [0-9]+/... to .../g; s/sum [0-9a-f]+/sum .../')"
near=$(part 0 | sed -n 's/.* \([0-9]*\) in 1000 near.*/\1/p')
ok "about 90 % of the connections lead to the nearest 1 %" test "$near" -gt 880 -a "$near" -lt 920
is "look-ups call the null procedure 1000 times, traversals 3280 times" "1000 1000 3280 3280" \
    "$(part 0 | awk -F '\t' '$1 == "lookup" || $1 == "traversal" { printf "%s%s", sep, $6; sep = " " }')"
is "mapped files have the results of volatile memory" "$wanted" "$(results 1)"
is "files have them, with nothing kept from one operation to the next" "$wanted" "$(results 2)"
is "... and from one process to the next" "$wanted" "$(results 3)"
guest "oo1-store create $PARTS"
guest "oo1-store run $PARTS 2; oo1-store check $PARTS"
is "a container has them, after a reboot" "$wanted" "$(results)"
is "an insertion of 100 parts is durable with one flush" "1 1 1 1" \
    "$(awk -F '\t' '$1 ~ /^insert/ { printf "%s%s", sep, $5; sep = " " }' <<<"$output")"

WITH=(--add "$TEST_TMP/oo1-objects")
guest "oo1-objects all heap random $PARTS 1"
wanted=$(results)
turn=0 # in `make test` one of them, another one each day
for where in order near congeries; do
    today $((turn++)) 3 || continue
    guest "oo1-objects create $where random $PARTS"
    guest "oo1-objects run $where random $PARTS 1; oo1-objects check $where random $PARTS"
    is "as objects, $where: the results of volatile memory, after a reboot" "$wanted" "$(results)"
done

WITH=(--add "$TEST_TMP/oo1-store")
guest "oo1-store run $PARTS 1" --kill-on "insert"
guest "oo1-store check $PARTS"
sizes="$((PARTS + 500)) parts, $((3 * PARTS + 1500)) connections
$((PARTS + 600)) parts, $((3 * PARTS + 1800)) connections"      # the next one may have been committed, too
ok "what was inserted before the power went is there, whole" grep -qx "$(sed 's/ns, .*/ns/' <<<"$output")" <<<"$sizes"
done_testing
