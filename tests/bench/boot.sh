#!/bin/bash
# Group boot: from QEMU's start to the shell's prompt, by PVH; and the size of the ISO.
set -eu
cd "$(dirname "$0")/../.."

# The prompt is awaited, not printed by us: the best of five, as the host is shared.
best_ms() {
    local best=999999 start end round
    for round in 1 2 3 4 5; do
        start=$(date +%s%N)
        "$@" >/dev/null || { echo "round $round failed: $*" >&2; return 1; }
        end=$(date +%s%N)
        [ $(((end - start) / 1000000)) -ge $best ] || best=$(((end - start) / 1000000))
    done
    echo "$best"
}

prompt=${PROMPT:-katydid> }
printf 'boot: QEMU start to prompt, PVH, TCG\tms\t%s\t500\n' \
    "$(best_ms scripts/run --no-store --kill-on "$prompt" --timeout 20)"
printf "boot: to the end of -c true\tms\t%s\t-\n" "$(best_ms scripts/run --no-store -c true)"
printf 'size of the ISO\tbytes\t%s\t8000000\n' "$(stat -c %s build/katydid.iso)"
