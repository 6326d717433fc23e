/* clone.h - what the manager "clone" tells: the answer to a call with that many bytes. */
#ifndef USER_MANAGERS_CLONE_H
#define USER_MANAGERS_CLONE_H

#include <stdint.h>

struct clone_info {
    uint64_t original, base, pages;      /* what is at original + n is at base + n, too */
    uint64_t fetched, moved;             /* pages that came; addresses in them that were changed */
};

#endif
