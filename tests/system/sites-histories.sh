#!/bin/bash
# Three machines, a home and two others, transfer between the accounts of a container while their links break, are slow,
# lose and change frames and stand still at random places of each seed, and a machine is killed and started again, or
# stopped, the home as well: each look at the accounts finds the same sum, what was acknowledged is there, nobody waits
# for ever, and the store is as it should be afterwards (user/sites/sites.md). Five runs, each with a container and
# faults of its own, in one boot of the three.
# Waits: for links that break and machines that stand still.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
RUNS=5 boots=${N:-1} first=${SEED:-2}      # one in which the home is killed
[ "${TEST_TIER:-test}" != long ] || boots=${N:-$((60 * ${TIMES:-1}))} first=${SEED:-1}
machines=("at b>home 25 stop b ms=3000" "at home>c 30 kill c again" "at b>home 90 kill home again" "at c>home 70 stop home ms=1500"
    "at home>b 110 kill b again" "at c>home 40 kill home again")

for ((seed = first; seed < first + boots; seed++)); do
    folder=$TEST_TMP/$seed
    mkdir -p "$folder"
    common="--cpus 1 --memory 96 --link lease=2000 --allow processes --add build/tests/sites/shared"
    home='' b='' c='' faults=''
    for ((run = 0; run < RUNS; run++)); do
        home+="shared box$run create=6; store export box$run b write; store export box$run c write; shared box$run seed=3$run history=4; "
        b+="shared home:box$run open seed=1$run history=4 total; "
        c+="shared home:box$run open seed=2$run history=4 total; "
        faults+="random home b 1 from=$((2 + 60 * run))"$'\n'"random home c 1 from=$((2 + 60 * run))"$'\n'
    done
    cat >"$folder/plan" <<PLAN
server home $common --store $folder/store --zone 0 : ${home}sleep 1000
site b $common --no-store : $b
site c $common --no-store : $c
link home b delay=$((seed % 3))
link home c
$faults${machines[seed % ${#machines[@]}]}
PLAN
    scripts/sites --seed "$seed" --verbose --timeout 400 "$folder/plan" >"$folder/said" 2>&1
    ends=$(grep -o 'seed [0-9]*: all is there' "$folder/said" | sort -u | wc -l)
    is "seed $seed, $RUNS runs: nothing acknowledged is lost, all end" $((3 * RUNS)) "$ends"
    ok "seed $seed: all sums are right" test "$(grep -o '6 accounts, 6000' "$folder/said" | wc -l)" -ge $((2 * RUNS))
    ok "seed $seed: the store is as it should be" build/host/kstore check --strict --quiet "$folder/store"
    [ "$ends" = $((3 * RUNS)) ] || sed 's/^/# /' "$folder/said" | tail -20
done
done_testing
