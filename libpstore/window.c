/*
 * window.c - windows: bytes of a container at a second address of this process
 * (kernel/store/mapping.md).
 *
 * Owns      the table of windows: what ps_home looks at.
 * Not here  locks, rights, what a touch does: all that is the kernel's.
 *
 * Locks     none (TX1), as windows are made in transactions, too: a slot is claimed by its `at`,
 *           and belongs to whoever put BUSY there.
 */
#include "pstore_private.h"

#include <errno.h>

#define WINDOWS_MAX 32
enum { FREE, BUSY };                      /* `at` of a slot that is no window */
static struct { _Atomic uint64_t at; uint64_t first, bytes; } windows[WINDOWS_MAX];

static int in_windows(uint64_t address)
{
    return address - KD_WINDOW_BASE < KD_WINDOW_END - KD_WINDOW_BASE;
}

void *ps_home(const void *p)
{
    uint64_t address = (uintptr_t)p;
    for (unsigned i = 0; in_windows(address) && i < WINDOWS_MAX; i++) {
        uint64_t at = windows[i].at;
        if (at > BUSY && address - at < windows[i].bytes)
            return (void *)(uintptr_t)(address - at + windows[i].first);
    }
    return (void *)(uintptr_t)address;
}

static int slot_claim(uint64_t from)
{
    for (int i = 0; i < WINDOWS_MAX; i++) {
        uint64_t was = from;
        if (atomic_compare_exchange_strong(&windows[i].at, &was, BUSY))
            return i;
    }
    return -1;
}

/* slots_clear frees slots of windows that ended with their container, or that a parent has: their
 * place is another window's now. */
static void slots_clear(uint64_t at, uint64_t bytes)
{
    for (unsigned i = 0; i < WINDOWS_MAX; i++) {
        uint64_t was = windows[i].at;
        if (was > BUSY && was < at + bytes && at < was + windows[i].bytes)
            atomic_compare_exchange_strong(&windows[i].at, &was, FREE);
    }
}

static int window_check(uint64_t home, size_t bytes, int flags)
{
    ps_container *c = ps_container_of((void *)(uintptr_t)home);
    if (flags & ~PS_WRITE || bytes == 0 || !c || !container_has(c, home, bytes))
        return -EINVAL;
    return flags & PS_WRITE && !(c->flags & PS_WRITE) ? -EROFS : 0;
}

static long window_open(const void *from, size_t bytes, int flags)
{
    uint64_t home = (uintptr_t)ps_home(from);
    uint64_t first = PAGE_OF(home), pages = (PAGE_OF(home + bytes - 1) - first) / KD_PAGE_BYTES + 1;
    int result = window_check(home, bytes, flags);
    int slot = result ? -1 : slot_claim(FREE);
    if (slot < 0)
        return result ? result : -EMFILE;
    long at = ps_kernel(KD_MAP, (long)PAGE_OF((uintptr_t)from), (long)pages,
                        KD_RIGHT_READ | (flags & PS_WRITE ? KD_RIGHT_WRITE : 0));
    if (at < 0) {
        windows[slot].at = FREE;
        return at == -EACCES ? -EROFS : at == -ENOENT ? -EINVAL : at;
    }
    windows[slot].first = first;
    windows[slot].bytes = pages * KD_PAGE_BYTES;
    slots_clear((uint64_t)at, pages * KD_PAGE_BYTES);
    windows[slot].at = (uint64_t)at;
    return at + (long)(home - first);
}

void *ps_window(const void *from, size_t bytes, int flags)
{
    long at = window_open(from, bytes, flags);
    if (at >= 0)
        return (void *)at;
    errno = (int)-error_told(ERROR_OTHER, (int)at);
    return NULL;
}

int ps_window_end(void *window)
{
    uint64_t at = PAGE_OF((uintptr_t)window);
    int slot = in_windows(at) ? slot_claim(at) : -1;
    if (slot < 0)
        return error_told(ERROR_OTHER, -EINVAL);
    ps_kernel(KD_UNMAP, (long)at, 0, 0);      /* -ENOENT: it went with its container */
    windows[slot].at = FREE;
    return 0;
}
