#!/bin/bash
# A large disk in a machine of little memory: what can be made and written there can be recovered, saved and
# closed there; and a disk whose store could not be opened stays blank, with a message that says how
# much memory it takes.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel
MEMORY=64
PAGES=2400
[ "${TEST_TIER:-test}" != long ] || PAGES=6000

# Writes pages, in the log only if the machine dies then, or sums them up.
cat >"$TEST_TMP/many.c" <<END
#include <pstore.h>
#include <stdio.h>
struct root { unsigned long *page[$PAGES]; };
static ps_container *c;
static int at;
static int some(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    for (int i = at; i < at + 100; i++) {
        root->page[i] = ps_alloc(c, 4096, NULL);
        if (!root->page[i]) return -28;
        for (int k = 0; k < 512; k++) root->page[i][k] = (unsigned long)i * k;
    }
    return 0;
}
static int wrong(void *sum)
{
    struct root *root = ps_root(c);
    for (int i = 0; i < $PAGES; i++)
        for (int k = 0; k < 512; k++) *(int *)sum += root->page[i][k] != (unsigned long)i * k;
    return 0;
}
int main(int argc, char **argv)
{
    int sum = 0, error = 0;
    (void)argv;
    c = ps_open("many", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c) return 1;
    for (; argc > 1 && at < $PAGES && !error; at += 100) error = ps_transaction(some, NULL);
    if (!error) error = ps_transaction(wrong, &sum);
    printf("%d pages, %d wrong words, error %d\n", $PAGES, sum, error);
    return error != 0;
}
END
(cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" many.c -o many) || echo "Bail out! no many"

guest() {
    scripts/run --timeout 100 --memory $MEMORY --store "$STORE" --log "$LOG" --add "$TEST_TMP/many" \
        "$@" 2>&1 | tr -d '\r'
}
says() { grep -aq "$1" "$LOG"; }
not() { ! "$@"; }

truncate -s 16G "$STORE"
guest --kill-on 'all written' -c 'many write; echo all written; sleep 30' >/dev/null
is "after a power cut the same memory suffices, and nothing is lost" \
    "$PAGES pages, 0 wrong words, error 0" "$(guest -c many)"
ok "it had not been closed" not says 'store: clean'
ok "and was closed" says 'store: closed'
is "the next start finds it closed" "$PAGES pages, 0 wrong words, error 0" "$(guest -c many)"
ok "as it says" says 'store: clean'
ok "the host finds no damage" build/host/kstore check --quiet "$STORE"

rm -f "$STORE"
truncate -s 128G "$STORE"
guest -c 'echo up' >/dev/null
ok "a disk too large for this memory is left blank, and the message says what it takes" \
    says 'the blank disk is left blank: a store of 131072 MiB needs [0-9]* MiB of memory'
is "nothing was written to it" 0 "$(du --block-size=1 "$STORE" | cut -f1)"
done_testing
