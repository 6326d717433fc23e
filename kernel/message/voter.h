/* voter.h - what a base's commit port is in transactions of several bases (store/parts.c). */
#ifndef KERNEL_VOTER_H
#define KERNEL_VOTER_H

#include <stdbool.h>
#include <stdint.h>

struct voter {
    bool votes;              /* it has a name; both are set once */
    uint8_t name[16];
    /* atomic: transactions that are shown elsewhere, perhaps, and not here yet; snapshots that wait
     * for that to be none */
    uint32_t owes, awaited;
    uint32_t doubts;         /* atomic: its manager's count of what it has voted for (BP5) */
};

#endif
