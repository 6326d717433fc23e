#!/bin/bash
# The store manager's death at steps of a commit or checkpoint that tests/guest/store/store_death.opts has
# no room for; each second life dies at another one.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel

# deaths LIST [PROGRAM SIZE WORDS OPTIONS...]: the guest's test with these, and the host looks at what is left.
deaths() {
    local status=0 output program=${2:-store_death} size=${3:-64M}
    rm -f "$STORE"
    output=$(scripts/run --timeout 300 --store "$STORE" --store-size "$size" --log "$LOG" "${@:5}" \
        --allow all --add "build/tests/guest/${program%% *}" --append "store.die=$1 ${4:-}" -c "$program" 2>&1) || status=$?
    is "deaths at $1: all or nothing, each time" 0 "$status"
    [ "$status" -eq 0 ] || sed 's/^/# /' <<<"$output"
    ok "the manager has said at which step it ends" grep -q 'store: ends at step' "$LOG"
    ok "the host finds no damage" build/host/kstore check "$STORE"
}

# In `make test` half of these, the others on the next day.
! today 0 2 || deaths CK2:1,CK4:1,CM5f:1,CM6:1,CM5w:1
! today 1 2 || deaths CK1:1,CK2:2,CK3:1,CK4:2,CM4:1,CM5:1
if [ "${TEST_TIER:-test}" = long ]; then
    deaths SS1:2,SS2:1,SS3:2,SS4:5 'pstore_spill steps 4' 1G store.log_mib=192 --memory 32
elif today 1 2; then
    deaths SS1:2,SS4:5 'pstore_spill steps 2' 1G store.log_mib=192 --memory 32
fi
! today 0 2 || deaths SS5:40,SS5:3,CM5:1 'pstore_bulk steps 3' 64M store.log_mib=4 --memory 32

# The next program does not hear "not running": init starts the manager again, and it waits for that. The manager
# dies before it publishes the commit of the one before, so nobody else is at work then.
rm -f "$STORE"
output=$(scripts/run --timeout 100 --store "$STORE" --store-size 16M --log "$LOG" --append "store.die=CM6:2" \
    -c 'todo add milk; todo add eggs; todo add bread; todo' 2>&1) || true
output=${output//$'\r'/}
ok "whoever comes right after the manager's death waits for the next one" grep -qx -- '- bread' <<<"$output"
is "one hears of it, whose commit is durable" 1:3 \
    "$(grep -c 'the store manager died' <<<"$output"):$(grep -cE -- '- (milk|eggs|bread)$' <<<"$output")"
ok "nobody was told that it is not running" test "$(grep -c 'not running' <<<"$output")" -eq 0
ok "it did die" grep -q 'store: ends at step' "$LOG"
output=$(scripts/run --timeout 100 --no-store --log "$LOG" -c 'todo' 2>&1) || true
ok "without a store nobody waits" grep -q 'not running' <<<"$output"

done_testing
