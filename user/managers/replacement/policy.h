/*
 * policy.h - which page goes when one comes: what each policy of replacement/ is for its manager,
 * and for a simulation.
 *
 * Pages have numbers from 0. The manager says which page came and which resident ones were used
 * since it last said so, and asks which is to go when all frames are full. Memory is taken at the
 * start and kept. And what the manager tells its clients.
 */
#ifndef REPLACEMENT_POLICY_H
#define REPLACEMENT_POLICY_H

#include <stddef.h>
#include <stdint.h>

enum { REPLACEMENT_LOOKS = 32 };         /* at uses, while all frames get another page */
struct replacement_counts {              /* the answer to a km_call of so many bytes */
    uint64_t requests, evicted;          /* pages asked for; sent out */
    uint64_t again, looks;               /* taken by the kernel before their time; at uses */
};

struct policy {
    const char *name;
    int (*start)(unsigned pages, unsigned frames); /* forgets all; 0 or -ENOMEM */
    unsigned (*victim)(unsigned coming); /* of the pages that came; it is none of them any more */
    void (*came)(unsigned page);
    void (*used)(unsigned page);
};

extern const struct policy policy_fifo, policy_clock, policy_lru2, policy_arc;

static inline const struct policy *const *policies(void)
{
    static const struct policy *const all[] = {&policy_fifo, &policy_clock, &policy_lru2,
                                               &policy_arc, NULL};
    return all;
}

#endif
