/* futex.h - waiting for a word of user memory to change, and for time. Contract in futex.c. */
#ifndef KERNEL_FUTEX_H
#define KERNEL_FUTEX_H

#include "process/process.h"

void futex_init(void);
/* Linux's futex call. 0 or a count; -EAGAIN, -ETIMEDOUT, -EINTR, -EINVAL, -EFAULT, -ENOSYS. */
long futex_call(vaddr_t at, int operation, uint32_t value, vaddr_t timeout, vaddr_t at2,
                uint32_t value3);
/* The thread ends: clears its tid word and wakes who joins it. */
void futex_thread_gone(struct thread *t);
/* Nanoseconds of a struct timespec, from user memory. */
must_check int time_from_user(vaddr_t at, uint64_t *ns);
/* time_of_day_offset_ns: the time since boot plus this is the time of day (option epoch=SECONDS).
 */
uint64_t time_of_day_offset_ns(void);

#endif
