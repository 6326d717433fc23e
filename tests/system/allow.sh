#!/bin/bash
# What the shell may do with the system's handle, what its programs get of it, and what `allow` changes.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

cat >"$TEST_TMP/rights.c" <<'C'
/* rights: what this program has of the system's handle, one letter each.
 * rights find NAME: waits until a port has that name.
 * rights take: tries to be the store, until its manager has died and another one serves.
 * rights begun: waits until that one has begun. */
#include <katydid/call.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static long find(const char *name)
{
    long port = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    if (port >= 0)
        kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    else
        kd_call3(24, 0, 0, 0); /* sched_yield */
    return port >= 0;
}
static int taken(void)
{
    struct kd_block_info info;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long name = kd_call3(KD_NAME_SET, (long)"store", port, 0), disk = kd_call3(KD_BLOCK_OPEN, (long)"store", (long)&info, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return name != -1 || disk != -1;
}
int main(int argc, char **argv)
{
    int got = 0;
    for (int i = 0; argc == 1 && i < 5; i++)
        putchar(kd_call3(KD_HANDLE_COPY, KD_SYSTEM_HANDLE, KD_RIGHT_DISKS << i, 0) < 0 ? '-' : "dnplh"[i]);
    if (argc == 1)
        putchar('\n');
    while (argc == 3 && !find(argv[2]))
        continue;
    while (argc == 2 && !strcmp(argv[1], "begun") && access("/tmp/begun", F_OK))
        kd_call3(24, 0, 0, 0);
    if (argc == 2 && !strcmp(argv[1], "take")) {
        close(creat("/tmp/begun", 0600));
        do
            got |= taken();
        while (find("store"));
        do
            got |= taken();
        while (!find("store"));
        puts(got ? "taken" : "refused");
    }
    return got;
}
C
scripts/katydid-cc "$TEST_TMP/rights.c" -o "$TEST_TMP/rights"

guest() {
    local disk=--no-store
    [ "$1" = --store ] && disk=--store-size=64M
    output=$(scripts/run --timeout 60 "$disk" --add "$TEST_TMP/rights" "$@" 2>"$TEST_TMP/errors")
    output=${output//$'\r'/}
}
is_output() { is "$1" "$2" "$output"; }

guest -c 'rights; allow look rights; allow disks,names nice 3 rights; limit memory 9M allow all rights; allow none rights'
is_output "a program gets nothing, but what the words before it say; never the power" $'-----\n---l-\ndn---\ndnpl-\n-----'
guest -c 'allow; allow processes,look; rights; allow none rights; rights | cat; allow; allow none; rights'
is_output "and what holds for all" $'programs get: nothing
this shell has: disks names processes look\n--pl-\n--pl-\n--pl-\nprograms get: processes look
this shell has: disks names processes look\n-----'
guest --allow names,look -c 'rights; sh -c "rights; allow; allow look rights; allow disks rights || echo no"'
is_output "another shell has what it was given, and gives on no more" $'-n-l-\n-----\nprograms get: nothing
this shell has: names look\n---l-\nallow: disks: this shell was not given that itself\nno'
guest -c 'allow power rights; echo $?; allow look,halt rights; echo $?; sh -c "allow all rights"'
is_output "what there is not is refused; all of nothing is nothing" $'allow: power: use all, none, or of disks,names,processes,look
2\nallow: halt: use all, none, or of disks,names,processes,look\n2\n-----'

guest --store "$TEST_TMP/own" -c 'store > /tmp/o; handles 2' # it answers: it has given up the rest
output=$(grep -oE ' (port|disk|system|thread|object|process) ' <<<"$output" | sort | tr -d ' \n')
is_output "a store manager that serves has its disk, its four ports, and no power" "diskportportportport"

guest -c 'dmesg | cat > /tmp/o && check && handles 1 > /tmp/o && vmmap 1 > /tmp/o && threads 1 > /tmp/o && objects > /tmp/o &&
    lockstat > /tmp/o && echo looked; sleep 1000 & kill %1; wait %1; echo $?; kill 1'
no_end="it is init, which nobody ends, or this program did not start it, and the right to touch such ones is missing: \
who starts this one gives it by \`allow processes PROGRAM\`"
is_output "the shell looks at all, checks, ends its jobs, not init" $'looked\n137\nkill: 1: '"$no_end"
guest -c 'sh -c "dmesg || handles 1 || vmmap 1 || threads 1 || objects || lockstat || check || kill 1" 2>/tmp/o
    echo $?; cat /tmp/o'
is_output "a program of its may not, and is told what helps" "1
$(for what in dmesg handles vmmap threads objects lockstat check; do
    echo "$what: the right to look at others and the kernel is missing: who starts this program gives it by \`allow look PROGRAM\`"
done)
kill: 1: $no_end"

guest -c 'squares & rights find squares; squares 12; trace -o /tmp/t squares 9 > /tmp/o && echo traced; sh -c squares; echo $?'
is_output "programs of /bin that are of no use without get what they need, from a shell that has it" \
    $'144\ntraced\nsquares: cannot serve: the right to publish names is missing: who starts this program gives it by `allow names PROGRAM`\n1'

guest --store "$TEST_TMP/store" -c 'todo add milk; sh -c "kill 2"; rights take > /tmp/r & rights begun; kill 2; wait %1; cat /tmp/r; todo add eggs; todo'
is_output "the shell ends the store manager, a program neither that nor takes its place" "kill: 2: $no_end"$'
init: the store manager ended with status 137: starting it again\nrefused\n- eggs\n- milk'
guest -c 'allow look; repeat 3 rights & wait; repeat 1000 sleep 0.1 & jobs; kill %1; wait; time sleep 0.3 & wait'
is "a repeated command behind & is one job, one run after the other, with the same rights; its time is told at its end" \
    "---l- ---l- ---l- [1] running repeat 1000 sleep 0.1 real in time" \
    "$(sed -E 's/^real (0\.[3-9]|[1-9]).*/real in time/' <<<"$output" | tr -s ' \n' ' ' | sed 's/ $//')"
done_testing
