#!/bin/bash
# What can be seen of a running system: dmesg, objects, vmmap, handles, lockstat, store, ps, top.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

seen=$(scripts/run --store "$TEST_TMP/s" --store-size 64M --cpus 2 -c '
    todo add bread; todo add milk
    echo == objects; objects
    echo == vmmap; vmmap 2
    echo == handles; handles 2
    echo == lockstat; lockstat
    echo == store; store
    echo == dmesg; dmesg
    echo == top; top 1 50
    echo == wrong; vmmap; echo $?; vmmap 9999; echo $?; handles x; echo $?; top 0; echo $?' 2>&1)

# part NAME: what was printed under that heading.
part() {
    sed -n "/^== $1\$/,/^== /p" <<<"$seen"
}
has() {
    grep -qE -- "$2" <<<"$(part "$1")"
}
ok "objects shows the container with its pages" has objects '^0x2[0-9a-f]+ .* resident.* todo$'
ok "vmmap shows text, heap and stack" has vmmap 'r-x .* /bin/store$'
ok "vmmap shows the stack" has vmmap 'rw- .*\[stack\]$'
ok "handles shows the disk and the container" has handles ' disk '
ok "handles names the object" has handles ' object .* todo$'
ok "lockstat has a head" has lockstat '^lock +waits +cycles'
ok "store counts the commits" has store '^commits +[1-9][0-9]* in'
ok "dmesg begins with the boot" has dmesg '0.000000\] Katydid$'
ok "top lists the manager" has top ' store$'
ok "top shows faults" has top '^per second: faults'
ok "without a pid the use is told" has wrong '^use: vmmap PID$'
ok "an unknown pid is said" has wrong 'no such process'
is "statuses of wrong use" "2 1 1 2" "$(part wrong | grep -E '^[0-9]+$' | tr '\n' ' ' | sed 's/ $//')"
done_testing
