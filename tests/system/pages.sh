#!/bin/bash
# The kernel's option pages=N: so many pages of containers are in memory at most, dirty ones are cleaned and go, too.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

scripts/katydid-cc -Ikernel/include tests/system/pages.c -o "$TEST_TMP/pages" || echo "Bail out! no pages"
most() {
    output=$(scripts/run --timeout 100 --add "$TEST_TMP/pages" "$@" -c pages 2>&1)
    output=${output//$'\r'/}
    echo "# $output"
    count=$(sed -n 's/^at most \([0-9]*\) pages, 0 wrong$/\1/p' <<<"$output")
}
most
ok "without it all stay" test "${count:-0}" -ge 600
most --append pages=150
# an eighth more may be there before whoever brings a page waits for the evictor, and a few are on their way meanwhile
ok "with it no more stay than it says, and those that are just coming" test "${count:-999}" -le 200
ok "and not many fewer" test "${count:-0}" -ge 100
done_testing
