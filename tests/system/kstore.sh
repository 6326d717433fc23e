#!/bin/bash
# kstore and the stores of guests: what it shows of one that a program filled; and one in use, which lost commits
# to `kstore grow`: it is read, and not written to.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
guest() { scripts/run --timeout 60 --store "$STORE" --store-size 64M "${@:2}" -c "$1" 2>&1 | tr -d '\r'; }

# --- named objects and encoders ---
cat >"$TEST_TMP/names.c" <<'EOF'
#include <pstore.h>
static ps_container *c;
static int make(void *unused)
{
    return unused || !ps_named(c, "second", 200) || !ps_named(c, "first", 100);
}
int main(void)
{
    static const char *const names[] = {"by-difference", "by-page", "by-range", "by-choice"};
    for (int encoder = PS_ENCODE_DIFF; encoder <= PS_ENCODE_ADAPTIVE; encoder++) {
        c = ps_open(names[encoder], PS_CREATE | PS_WRITE, 0);
        if (!c || ps_encoder(c, encoder) || ps_transaction(make, 0)) return 1;
    }
    return 0;
}
EOF
(cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" names.c -o names) || echo "Bail out! no names"
is "a program makes containers and names" "0" "$(guest 'names; echo $?' --add "$TEST_TMP/names")"
encoders='by-difference difference by-page full by-range ranges by-choice adaptive'
# listed COMMAND PATH: containers with their encoders and names, as its JSON has them.
listed() {
    build/host/kstore "$1" --json "$2" | python3 -c '
import json, sys
shown = json.load(sys.stdin)
for c in shown.get("objects") or shown["containers"]:
    if c["name"].startswith("by-"):
        print(c["name"], c["encoder"], [(n["name"], n["address"] - c["address"] > 0, n["bytes"]) for n in c["names"]])'
}
wanted=$(printf "%s %s [('first', True, 100), ('second', True, 200)]\n" $encoders)
is "info --json shows encoders and names" "$wanted" "$(listed info "$STORE")"
is "dump --json, too" "$wanted" "$(listed dump "$STORE")"
# and the same as text, without numbers
texts() { grep -A2 ' by-' | grep -oE 'by-[a-z]*|encoder [a-z]*|^    (first|second) .*0x2.* bytes$' | sed 's/encoder //; s/ *0x[^,]*//' | xargs; }
wanted=$(printf '%s %s first, 100 bytes second, 200 bytes ' $encoders | xargs)
is "info shows them" "$wanted" "$(build/host/kstore info "$STORE" | texts)"
is "dump --objects, too" "$wanted" "$(build/host/kstore dump --objects "$STORE" | texts)"
build/host/kstore salvage "$STORE" "$TEST_TMP/saved" >/dev/null
is "and of what was salvaged the same" "$(build/host/kstore info "$STORE" | grep -A2 ' by-')" \
    "$(build/host/kstore info "$TEST_TMP/saved" | grep -A2 ' by-')"

# --- a store in use ---
build/host/kstore create --size 16 "$TEST_TMP/other" >/dev/null
coproc GUEST { exec scripts/run --timeout 60 --store "$STORE" 2>&1; }
guest=$GUEST_PID
exec 3<&"${GUEST[0]}" 4>&"${GUEST[1]}"
# see TEXT: reads on until the guest has said it.
see() {
    local character new=
    while [[ $new != *"$1"* ]] && IFS= read -r -d '' -n 1 -t 60 character <&3; do
        new+=$character
    done
    [[ $new == *"$1"* ]]
}
ok "a guest is started" see 'katydid> '
printf 'todo add bread; todo\r' >&4
ok "and commits" see '- bread'
refused() {
    local output status=0
    output=$(build/host/kstore "$@" 2>&1) || status=$?
    echo "$output"
    [ "$status" = 3 ] && grep -q 'in use by a QEMU' <<<"$output"
}
ok "its store is not grown from outside" refused grow "$STORE" 160M
ok "nor made anew" refused create --force "$STORE"
ok "nor put into" refused put "$STORE" name README.md
ok "nor overwritten by what is saved of another" refused salvage --force "$TEST_TMP/other" "$STORE"
for command in info check dump log map; do
    ok "it is read: $command" build/host/kstore $command "$STORE"
done
printf 'todo add eggs; halt\r' >&4
cat <&3 >"$TEST_TMP/rest"
wait "$guest"
is "what was committed before and after is there" "- eggs - bread" "$(guest todo | xargs)"
ok "and no damage" build/host/kstore check "$STORE"
done_testing
