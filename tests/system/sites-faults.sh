#!/bin/bash
# Three machines under what sites-histories.sh does not have: disks that fail, read nothing, are silent or slow, and
# clocks that go wrong, as far as the rules allow and beyond. Two of the machines are homes: all three transfer between
# accounts of one, and two between both. Each look, also in a snapshot, finds the same sum, and nothing as it was before
# an earlier look; what was acknowledged is there, what was told undone is not, over both homes; all end, and both
# stores are as they should be afterwards (user/sites/sites.md).
# Waits: for disks that are silent or slow, and for leases.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
boots=${N:-1} first=${SEED:-1}
[ "${TEST_TIER:-test}" != long ] || boots=${N:-$((40 * ${TIMES:-1}))}
# What fails for writes is started again, by a later frame of the same way.
disks=("at b>home 50 fail home
at b>home 80 kill home again" "at b>home 40 silent home ms=1500
at c>home 60 slow home ms=3000
at c>b 40 fail b
at c>b 60 kill b again" "at c>b 30 fail b
at c>b 50 kill b again" "at b>home 30 unread home ms=400
at c>b 60 unread b ms=300" "at c>home 40 slow home ms=4000
at c>b 50 silent b ms=3500" "at c>home 45 fail home ms=300
at c>home 75 kill home again after=1000")
# Percent of the true speed. A home waits for two leases, so all is well if no clock is slower than half of a home's. Else
# what is read may be old, at one home alone; but for that nothing changes (NS5).
clocks=("100 100 100" "100 140 80" "140 75 100" "35 100 100" "100 100 35" "100 240 40" "240 100 100")

for ((seed = first; seed < first + boots; seed++)); do
    folder=$TEST_TMP/$seed
    mkdir -p "$folder"
    read -r at_home at_b at_c <<<"${clocks[seed % ${#clocks[@]}]}"
    old=''
    ((2 * at_b < at_home || 2 * at_c < at_home || 2 * at_c < at_b)) && old=old
    common="--cpus 1 --memory 96 --link lease=4000 --allow processes --add build/tests/sites/shared --add build/tests/sites/transfers"
    cat >"$folder/plan" <<PLAN
server home $common --store $folder/home --zone 0 --append clock_percent=$at_home : transfers both x create; store export both b write; \
store export both c write; shared box create=6; store export box b write; store export box c write; shared box seed=3 history=20; sleep 1000
site b $common --store $folder/b --zone 1 --append clock_percent=$at_b : transfers both x create; store export both c write; \
transfers home:both both open $old seed=$seed moves=15 & shared home:box open seed=1 history=25 sum; wait; shared home:box await=9
site c $common --no-store --append clock_percent=$at_c : transfers b:both home:both open $old number=1 seed=$((seed + 9)) moves=15 & \
shared home:box open seed=2 history=25 sum; wait; shared home:box phase=9
link home b
link home c
link b c
random home b 2 from=30
random home c 2 from=30
random b c 2 from=20
at home>b $((60 + 7 * (seed % 10))) hold ms=5000
at c>home $((90 + 11 * (seed % 7))) hold ms=5000
${disks[seed % ${#disks[@]}]}
PLAN
    scripts/sites --seed "$seed" --verbose --timeout $((150 * ${TEST_SLACK:-1})) "$folder/plan" >"$folder/said" 2>&1
    # who is started again may have ended before, and then ends twice
    ends=$(sed -nE 's/.*(seed [0-9]*: all is there).*/\1/p; s/^([bc]): .*moves in both.*/\1/p' "$folder/said" | sort -u | wc -l)
    is "seed $seed: nothing acknowledged is lost, nothing seen undone, all or nothing over two homes, all end" 5 "$ends"
    is "seed $seed: the sums are right" 2 "$(grep -o '^[bc]: 6 accounts, 6000' "$folder/said" | sort -u | wc -l)"
    # a fault is told with the places in the sources where it was
    is "seed $seed: no program is killed by an error of its own" "" "$(grep -o '^[a-z]*: .* at [a-z].*\.c:[0-9]*' "$folder/said")"
    for store in home b; do
        ok "seed $seed: the store of $store is as it should be" build/host/kstore check --strict --quiet "$folder/$store"
    done
    [ "$ends" = 5 ] || sed 's/^/# /' "$folder/said" | tail -40
done
done_testing
