/*
 * user.c - copies between the kernel and user memory.
 *
 * A copy uses the user's own mappings, so it takes the same faults as user mode would, with the
 * same answers; it may sleep in them (trap.c: trap_page_fault_dispatch). Hence: no lock is held.
 */
#include "x86.h"
#include "thread/thread.h"

int user_copy(void *to, const void *from, size_t n);
long user_string(char *to, const char *from, size_t n);

enum { AT_ONCE = 64 << 10 };

/* copy_in_portions lets others run between portions: each page of user memory may be a fault. */
static RARE int copy_in_portions(char *to, const char *from, size_t n)
{
    int e = 0;
    for (; n > AT_ONCE && !e; to += AT_ONCE, from += AT_ONCE, n -= AT_ONCE) {
        e = user_copy(to, from, AT_ONCE);
        thread_breathe();
    }
    return e ? e : user_copy(to, from, n);
}

static inline int copy(void *to, const void *from, size_t n)
{
    return likely(n <= AT_ONCE) ? user_copy(to, from, n) : copy_in_portions(to, from, n);
}

int copy_from_user(void *to, vaddr_t from, size_t n)
{
    return user_range_ok(from, n) ? copy(to, (const void *)from, n) : -EFAULT;
}

int copy_to_user(vaddr_t to, const void *from, size_t n)
{
    return user_range_ok(to, n) ? copy((void *)to, from, n) : -EFAULT;
}

bool user_calls_before(vaddr_t at)
{
    enum { CALL_OPCODE = 0xe8, CALL_LENGTH = 5 };
    uint8_t first;
    return copy_from_user(&first, at - CALL_LENGTH, 1) == 0 && first == CALL_OPCODE;
}

/* `n` counts the NUL, too. */
long copy_string_from_user(char *to, vaddr_t from, size_t n)
{
    if (!user_range_ok(from, 0))
        return -EFAULT;
    size_t limit = MIN(n, USER_LIMIT - from);
    long length = user_string(to, (const char *)from, limit);
    if (length < 0 || (size_t)length < limit)
        return length;
    return limit < n ? -EFAULT : -ENAMETOOLONG;
}
