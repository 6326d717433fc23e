#!/bin/bash
# What can be seen of a running system: dmesg, objects, vmmap, handles, lockstat, store, ps, top.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

seen=$(scripts/run --add build/tests/guest/kernel_badges --store "$TEST_TMP/s" --store-size 64M --cpus 2 -c '
    todo add bread; todo add milk
    echo == objects; objects
    echo == one; objects todo; echo $?
    echo == none; objects tod; echo $?; objects a b; echo $?
    echo == vmmap; vmmap 2
    echo == handles; handles 2
    echo == caps; caps 2; caps nobody; echo $?
    echo == held; kernel_badges holds > /tmp/out & kernel_badges held; caps; kill %1; wait %1
    echo == rights; trace --rights kernel_badges brief
    echo == lockstat; lockstat
    echo == holding; lockstat on > /tmp/out; bank 100 > /tmp/out; lockstat off; lockstat maybe; echo $?
    echo == store; store
    echo == dmesg; dmesg
    echo == top; bank 1000000 > /tmp/out & top 30 100; kill %1
    echo == ps; ps
    echo == limit; limit views 5; limit; limit views max; limit memory 8; limit nonsense 3; echo $?; limit memory 20M limit views 9 sh -c limit
    echo == refused; limit files 3 sh -c "cat /etc/command"
    echo == wrong; vmmap; echo $?; vmmap 9999; echo $?; handles x; echo $?; top 0; echo $?; txns nonsense; echo $?' 2>&1)

# part NAME: what was printed under that heading.
part() {
    sed -n "/^== $1\$/,/^== /p" <<<"$seen"
}
has() {
    grep -qE -- "$2" <<<"$(part "$1")"
}
has_none() {
    ! has "$@"
}
ok "objects shows the container with its pages" has objects '^0x2[0-9a-f]+ +[1-9][0-9]* +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]* +[0-9]+ todo$'
is "objects of one container shows it, the head and a status" "3 1 0" \
    "$(part one | grep -vc '==') $(part one | grep -c ' todo$') $(part one | grep -c ' history$')"
ok "a container that nobody has open is said" has none '^objects: tod: no such container is open'
is "and its status, and that of wrong use" "1 2" "$(part none | grep -E '^[0-9]+$' | tr '\n' ' ' | sed 's/ $//')"
for name in objects lockstat holding top; do
    is "$name fits 80 columns" 0 "$(part "$name" | grep -cE '^.{81}')"
done
ok "vmmap shows text, heap and stack" has vmmap 'r-x .* /bin/store$'
ok "vmmap shows the stack" has vmmap 'rw- .*\[stack\]$'
ok "handles shows how many of how many" has handles '^[1-9][0-9]* of 256 handles$'
ok "handles shows the disk and the container" has handles ' disk '
ok "handles shows a port's credits" has handles ' port .* [1-9][0-9]* credits, [0-9]+ held$'
ok "handles names the object" has handles ' object .* todo$'
ok "caps says what a process holds" has caps '^ +[0-9]+  container todo: read, write, manage$'
ok "whose a port is" has caps '^ +[0-9]+  port of store\[2\].*: call, receive, manage$'
ok "that there is no such process" has caps '^caps: no such process'
ok "of all processes that of each" has held '^kernel_badges\[[0-9]+\]$'
ok "a badge with its number, whose it is, and its rights" has held \
    '^ +[0-9]+  badge 4711 of kernel_badges\[[0-9]+\]: call, pass on, own 3$'
ok "trace --rights: who made a badge" has rights \
    '^ +[0-9.]+ ms  kernel_badges\[[0-9]+\] made badge 7 of kernel_badges\[[0-9]+\]: call, pass on, own 3$'
ok "to whom it was passed" has rights ' passed on badge 7 of .* to kernel_badges\[[0-9]+\]: call, pass on, own 3$'
ok "who used it, with fewer rights" has rights ' used badge 7 of kernel_badges\[[0-9]+\]: call, own 1$'
ok "that it has ended" has rights ' ended badge 7 of kernel_badges\[[0-9]+\]$'
ok "lockstat has a head" has lockstat '^lock +waits +Kcycles'
ok "holding is counted when that is asked for" has holding '^sched +[0-9]+ +[0-9]+ +[0-9]+ +[1-9][0-9]* +[0-9]+ +[1-9][0-9]*$'
ok "and not before" has_none lockstat '^sched +[0-9]+ +[0-9]+ +[0-9]+ +[1-9]'
ok "other words are told the use" has holding '^use: lockstat'
ok "store counts the commits" has store '^commits +[1-9][0-9]* in'
ok "dmesg begins with the boot" has dmesg '0.000000\] Katydid$'
ok "top lists the manager" has top ' store$'
ok "top shows faults" has top '^per second: faults'
ok "top shows what each process has logged" has top '^( +[^ ]+){8} +[1-9][0-9]* +[0-9]+ bank$'
ok "top shows what each process has moved to and from disks" has top '^( +[^ ]+){9} +[1-9][0-9]* store$'
ok "ps shows use against limits" has ps '^ +2 +1 +[0-9]+/256 +[0-9]+/256 +1/128 +[0-9]+/[0-9]+ +[0-9]+ store'
ok "limit shows the shell's own" has limit '^views +0 +5$'
ok "and those of a program that was started with some" has limit '^views +0 +9$'
ok "memory, too" has limit '^memory +[0-9]+ +20971520$'
ok "an unknown limit is said" has limit '^use: limit'
ok "files: what is over the limit is refused" has refused 'cat: .*: Too many open files$|No file descriptors available$'
ok "without a pid the use is told" has wrong '^use: vmmap PID$'
ok "an unknown pid is said" has wrong 'no such process'
ok "txns takes no words" has wrong '^usage: txns$'
is "statuses of wrong use" "2 1 1 2 2" "$(part wrong | grep -E '^[0-9]+$' | tr '\n' ' ' | sed 's/ $//')"
done_testing
