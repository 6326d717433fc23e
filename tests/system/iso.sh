#!/bin/bash
# The ISO boots by BIOS and by UEFI, runs a command and what is typed; it is small.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

[ -e build/katydid.iso ] || { echo "Bail out! no build/katydid.iso: make iso"; exit 1; }
boot() { scripts/run "$@" --no-store --timeout 280 -c 'echo booted' 2>"$TEST_TMP/stderr" || cat "$TEST_TMP/stderr"; }

is iso_boots_by_bios booted "$(boot --iso)"
typed_by='--uefi'                       # and by BIOS in the long tier
[ "${TEST_TIER:-test}" != long ] || typed_by='--iso --uefi'
for firmware in $typed_by; do
    typed=$(printf 'echo hi\nhalt\n' | scripts/run "$firmware" --no-store --timeout 200 2>&1)
    ok "what is piped in through GRUB is all there: $firmware" grep -qx hi <<<"$(tr -d '\r' <<<"$typed")" || tail -n 20 <<<"$typed" | sed 's/^/# /'
done
ok iso_is_under_8_mb test "$(stat -c %s build/katydid.iso)" -lt 8000000

done_testing
