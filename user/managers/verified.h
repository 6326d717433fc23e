/* verified.h - what the manager "verified" tells: the answer to a call with that many bytes. */
#ifndef USER_MANAGERS_VERIFIED_H
#define USER_MANAGERS_VERIFIED_H

#include <stdint.h>

struct verified_counts {
    uint64_t pages, checked, unreadable; /* reads: checked ones, and those that failed */
    uint64_t rotten;                     /* pages that were not what the manifest says */
    uint64_t first_rotten;               /* asked: from where on; the first one, or `pages` */
};

#endif
