#!/bin/bash
# Runs that repeat: by a seed to the instruction, by QEMU's record and replay with disks and keys.
# Runs once: what repeats has one CPU.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

cat >"$TEST_TMP/count.c" <<'EOF'
#include <stdio.h>
#include <sys/auxv.h>
#include <x86intrin.h>
int main(void)
{
    const unsigned long *random = (const unsigned long *)getauxval(AT_RANDOM);
    printf("%016lx%016lx\n%llu instructions\n", random[0], random[1], (unsigned long long)__rdtsc());
}
EOF
(cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" count.c -o count) || echo "Bail out! no count"

# --- by a seed ---
for cpus in 1 2; do
    for try in $(seq $((3 * cpus - 2))); do     # of two CPUs one pair in some tens parts (CONTRIBUTING.md)
        for run in 1 2; do
            scripts/run --icount --seed 7 --no-store --cpus $cpus --add "$TEST_TMP/count" \
                -c 'count; ps | count; exit 3' >"$TEST_TMP/$cpus.$run" 2>"$TEST_TMP/error"
        done
        cmp -s "$TEST_TMP/$cpus.1" "$TEST_TMP/$cpus.2" && break
        echo "# try $try: two runs of $cpus CPUs parted"
    done
    is "seed: $cpus CPUs do the same to the instruction" "$(cat "$TEST_TMP/$cpus.1")" "$(cat "$TEST_TMP/$cpus.2")"
done
ok "seed: the guest counted" grep -qE '^[0-9]{7,} instructions$' "$TEST_TMP/1.1"
is "seed: a failure prints the command" \
    "scripts/run: again: scripts/run --icount --seed 7 --no-store --cpus 2 --add $TEST_TMP/count -c 'count; ps | count; exit 3'" \
    "$(cat "$TEST_TMP/error")"
scripts/run --icount --seed 8 --no-store --add "$TEST_TMP/count" -c count >"$TEST_TMP/other"
ok "seed: another one gives other random bytes" test "$(sed 1q "$TEST_TMP/other")" != "$(sed 1q "$TEST_TMP/1.1")"

# --- by record and replay ---
rr=$TEST_TMP/rr
mkdir "$TEST_TMP/in"
seq 1 999 >"$TEST_TMP/in/numbers"
scripts/run --replay-record "$rr" --seed 7 --store "$TEST_TMP/store" --store-size 1M \
    --store2 "$TEST_TMP/store2" --import "$TEST_TMP/in" \
    --add "$TEST_TMP/count" --log "$TEST_TMP/log1" -c 'todo add milk; PS_STORE=store2; todo add bread; todo; count; ls /import; ps; no-such' \
    >"$TEST_TMP/out1" 2>"$TEST_TMP/error"
is "record: the status is the guest's" 127 $?
ok "record: the run did its work" grep -qx -- '- bread' "$TEST_TMP/out1"
is "record: a failure prints the command" "scripts/run: again: scripts/run --replay $rr # or with --gdb" \
    "$(cat "$TEST_TMP/error")"
rm "$TEST_TMP/store" "$TEST_TMP/store2" "$TEST_TMP/count"
scripts/run --replay "$rr" --log "$TEST_TMP/log2" >"$TEST_TMP/out2" 2>&1
is "replay: the status is the same" 127 $?
is "replay: the output is the same, instruction counts too" "$(cat "$TEST_TMP/out1")" "$(cat "$TEST_TMP/out2")"
ok "replay: the kernel's log is the same, times too" cmp "$TEST_TMP/log1" "$TEST_TMP/log2"
ok "replay: no disk was made or changed" test ! -e "$TEST_TMP/store"

# gdb watches the same commit each time, and looks into the store's pages
port=$((10000 + $$ % 20000))
for run in 1 2; do
    scripts/run --replay "$rr" --gdb $port >/dev/null 2>&1 &
    timeout 200 gdb -nx -batch -ex 'set tcp connect-timeout 60' -ex 'set remotetimeout 120' -ex "file $rr/kernel.elf" \
        -ex 'source scripts/gdb/katydid.py' -ex "target remote 127.0.0.1:$port" -ex 'break kd_txn_commit' -ex continue \
        -ex 'kd-process' -ex 'kd-page 0x200000000000' -ex 'p $rsp' -ex kill >"$TEST_TMP/gdb$run" 2>&1
    wait $!
done
ok "replay: gdb stops in a commit" grep -q 'Breakpoint 1, kd_txn_commit' "$TEST_TMP/gdb1"
ok "replay: gdb shows the page that is being written" grep -q '^  writer: view .*active' "$TEST_TMP/gdb1"
ok "replay: gdb sees the same each time" cmp "$TEST_TMP/gdb1" "$TEST_TMP/gdb2"

scripts/run --replay-record "$rr-2" --no-store --kill-on second -c 'echo first; echo second; sleep 1000' \
    >/dev/null 2>&1
ok "replay: a run that was cut off, up to there" grep -qx second <(scripts/run --replay "$rr-2" 2>/dev/null)

# keys: a run without -c takes them from its input
coproc GUEST { exec scripts/run --replay-record "$rr-3" --no-store 2>/dev/null; }
guest=$GUEST_PID
exec 3<&"${GUEST[0]}" 4>&"${GUEST[1]}"
seen=
# see TEXT: reads on until the guest has said it.
see() {
    local character new=
    while [[ $new != *"$1"* ]] && IFS= read -r -d '' -n 1 -t 60 character <&3; do
        new+=$character
    done
    seen+=$new
}
see 'katydid> '
printf 'echo typed' >&4
see 'echo typed'
printf ' in\r' >&4
see $'\ntyped in'
see 'katydid> '
printf 'halt\r' >&4
seen+=$(cat <&3)
wait "$guest"
is "record: a run with keys ends" 0 $?
ok "record: keys arrive" grep -qx 'typed in' <<<"${seen//$'\r'/}"
is "replay: keys are typed again" "$seen" "$(scripts/run --replay "$rr-3" </dev/null 2>/dev/null)"

scripts/run --replay-record "$rr-4" --cpus 2 --no-store -c true 2>"$TEST_TMP/error"
is "record: more than one CPU is refused" 2 $?
ok "record: and it is said why" grep -q 'QEMU can replay only one CPU' "$TEST_TMP/error"
done_testing
