#!/bin/bash
# Random histories in the kernel that keeps a shadow of what TLBs may hold and stops at a stale entry
# (tests/bugs/shadow.patch): some of each part of kernel_history. kernel_stress always runs in that kernel.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

seed=${SEED:-$RANDOM} more=1
[ "${TEST_TIER:-test}" != long ] || more=6
# histories NAME COUNT PART
histories() {
    ok "$2 histories $1, seed $seed: no TLB is stale" scripts/run --kernel build/bugs/kernel/none/kernel.elf --memory 48 \
        --cpus "${CPUS:-2}" --timeout 300 --allow all --add build/tests/guest/kernel_history -c "kernel_history $seed 1 $2 $3"
}
histories "with a manager of their own" $((25 * more)) 0
histories "in too little memory" $((5 * more)) 1
histories "in the store" $((8 * more)) 2
done_testing
