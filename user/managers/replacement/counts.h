/* counts.h - what the manager "replacement" tells: the answer to a call with that many bytes. */
#ifndef REPLACEMENT_COUNTS_H
#define REPLACEMENT_COUNTS_H

#include <stdint.h>

enum { REPLACEMENT_LOOKS = 32 };         /* at uses, while all frames get another page */
struct replacement_counts {
    uint64_t requests;                   /* pages asked for */
    uint64_t evicted;                    /* pages sent out */
    uint64_t again;                      /* that the kernel had taken before their time */
    uint64_t looks;                      /* times that uses were asked for */
};

#endif
