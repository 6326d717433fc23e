/* behind.h - what the manager "behind" is asked by km_call, and answers in place. */
#ifndef USER_MANAGERS_BEHIND_H
#define USER_MANAGERS_BEHIND_H

#include <stdint.h>

struct behind_counts {
    uint64_t flush;                      /* in: 1: answer when what is committed now is durable */
    uint64_t commits, durable, batches;  /* transactions; durable ones; in so many batches */
};

#endif
