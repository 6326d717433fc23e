#!/bin/bash
# Three machines, a home and two others, transfer between the accounts of one container while their links break,
# lose and change frames and stand still at random places of each seed, and a machine is killed or stopped: each
# look at the accounts finds the same sum, what was acknowledged is there, nobody waits for ever, and the store
# is as it should be afterwards (user/sites/sites.md).
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
seeds=${N:-2} first=${SEED:-1}
[ "${TEST_TIER:-test}" != long ] || seeds=${N:-$((50 * ${TIMES:-1}))}

for ((seed = first; seed < first + seeds; seed++)); do
    folder=$TEST_TMP/$seed
    mkdir -p "$folder"
    fault="at b>home 25 stop b ms=3000"
    ((seed % 2)) || fault="at home>c 30 kill c again"
    common="--cpus 1 --memory 96 --link lease=2000 --allow processes --add build/tests/sites/shared"
    cat >"$folder/plan" <<PLAN
server home $common --store $folder/store --zone 0 : shared box create=6; store export box b write; store export box c write; shared box seed=3 history=20; sleep 1000
site b $common --no-store : shared home:box open seed=${seed}1 history=20 sum
site c $common --no-store : shared home:box open seed=${seed}2 history=20 sum
link home b
link home c
random home b 4
random home c 4
$fault
PLAN
    scripts/sites --seed "$seed" --verbose --timeout 100 "$folder/plan" >"$folder/said" 2>&1
    ok "seed $seed: nothing acknowledged is lost, all sums are right, all end" \
        test "$(grep -c 'all is there' "$folder/said") $(grep -c '6 accounts, 6000' "$folder/said")" = "3 2"
    ok "seed $seed: the store is as it should be" build/host/kstore check --strict --quiet "$folder/store"
    grep -q 'all is there' "$folder/said" || sed 's/^/# /' "$folder/said" | tail -20
done
done_testing
