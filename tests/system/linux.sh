#!/bin/bash
# Programs that use fork, execve, signals and threads, built with musl: the same binary runs here, on
# Linux, and in the guest, and must print the same and end with the same status.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

# output_of COMMAND...: what it prints, and its status.
output_of() {
    local status=0
    "$@" 2>/dev/null || status=$?
    echo "status $status"
}

# All in one guest, each behind a line with its name.
ADD=() commands=''
for source in tests/linux/*.c; do
    name=$(basename "$source" .c)
    scripts/katydid-cc -O2 "$source" -o "$TEST_TMP/$name" || echo "Bail out! $name"
    ADD+=(--add "$TEST_TMP/$name")
    commands+="echo == $name; /bin/$name; echo status \$?; "
done
katydid=$(output_of scripts/run --no-store --cpus 2 "${ADD[@]}" -c "$commands echo == checked; repeat 4 fork > /tmp/o && check")
for source in tests/linux/*.c; do
    name=$(basename "$source" .c)
    linux=$(output_of timeout 60 "$TEST_TMP/$name")
    is "$name prints on Katydid what it prints on Linux" "$linux" "$(sed -n "/^== $name\$/,/^== /{/^== /!p}" <<<"$katydid")"
    ok "$name says something" [ "$(wc -l <<<"$linux")" -gt 5 ]
done
is "the kernel's invariants hold after many forks" "status 0" "$(sed '1,/^== checked$/d' <<<"$katydid" | tail -n 1)"
done_testing
