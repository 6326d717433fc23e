#!/bin/bash
# The examples of libpstore/isolation.md, one for each level, of libpstore/items.md and libpstore/item-layer.md, compiled as
# they stand there and run; and items that LZ4 packs, where its source is.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

PROGRAM=$TEST_TMP/isolation
sed -n '/^```c$/,/^```$/p' libpstore/isolation.md | grep -v '^```' >"$PROGRAM.c"
cat >>"$PROGRAM.c" <<'C'
#include <stdio.h>
static struct account *poor, *middle, *rich;
static int open_accounts(void *unused) {
    struct root *r = ps_root(c);
    struct account **all[] = {&rich, &middle, &poor};
    (void)unused;
    for (long i = 0; i < 3; i++) {
        *all[i] = ps_new(c, struct account, r);
        **all[i] = (struct account){r->first, 300 - 100 * i};
        r->first = *all[i];
    }
    return 0;
}
static int index_is(void *right) {
    struct root *r = ps_root(c);
    *(int *)right = r->by_balance[0] == middle && r->by_balance[1] == rich;
    return 0;
}
int main(void) {
    long sum = 0, done = 0;
    int right = 0;
    c = ps_open("isolation", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || ps_transaction(open_accounts, NULL)) return 1;
    printf("serialisable %d\n", move(middle, poor, 150)); /* 100, 200, 300: there are 50 left */
    printf("serialisable, too much %d\n", move(middle, poor, 100) == -ERANGE);
    printf("container lock %d\n", index_again());
    if (ps_transaction(index_is, &right)) return 1;
    printf("index %d\n", right);
    right = audit(&sum);
    printf("snapshot %d %ld\n", right, sum);
    right = progress(&done);
    printf("dirty read %d %ld\n", right, done);
    return 0;
}
C

ok "the examples compile without a warning" scripts/katydid-cc -Werror "$PROGRAM.c" -o "$PROGRAM"
sed -n '/^```c$/,/^```$/p' libpstore/items.md | grep -v '^```' >"$TEST_TMP/items.c"
ok "that of items, too" scripts/katydid-cc -Werror "$TEST_TMP/items.c" -o "$TEST_TMP/items"
sed -n '/^```c$/,/^```$/p' libpstore/item-layer.md | grep -v '^```' >"$TEST_TMP/book.c"
ok "that of the item layer, too" scripts/katydid-cc -Werror "$TEST_TMP/book.c" -o "$TEST_TMP/book"
printf 'table town\n name char 16\n people long\n key name\ntable road\n number int\n km real\n key number\n' >"$TEST_TMP/map.schema"
ok "a schema becomes relations over items" scripts/katydid-schema --items "$TEST_TMP/map.schema" -o "$TEST_TMP/map.h"
cat >"$TEST_TMP/map.c" <<'C'
#include "map.h"
#include <stdio.h>
static ps_file *f;
static int fill(void *unused) {
    static const int32_t roads[] = {1, 66, 101};
    struct town_relation towns;
    struct road_relation all;
    ps_part *rows = ps_file_part(f, "rows");
    ps_container *index = ps_part_data(ps_file_part(f, "index"));
    int error = town_open(&towns, rows, index) ?: road_open(&all, rows, index)
                    ?: town_insert(&towns, &(struct town){"Brno", 400000});
    for (int i = 0; i < 3 && !error; i++) error = road_insert(&all, &(struct road){roads[i], roads[i] * 1.5});
    if (error || (error = road_delete(&all, &roads[1]))) return error;
    struct road_selection s = road_select(&all, NULL, NULL);
    double km = 0;
    for (const struct road *r; (r = road_next(&s));) km += r->km;
    const struct town *brno = town_find(&towns, (const town_key_ *)"Brno\0\0\0\0\0\0\0\0\0\0\0");
    if (brno) printf("map: %ld people, %.0f km\n", (long)brno->people, km);
    return 0;
}
int main(void) {
    static const struct ps_part_wish wish[] = {{.name = "rows", .flags = PS_PART_ITEMS}, {.name = "index"}};
    f = ps_file_open("map-file", PS_CREATE | PS_WRITE, wish, 2);
    return !f || ps_transaction(fill, NULL);
}
C
ok "and compiles" scripts/katydid-cc -Werror "$TEST_TMP/map.c" -o "$TEST_TMP/map"
printf 'table a\nx int\ny int\nkey x y\n' >"$TEST_TMP/two"
is "one of two fields in its key is refused" "over items a table has one key, of one field: \`a\`" \
    "$(scripts/katydid-schema --items "$TEST_TMP/two" 2>&1)"
ADD=(--add "$TEST_TMP/map" --add "$PROGRAM" --add "$TEST_TMP/items" --add "$TEST_TMP/book") LZ4=build/obj/guest/lz4/lz4.o PACKED='' PACKS=()
if [ -e $LZ4 ]; then
    ok "a type that LZ4 packs compiles" scripts/katydid-cc "-I$(scripts/source lz4 --where)" tests/system/item-layer-lz4.c $LZ4 -o "$TEST_TMP/packs"
    ADD+=(--add "$TEST_TMP/packs") PACKED='; packs grow; packs' PACKS=('lz4: moved behind its header' 'lz4: equal, a fifth or less')
fi
scripts/run --timeout 60 "${ADD[@]}" -c "isolation; items; containers; book; book; map$PACKED" 2>&1 | tr -d '\r' >"$TEST_TMP/out"
for line in 'serialisable 0' 'serialisable, too much 1' 'container lock 0' 'index 1' 'snapshot 0 600' 'dirty read 0 1' \
    'items 0 100000' '.*KiB.*items.*items' 'Ada: 5000001, pays late; 2000 bytes, kept in 9; 1 busy' 'map: 400000 people, 153 km' "${PACKS[@]}"
do
    ok "an example does what its text says: $line" grep -qx "$line" "$TEST_TMP/out"
done
done_testing
