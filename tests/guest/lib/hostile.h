/* hostile.h - what the hostile tests share: bad pointers, dice, counts of all that could leak. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "pstore_test.h"

#define CALL(number, ...) kd_call6((number), CALL_SIX(__VA_ARGS__, 0, 0, 0, 0, 0, 0))
#define CALL_SIX(a, b, c, d, e, f, ...) \
    (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)

/* Is this result of a call an error? */
int is_errno(long r);

/* ---- what must be as before ---- */

struct counts { long frames, objects, processes, views, handles, credits; };
enum { MANAGER_KEEPS = 600 }; /* frames, of the store manager for long messages, once */

struct counts counts_now(void);

/* Is there no more of anything than `before`? Frames may be fewer by `frames_allowed`. */
int counts_good(struct counts before, struct counts now, long frames_allowed);

/* The same, when what ends in the background had its time; prints the differences. */
int counts_back(struct counts before, long frames_allowed);

/* Does the kernel find itself in order? */
int check_clean(void);

/* ---- bad pointers ---- */

extern char *area;                      /* a page to write, nothing, a page to read, nothing */
extern char *writable_end, *read_only, *read_only_end;

void area_make(void);

enum { BAD_POINTERS = 22 };
extern const unsigned long bad_pointers[BAD_POINTERS]; /* none of them can be read */

#endif
