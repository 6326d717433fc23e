#!/bin/bash
# The kernel on a second machine: the ISO boots to the shell in Bochs, and guest tests that need no disk pass there,
# with 1 and 2 CPUs. BOCHS_TESTS= and BOCHS_CPUS= choose. Part of `make test-long`; `make test-bochs` runs this alone.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

# Left out are those that want a device (a disk, a stream, one that writes wild), counted instructions or planted bugs:
# Bochs has none of these, and the ISO's kernel is the one that is shipped. Those joined by + have the same memory and
# share a start, which takes longer than most of them; kernel_gone is first, as its versions are older than all others'.
TESTS=${BOCHS_TESTS:-kernel_advise kernel_ask kernel_forsaken kernel_groups kernel_late kernel_locks kernel_ports
    kernel_rights kernel_rules kernel_smp kernel_spill kernel_trace kernel_txn hostile_manager hostile_signal
    linux_process linux_refused linux_threads
    kernel_gone+kernel_badges+kernel_below+kernel_object_handle+kernel_take+kernel_unused
    kernel_dying+kernel_holder+kernel_parts+kernel_recall+kernel_stack+kernel_stack_history+kernel_unlocked
    kernel_mapping+kernel_plain+kernel_windows kernel_item_locks+kernel_items
    kernel_away+kernel_leaving kernel_limit kernel_overlap}

# memory_of NAME: the MiB that its .opts say, or 128.
memory_of() {
    local said
    said=$(sed -n 's/.*--memory \([0-9]*\).*/\1/p' tests/guest/*/"$1".opts 2>/dev/null)
    echo "${said:-128}"
}

# model_of NAME: the processor. One that sets keys at random needs one without: Bochs has them apply to the kernel's own
# memory, too (scripts/machines.md).
model_of() {
    case $1 in
        hostile_signal) echo broadwell_ult ;;
        *) echo corei7_icelake_u ;;
    esac
}

# guest CPUS NAME+...: all results of each are ok, as many as all planned, and the status is 0.
guest() {
    local status=0 first=${2%%+*} and=' && ' commands planned machine
    commands=${2//+/"$and"}
    machine="--cpus $1 --memory $(memory_of "$first") --model $(model_of "$first")"
    machine+=" --add build/tests/guest/${2//+/ --add build/tests/guest/}"
    # shellcheck disable=SC2086 # words
    scripts/bochs $machine --timeout 900 -c "$commands" --allow all \
        >"$TEST_TMP/out" 2>"$TEST_TMP/errors" || status=$?
    planned=$(awk -F '[.]+' '/^1[.][.]/ { n += $2 } END { print n }' "$TEST_TMP/out")
    if [ "$status" = 0 ] && ! grep -q '^not ok' "$TEST_TMP/out" &&
       [ "$planned" = "$(grep -c '^ok' "$TEST_TMP/out")" ]; then
        return 0
    fi
    echo "status $status; again: scripts/bochs $machine -c '$commands' --allow all"
    grep -A 5 '^not ok' "$TEST_TMP/out"
    tail -n 20 "$TEST_TMP/errors"
    return 1
}

typed=$(printf 'echo typed in\nhalt\n' | scripts/bochs --timeout 300 2>"$TEST_TMP/errors")
is the_iso_boots_to_the_shell_in_bochs 0 $?
ok the_shell_hears_what_is_typed grep -qx 'typed in' <<<"$typed"
is a_command_that_fails_is_seen to_fail_3 "$(scripts/bochs -c 'echo to_fail; exit 3' 2>/dev/null |
    tr -d '\n'; echo "_${PIPESTATUS[0]}")"
for cpus in ${BOCHS_CPUS:-1 2}; do
    for name in $TESTS; do
        ok "$name, $cpus CPUs" guest "$cpus" "$name"
    done
done
done_testing
