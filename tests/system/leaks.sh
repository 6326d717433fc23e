#!/bin/bash
# kstore objects and kstore leaks, on containers that a program filled: what is counted by type, and exactly the
# objects that nothing leads to are told. kstore check warns of slots and of arenas that a program has spoilt.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/s PROGRAM=$TEST_TMP/leaks
scripts/katydid-cc tests/system/leaks.c -o "$PROGRAM" || echo "Bail out! no leaks"
leaks() { scripts/run --store "$STORE" --store-size 64M --add "$PROGRAM" -c "leaks $*" 2>&1; }
# told COMMAND...: its table, without the width of columns.
told() { build/host/kstore "$@" "$STORE" | tr -s ' '; }

leaks make across
is "objects are counted by type, by the texts of the program" "container leaky: 809 objects, 151488 bytes
 1 objects 100000 bytes (no type)
 803 objects 51392 bytes struct node
 1 objects 32 bytes struct root
 1 objects 16 bytes (an arena)
 1 objects 16 bytes struct packed
 1 objects 16 bytes struct far
 1 objects 16 bytes (with a name)
container other: 1 object, 16 bytes
 1 objects 16 bytes (with a name)" "$(told objects --program "$PROGRAM")"
is "the root's type is known without it, others are numbers" "1 1" \
    "$(told objects | grep -c 'struct root$') $(told objects | grep -cE '^ 803 .* type 0x[0-9a-f]+$')"
is "as JSON, too" "803 51392" "$(build/host/kstore objects --json -p "$PROGRAM" "$STORE" | python3 -c '
import json, sys
print(*[(t["objects"], t["bytes"]) for c in json.load(sys.stdin)["containers"] for t in c["types"]
        if t["type"] == "struct node"][0])')"
is "nothing is lost: by names, packed, over two pages, to the middle, across containers, in an arena" \
    "no leaks among 810 objects" "$(told leaks)"
leaks keep
is "nor is what only a server-kept index leads to" "no leaks among 812 objects" "$(told leaks)"
ok "kstore check has nothing to warn of" grep -q '0 damages, 0 warnings' <<<"$(build/host/kstore check "$STORE")"

leaks leak
is "exactly what was lost is told, also what leads to itself" "container leaky: 5 objects, 20160 bytes
 1 objects 20000 bytes (no type)
 2 objects 128 bytes struct node
 1 objects 16 bytes (an arena)
 1 objects 16 bytes struct far" "$(told leaks -p "$PROGRAM")"
is "each of them has an address" 5 "$(build/host/kstore leaks --each "$STORE" | grep -c '^    0x2')"

leaks spoil
ok "check warns of spoilt slots" grep -q '^warning: container leaky: the slots of 1 pages are spoilt.*SL3' \
    <<<"$(build/host/kstore check "$STORE")"
leaks spoil tear
is "and of an arena whose list has not all its pages" 1 "$(build/host/kstore check "$STORE" |
    grep -c '^warning: container leaky: .* pages or lists of arenas do not fit.*AR2')"
done_testing
