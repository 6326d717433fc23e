/* compressed.h - what clients of the compressed memory manager may ask it, by km_call. */
#ifndef USER_MANAGERS_COMPRESSED_H
#define USER_MANAGERS_COMPRESSED_H

#include <stdint.h>

struct compressed_counts {
    uint64_t pages, limit;                      /* of the object; bytes for what is packed */
    uint64_t packed, bytes, memory;             /* pages; their bytes; slots of that many bytes */
    uint64_t supplied, cleaned, stale, left; /* pages, since it started */
};
enum { COMPRESSED_COUNTS, COMPRESSED_OUT };
struct compressed_call {
    uint64_t what, page, count;                 /* OUT: these pages leave memory */
    int64_t result;                             /* of OUT: how many went, or -errno */
    struct compressed_counts counts;            /* of both */
};

#endif
