#!/bin/bash
# Many containers: the shell lists all of them.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

seen=$(scripts/run --add build/tests/guest/pstore_many -c 'pstore_many >/tmp/out; containers' 2>&1)
is "containers lists each of 70" 70 "$(grep -cE '^ +[0-9]+ KiB  0x[0-9a-f]+  many000[0-9]+  \(struct page, version 1\)$' <<<"$seen")"
done_testing
