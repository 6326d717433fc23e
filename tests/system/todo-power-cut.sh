#!/bin/bash
# The story of the README: what `todo` has acknowledged is there after a power cut, at the same
# addresses. The power is cut in two ways: all that no flush covers is lost (scripts/cut), and QEMU
# is killed. And when only the store manager dies, its clients go on.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

SIZE=24M
LOG=$TEST_TMP/log

# Prints the list and its items with their addresses, by the pointers in them.
cat >"$TEST_TMP/where.c" <<'END'
#include <pstore.h>
#include <stdio.h>
struct item { struct item *next; char text[]; };
struct list { struct item *first; };
static ps_container *c;
static int show(void *unused)
{
    (void)unused;
    struct list *list = ps_root(c);
    if (!list)
        return -errno;
    printf("%p -> %p the list\n", (void *)list, (void *)list->first);
    for (struct item *i = list->first; i; i = i->next)
        printf("%p -> %p %s\n", (void *)i, (void *)i->next, i->text);
    return 0;
}
int main(void)
{
    c = ps_open("todo", 0, PS_LAYOUT(struct list, 1));
    return !c || ps_transaction(show, NULL);
}
END
(cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" where.c -o where) || echo "Bail out! no where"

# guest OPTIONS...: sets output and status; errors go to the file stderr.
guest() {
    status=0
    output=$(scripts/run --timeout 60 --memory 128 --add "$TEST_TMP/where" --store-size $SIZE "$@" \
        2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}

items() { grep -- '->' <<<"$output"; }

# --- all that is not flushed is lost ---
store=$TEST_TMP/store
guest --store "$store" --record "$LOG" --kill-on 'added both' \
    -c 'todo add milk; todo add bread; where; echo added both; sleep 30'
is the_plug_is_pulled_after_the_acknowledgement 0 "$status"
before=$(items)
is the_list_and_two_items_were_there 3 "$(items | wc -l)"
entries=$(scripts/cut "$LOG" --list | wc -l)
truncate -s $SIZE "$TEST_TMP/blank"
ok the_state_is_rebuilt_without_what_was_not_flushed \
    scripts/cut "$LOG" "$TEST_TMP/blank" "$TEST_TMP/cut" --at "$entries" --keep none
ok the_host_finds_no_damage build/host/kstore check "$TEST_TMP/cut"
guest --store "$TEST_TMP/cut" --log "$TEST_TMP/kernel" -c where
is the_items_are_there_by_the_same_pointers "0 $before" "$status $output"
ok the_boot_says_that_it_recovered grep -q 'store: recovered' "$TEST_TMP/kernel"

# --- each state between two acknowledgements ---
cp "$TEST_TMP/cut" "$TEST_TMP/base"
guest --store "$TEST_TMP/cut" --record "$LOG" --kill-on 'third one' \
    -c 'todo add rent; where; echo third one; sleep 30'
after=$(items)
last=$(scripts/cut "$LOG" --list | wc -l)
seen='' apart=3
[ "${TEST_TIER:-test}" != long ] || apart=1
# from the last one back to where the second step is all: a host that pulled the plug late has recorded idle work, too
for ((at = last; at >= 0 && $(grep -o two <<<"$seen" | wc -l) < (apart > 1 ? 1 : 2); at -= apart)); do
    scripts/cut "$LOG" "$TEST_TMP/base" "$TEST_TMP/state" --at "$at" --keep none
    guest --store "$TEST_TMP/state" -c where
    case $output in
    "$before") seen=" two$seen" ;;
    "$after") seen=" three$seen" ;;
    *) seen=" $output$seen" ;;
    esac
done
ok an_item_is_there_or_not_and_nothing_between grep -Eqx '( two)+( three)+' <<<"$seen"
guest --store "$TEST_TMP/cut" -c 'todo done milk; todo add "call mum"; todo'
is after_the_cut_the_list_goes_on "0 - call mum
- rent
- bread" "$status $output"

# --- QEMU is killed: all that was written is there, and nobody closed the store ---
guest --store "$TEST_TMP/cut" --kill-on 'fourth one' -c 'todo add tea; where; echo fourth one; sleep 30'
before=$(items)
guest --store "$TEST_TMP/cut" -c where
is qemu_killed_and_the_items_are_at_the_same_addresses "0 $before" "$status $output"

# --- the store manager dies; its pid is 2, for init starts it first. One that talks to it may hear of its end; the
# next one waits until it is back ---
guest --store "$TEST_TMP/cut" -c 'ps; todo add eggs; kill 2; todo > /tmp/o 2>&1; todo add salt; todo; ps'
ok pid_2_is_the_store_manager grep -Eq '^ +2 +1 .* store' <<<"$output"
ok it_is_started_again grep -q 'starting it again' <<<"$output"
is new_clients_find_all_and_go_on "- salt
- eggs" "$(grep '^- ' <<<"$output" | head -2)"
n=150
[ "${TEST_TIER:-test}" != long ] || n=400
guest --store "$TEST_TMP/cut" --append store.die=CM5:200 -c "crashload 1 $n; crashload check 1 $n $n $n $n $n"
is clients_that_were_at_work_reconnect_and_lose_nothing "0 counters $n $n $n $n $n 0
sound" "$status $(tail -2 <<<"$output")"
ok they_were_interrupted grep -Eq '^(lost|found) ' <<<"$output"
guest --store "$TEST_TMP/cut" -c "crashload check 1 $n $n $n $n $n"
is all_of_it_is_there_at_the_next_boot "0 counters $n $n $n $n $n 0
sound" "$status $output"
done_testing
