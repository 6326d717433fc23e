/* optimistic.h - what /bin/optimistic answers: an object `km_call` of this struct. */
#ifndef USER_MANAGERS_OPTIMISTIC_H
#define USER_MANAGERS_OPTIMISTIC_H

#include <stdint.h>

struct optimistic_counts {
    uint64_t reads, commits, refused;   /* first touches noted; commits let through, sent back */
};

#endif
