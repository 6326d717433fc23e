#!/bin/bash
# Stores that hit no object: lint names them at the commit, kstore check warns of pages that they made. What
# programs may do is not reported.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

cat >"$TEST_TMP/stray.c" <<'EOF'
#include <pstore.h>
#include <stdio.h>
#include <string.h>
struct root { char *small, *gone, *large, *spare; long n; };
static ps_container *c;
static int make(void *unused)
{
    struct root *r = ps_root(c);
    r->small = ps_alloc(c, 100, r);
    r->gone = ps_alloc(c, 100, r);
    r->large = ps_alloc(c, 100000, NULL);
    r->spare = ps_alloc(c, 40000, NULL);
    return (void)unused, r->spare ? 0 : -errno;
}
static int far(void *unused) { *(long *)((char *)ps_root(c) + (100 << 20)) = 1; return (void)unused, 0; }
static int forget(void *unused)
{
    struct root *r = ps_root(c);
    memset(r->gone, 1, 100);                    /* its last words are its own affair */
    memset(r->spare, 1, 40000);
    return (void)unused, ps_free(r->gone) || ps_free(r->spare);
}
static int freed(void *unused) { ((struct root *)ps_root(c))->gone[40] = 7; return (void)unused, 0; }
static int freed_large(void *unused) { ((struct root *)ps_root(c))->spare[20000] = 7; return (void)unused, 0; }
static int fine(void *unused)
{
    struct root *r = ps_root(c);
    void *some[300];
    memset(r->small, ++r->n, 100);
    memset(r->large, r->n, 100000);
    for (int i = 0; i < 300; i++) {
        some[i] = ps_alloc(c, 16 + i * 40, i & 1 ? r : NULL);
        memset(some[i], i | 1, 16 + i * 40);
    }
    for (int i = 0; i < 300; i += 3) ps_free(some[i]);
    return (void)unused, 0;
}
int main(int argc, char **argv)
{
    int (*what[])(void *) = {make, far, forget, freed, freed_large, fine};
    const char *names[] = {"make", "far", "forget", "freed", "freed_large", "fine"};
    c = ps_open("stray", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    for (int a = 1; a < argc; a++)
        for (int i = 0; i < 6; i++)
            if (strcmp(argv[a], names[i]) == 0) {
                fprintf(stderr, "== %s\n", names[i]);
                int e = ps_transaction(what[i], NULL);
                if (e) return printf("%s: %d\n", names[i], e), 1;
            }
    return 0;
}
EOF
scripts/katydid-cc "$TEST_TMP/stray.c" -o "$TEST_TMP/stray" || echo "Bail out! no stray"

# lints WORDS...: what ps_lint says of a run on the test's store.
lints() {
    scripts/run --store "$TEST_TMP/$1" --store-size 64M --add "$TEST_TMP/stray" -c "PS_LINT=1 stray ${*:2} 2>&1"
}
stray='a store to no object (freed, or never allocated); commit at .*stray.c:'

seen=$(lints s make fine forget fine fine)
is "nothing is said of what programs may do" "" "$(grep -v '^==' <<<"$seen")"
seen=$(lints s fine fine)
is "nor in the next boot" "" "$(grep -v '^==' <<<"$seen")"
ok "kstore check has nothing to warn of" grep -q 'sound: 0 damages, 0 warnings' <<<"$(build/host/kstore check "$TEST_TMP/s")"

lints t make forget >/dev/null
for what in far freed freed_large; do
    is "a store is reported: $what" 1 "$(lints t "$what" | grep -c "$stray")"
done
checked=$(build/host/kstore check "$TEST_TMP/t")
is "kstore check is not failed by them" 0 $?
ok "it warns of the two pages" grep -q '^warning: container stray: 2 written pages are of no object, the first at 0x2' <<<"$checked"
ok "and counts that" grep -q 'sound: 0 damages, 1 warnings' <<<"$checked"
done_testing
