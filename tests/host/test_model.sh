#!/bin/bash
# The model of the transaction protocol (tests/model): the protocol passes, and a rule that is switched
# is noticed: one in eight of those that have a planted bug in the kernel, too, but for FAR, of those a quarter by SEED (the day), of
# the small models those of every second one; all with TEST_TIER=long, which also explores N (30, times TIMES) random scenarios from SEED on.
cd "$(dirname "$0")/../.." || exit 1
MODEL=build/tests/model
FAR='EVICT_COMM|DIFF_PLACE|WRITER_AT_FLIP|RECALL_LAST|ASK_KEPT|CLOCK_TLB|LOCK_UNTOUCHED'    # noticed behind millions of states
half() { # NAME: each second one of these, by SEED (the day), but for the long tier
    [ "${TEST_TIER:-test}" = long ] || [ $(((${SEED:-$(($(date +%s) / 86400))} + ++turn) % 2)) = 0 ]
}
for small in index parts stack holders codewords guards overlap freed; do # complete, five seconds
    build/tests/model-$small check || exit 1
    ! half || build/tests/model-$small teeth || exit 1
done
for small in rights items item_locks; do # grants, locks finer than a page: complete, four seconds; rules that few scenarios notice
    build/tests/model-$small check || exit 1
done
for small in cached skew local pause snaps again hold hold2 own late cut2 order5 lock lockdead worker ticket; do
    build/tests/model-sites check $small || exit 1      # pages of other machines, and a spare: two seconds
done
for small in new votec clock; do
    build/tests/model-spare check $small || exit 1
done
quarter() { # NAME ...: one in four, by SEED (the day)
    local seed=${SEED:-$(($(date +%s) / 86400))}
    for ((i = seed % 4 + 1; i <= $#; i += 4)); do echo "${!i}"; done
}
case ${TEST_TIER:-test} in
test)
    for rule in $(quarter GONE_ANY CLIENT_DECIDES SNAP_STILL STILL_SHOWS STILL_VOTES HOLD_SNAPPED SNAP_DOUBT HOLD_COMMITS DRAIN_IDLE NO_WORKER_EDGE OLD_VICTIM); do
        build/tests/model-sites teeth "$rule" || exit 1
    done
    for rule in $(quarter ASYNC_ACK MATE_BEHIND NO_FREEZE HOME_APPLIES); do
        build/tests/model-spare teeth "$rule" || exit 1
    done
    for rule in $(quarter SNAP_IDLE EVICT_EMPTY LIMIT_BLIND WATCH_LATE KIND_LATE BASE_REWOUND); do
        build/tests/model-items teeth "$rule" || exit 1
    done
    for rule in $(quarter STALE_UNLOCKED PLAIN_BIT LIST_LATE KEEP_EDGES GRANT_KEEPS); do
        build/tests/model-item_locks teeth "$rule" || exit 1
    done
    for rule in $(quarter GROW DEATH_KEEPS WALK_GROWS REVOKE_ONE); do
        build/tests/model-rights teeth "$rule" || exit 1
    done ;;
long)
    for small in sites spare; do
        build/tests/model-$small check && build/tests/model-$small teeth || exit 1
    done
    build/tests/model-rights teeth && build/tests/model-item_locks teeth && build/tests/model-items teeth &&
        build/tests/model-items sweep $((200 * ${TIMES:-1})) "${SEED:-1}" || exit 1 ;;
esac
case ${TEST_TIER:-test} in
check) LIMIT=15000 "$MODEL" check ;;
test)
    LIMIT=15000 "$MODEL" check || exit 1
    for rule in BUG_LAZY_ORDER BUG_LAZY_HOME \
        $(sed -n 's/^Rule: \(\(TEXT\|BUG\)_.*\)/\1/p' tests/bugs/kernel/*.patch | grep -Ev "$FAR" | sed -n "$((${SEED:-$(($(date +%s) / 86400))} % 4 * 8 + 1))~32p"); do
        "$MODEL" teeth "$rule" || exit 1
    done ;;
long) "$MODEL" check && "$MODEL" teeth && "$MODEL" sweep "${SEED:-1}" "${N:-$((30 * ${TIMES:-1}))}" ;;
esac
