#!/bin/bash
# A store that a guard finds is told with container, place and remedy (libpstore/protection.md); a processor without
# protection keys has a guard that finds what is found by pages.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

cat >"$TEST_TMP/stray.c" <<'C'
#include <pstore.h>
struct root { long number[1024]; };
static ps_container *c;
static int stray(void *items) {
    struct root *r = ps_root(c);
    if (!r || (items && !ps_write(&r->number[8]))) return -1;
    if (items) ps_release(&r->number[8]);
    r->number[items ? 9 : 1000] = 1;
    return 0;
}
int main(int argc, char **argv) {
    (void)argv;
    c = ps_open("strays", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c || ps_locking(c, argc > 1 ? PS_LOCK_ITEMS : PS_LOCK_PAGES) || ps_protection(c, PS_PROTECT_GUARD))
        return 2;
    return ps_transaction(stray, argc > 1 ? c : NULL) != 0;
}
C
ok "a program that stores where it did not say so" scripts/katydid-cc "$TEST_TMP/stray.c" -o "$TEST_TMP/stray"

said() { # OPTIONS... -- COMMAND...
    scripts/run --store-size 256M --add "$TEST_TMP/stray" --timeout 100 "$@" 2>&1 | tr -d '\r' |
        sed -n 's/.*killed: \(container.*\), at stray.*/\1/p; s/^ *\(stray at\) .*stray.c:\([0-9]*\).*/\1 line \2/p; s/^status .*/&/p'
}
HEX='s/0x20*[1-9a-f][0-9a-f]*/PLACE/'
is "in page mode: the page" "container strays is guarded, and the page was not touched (ps_touch, ps_write): store to PLACE
stray at line 8" "$(said -c stray | sed "$HEX" | sort -u)"
is "in item mode: no access is open" "container strays is guarded, and no access is open (ps_write opens one): store to PLACE
stray at line 8" "$(said -c 'stray items' | sed "$HEX" | sort -u)"
is "without protection keys: the page still" "container strays is guarded, and the page was not touched (ps_touch, ps_write): store to PLACE
stray at line 8" "$(said --qemu='-cpu max,-erms,-pku' -c stray | sed "$HEX" | sort -u)"
is "... and a store between accesses is left to the commit" "status 0" \
    "$(said --qemu='-cpu max,-erms,-pku' -c 'stray items; echo status $?' | sort -u)"
done_testing
