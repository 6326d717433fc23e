#!/bin/bash
# Four machines whose stores are made at the same time, with no word about zones: they agree (user/sites/sites.md),
# and a program of each counts in a container of the next. A fifth comes later, while two of them are off. The long tier
# has sixteen, too.
# Waits: for sites that are not there.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
program=$TEST_TMP/sites-zones
scripts/katydid-cc tests/system/sites-zones.c -o "$program" || exit 1
all=(n18 n25 n30 n49 n5)                    # all of these begin to look at the same zone

site() { # NAME COMMANDS: connected with each other; what it prints in $TEST_TMP/NAME
    local name=$1 other options=()
    for other in "${all[@]}"; do
        [[ $other > $name ]] && options+=(--listen "$TEST_TMP/$name-$other")
        [[ $other < $name ]] && options+=(--join "$TEST_TMP/$other-$name")
    done
    scripts/run --site "$name" --link lease="$lease" --link away="$away" --cpus 1 --timeout 400 --memory 96 --add "$program" --store "$TEST_TMP/$name.store" \
        --log "$TEST_TMP/$name.log" "${options[@]}" -c "$2" 2>&1 | tr -d '\r' >"$TEST_TMP/$name"
}
zone() { build/host/kstore info "$TEST_TMP/$1.store" | sed -n 's/.*, zone \([0-9]*\),.*/\1/p'; }

lease=2000 away=20000                       # ms: this host may be busy
for i in 0 1 2 3; do
    name=${all[i]} export_to=
    for other in "${all[@]}"; do [ "$other" != "$name" ] && export_to+="; store export box $other write"; done
    site "$name" "sites-zones box make$export_to; sites-zones $name ${all[(i + 1) % 4]}; sites-zones box await=1" &
done
wait
for name in "${all[@]:0:4}"; do
    is "$name counts in the box of the next one, and has a pointer to it" "counted 1" "$(cat "$TEST_TMP/$name")"
done
is "four stores have four zones" 4 "$(for name in "${all[@]:0:4}"; do zone "$name"; done | sort -u | wc -l)"
ok "three of them claimed another one first" test "$(grep -l 'claims zone' "$TEST_TMP"/*.log | wc -l)" -ge 3
ok "all of them small ones" test "$(zone n18)" -ge 16
before=$(zone n18)
away=6000                                   # two of them are there
# n30 and n49 are off. n18 stays until n5 has done all: a program that has lost a home waits for it in each transaction
site n18 'sites-zones box await=3' &
site n25 'sites-zones box await=2; sites-zones n25 n18' &
site n5 'sites-zones box make; sites-zones n5 n18 n25' &
wait
is "one that comes later counts in those that are there" "counted 2" "$(cat "$TEST_TMP/n5")"
is "a store keeps its zone" "$before" "$(zone n18)"
is "a site that comes later gets another one" 3 "$(for name in n18 n25 n5; do zone "$name"; done | sort -u | wc -l)"
for name in "${all[@]}"; do
    ok "the store of $name is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/$name.store"
done
[ "${TEST_TIER:-test}" = long ] || { done_testing; exit; }

# as many homes as a system has: sixteen make their stores at the same time
rm -f "$TEST_TMP"/*.store
all=() lease=20000 away=120000
for ((i = 1; i <= 16; i++)); do all+=("h$i"); done
for ((i = 0; i < 16; i++)); do
    site "${all[i]}" "sites-zones box make; store export box ${all[(i + 15) % 16]} write; sites-zones ${all[i]} ${all[(i + 1) % 16]}; sites-zones box await=1" &
done
wait
is "each of sixteen homes counts in the box of the next one, and has a pointer to it" 16 "$(cat "$TEST_TMP"/h{?,??} | grep -c '^counted 1$')"
is "they have all the zones there are" "$(echo {16..31})" "$(for name in "${all[@]}"; do zone "$name"; done | sort -n | tr '\n' ' ' | sed 's/ $//')"
for name in "${all[@]}"; do
    ok "the store of $name is as it should be" build/host/kstore check --strict --quiet "$TEST_TMP/$name.store"
done
done_testing
