/* pstore_test.h - what the guest tests of libpstore share: reads of the disk that take as long
 * as a test wants, and handles that are asked for by handles. */
#ifndef PSTORE_TEST_H
#define PSTORE_TEST_H

#include <errno.h>
#include <katydid/call.h>
#include <pstore.h>
#include <string.h>

#include "process.h"
#include "system.h"
#include "tap.h"

/* With tests/system/slow-reads.py: a read of the disk that begins after disk_slow() returns does
 * not end before disk_slow_end(). */
void disk_slow(void);
void disk_slow_end(void);

enum { BESIDE = 20 };

/* Commits, until BESIDE in a row lie between two changes of *reads, or *reads has come to `last`;
 * how many then did. Adds commits that failed to *bad. */
int commits_beside(int (*change)(void *), _Atomic int *reads, int last, int *bad);

/* What a call says when `said`, what it has said, is not that any more, or a minute has passed. */
#define AGAIN_WHILE(is_that, call)                                                                \
    ({                                                                                            \
        __typeof__(call) said = (call);                                                           \
        for (int ms_ = 0; (is_that) && ms_ < 60000; ms_++) pause_ms(1), said = (call);            \
        said;                                                                                     \
    })

/* That a process has ended the store hears when it hears it, perhaps behind who has waited. */
#define WHEN_FREE(call) AGAIN_WHILE(said == -EBUSY, call)

/* A death may be heard more than once: a successor was asked for while others were still dying. */
#define WHEN_BACK(call)                                                                           \
    AGAIN_WHILE(said == -EOWNERDEAD || said == -ECANCELED || said == -ENOTCONN, call)

/* A handle of where the path leads, asked for by a handle of the store's; -errno. WIRE_MAY_*. */
int handle_by(int handle, const char *path, uint32_t rights);

#endif
