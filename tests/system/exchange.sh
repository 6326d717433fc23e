#!/bin/bash
# The telephone exchange: several operators at once, and what they billed adds up whenever the power is cut
# (tests/system/power-cuts.sh); what it shows, and what it is told that makes no sense.
# shellcheck source=tests/system/power-cuts.sh
[ "${TEST_TIER:-test}" = long ] || STATES=${STATES:-1}
STATES=${STATES:-3}
. "$(dirname "$0")/power-cuts.sh"

[ "${TEST_TIER:-test}" = long ] || KEEPS=none
OPERATORS=3 EACH=15 ALL=45
CHECK="exchange check" STEP='s/^exchange: ([0-9]+) calls, .* equal$/\1/p'
guest --store "$BASE" -c "exchange --lines 300 check; exchange find 5000000; exchange find 4999999"
is "all begins without calls; a subscriber is found, and who is none is not" \
    "1:exchange: 0 calls, 0 seconds; 300 subscribers have 30000000: equal
5000000: credit 100000, 0 calls, 0 seconds
exchange: there is nothing of that name or key" "$status:$output"
recorded "exchange --operators $OPERATORS --updates 30 --calls $EACH; exchange check"
is "operators at once: credit, calls and seconds add up; all is there at the next start" 2 \
    "$(grep -Ec "^exchange: $ALL calls, [0-9]+ seconds; 300 subscribers have 30000000: equal$" <<<"$output")"
ok "requests are counted, and none failed" grep -Eq "^exchange: [0-9]+ look-ups, $ALL calls, 0 failed$" <<<"$output"
# look-ups, calls, waits, commits a flush; p50, p99 and longest of both, which are in that order
ok "rates and latencies are shown" awk '/^all of it:/ { getline
    exit !(NF == 10 && $1 > 0 && $2 > 0 && $4 > 0 && 0 < $5 && $5 <= $6 && $6 <= $7 && 0 < $8 && $8 <= $9 && $9 <= $10) }' \
    <<<"$output"
cuts 0 "$ALL"
guest --no-store -c "exchange --operators 17; exchange --calls; exchange check now; exchange --help"
is "what makes no sense, and --help, are told how it is used" "0:4" "$status:$(grep -c '^usage: exchange' <<<"$output")"
done_testing
