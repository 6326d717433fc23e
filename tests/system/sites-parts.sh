#!/bin/bash
# One transaction over the containers of two homes, or of a home and the machine's own store: both have all of it or
# nothing, each program is told which, and nobody waits for ever, while links break at each message, each process of
# the two-phase commit is killed, and machines end (user/sites/remote.md). One of these three a day, but in the long tier.
# Waits: for leases, and for programs that are killed at times.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
common="--cpus 1 --memory 96 --link lease=1000 --allow processes --add build/tests/sites/transfers"
seeds=${N:-1} first=${SEED:-1} part=6               # so many tenths of the moves, and of the frames at which links break
[ "${TEST_TIER:-test}" != long ] || seeds=${N:-$((10 * ${TIMES:-1}))} part=10

kills() { # SECONDS PROGRAM ...
    while (($#)); do echo -n "sleep $1; transfers a b kill:$2; "; shift 2; done
}
plan() { # FOLDER OPTIONS COMMANDS KILLS-AT-ONE KILLS-AT-TWO
    cat <<PLAN
server one $common --store $1/one --zone 0 : transfers box box create; store export box far write; $4 sleep 1000
server two $common --store $1/two --zone 1 : transfers box box create; store export box far write; $5 sleep 1000
site far $common $2 : $3
link one far
link two far
link one two
PLAN
}
same() { # NAME MOVES LINES STORES ...
    local name=$1 folder=$TEST_TMP/$2 lines=$3
    shift 3
    scripts/sites --seed "$seed" --verbose --timeout 400 "$folder/plan" >"$folder/said" 2>&1
    ok "$name: all or nothing, in both, as was told" test "$(grep -c 'moves in both\|all right' "$folder/said")" = "$lines"
    grep '^far: .*\(moves\|looks\)' "$folder/said" | sed 's/^/# /'
    [ "$(grep -c 'moves in both\|all right' "$folder/said")" = "$lines" ] || sed 's/^/# /' "$folder/said" | tail -40
    for store in "$@"; do
        ok "$name: store $store is as it should be" build/host/kstore check --strict --quiet "$folder/$store"
    done
}

for ((seed = first; seed < first + seeds; seed++)); do
    mkdir -p "$TEST_TMP/cuts" "$TEST_TMP/kills" "$TEST_TMP/own"
    if today 0 3; then
        # each message of about ten transactions one after the other, in all four directions
        { plan "$TEST_TMP/cuts" --no-store "transfers one:box two:box open moves=$((8 * part))" '' ''
        for n in $(seq 40 11 $((30 * part))); do
            printf 'at one>far %d cut\nat far>one %d cut\nat two>far %d cut\nat far>two %d cut\n' \
                $((n + seed)) $((n + 3 + seed)) $((n + 5 + seed)) $((n + 8 + seed))
        done; } >"$TEST_TMP/cuts/plan"
        same "seed $seed, links cut" cuts 1 one two
    fi
    if today 1 3; then
        { plan "$TEST_TMP/kills" --no-store "transfers one:box two:box open moves=$((10 * part)) & transfers two:box one:box open number=1 moves=$((10 * part)) & $(kills 4 remote 3 link) wait" \
            "$(kills 3 agent 1 store 1 link 1 agent)" "$(kills 4 store 1 agent 1 link 1 store)"
        printf 'at two>far %d kill two again\nat one>far %d kill one again\n' $((30 * part)) $((40 * part)); } >"$TEST_TMP/kills/plan"
        same "seed $seed, programs and homes killed" kills 2 one two
    fi
    if today 2 3; then
        { plan "$TEST_TMP/own" "--store $TEST_TMP/own/far --zone 2" \
            "transfers box x:x create; transfers box one:box open moves=$((10 * part)) & transfers one:box box open number=1 moves=$((10 * part)) & transfers one:box box looks=$((20 * part)) & $(kills 3 remote 2 store 1 link 1 remote) wait" \
            "$(kills 3 agent 1 store 1 link)" ''
        for n in $(seq 60 25 $((30 * part))); do printf 'at one>far %d cut\nat far>one %d cut\n' $((n + seed)) $((n + 9 + seed)); done
        printf 'at one>far %d kill one again\nat far>one %d kill one again\n' $((35 * part)) $((42 * part)); } >"$TEST_TMP/own/plan"
        same "seed $seed, with the own store" own 3 one far
    fi
done
done_testing
