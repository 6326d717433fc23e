#!/bin/bash
# A disk that was made larger: the next start of the store manager grows the store with it, and what was
# there is there; a start after that finds nothing to grow.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

STORE=$TEST_TMP/store
LOG=$TEST_TMP/kernel
guest() { scripts/run --timeout 60 --store "$STORE" --log "$LOG" -c "$1" 2>&1 | tr -d '\r'; }
grown() { grep -q 'store: the disk has grown, and the store with it' "$LOG"; }
not() { ! "$@"; }

build/host/kstore create --size 16 --force "$STORE" >/dev/null
is "a small store is used" "- milk" "$(guest 'todo add milk; todo')"
ok "it has not grown" not grown
truncate -s 80M "$STORE"
is "what was there is there after the disk has grown" "- milk" "$(guest todo)"
ok "the manager says that the store has grown" grown
ok "the host sees the new size" grep -q 'disk 80 MiB' <(build/host/kstore info "$STORE")
ok "and no damage" build/host/kstore check "$STORE"
is "the next start has it, too" "- milk" "$(guest todo)"
ok "and finds nothing to grow" not grown
done_testing
