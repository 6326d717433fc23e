/*
 * clone.c - a writable copy of a container, which shares with it what nobody has changed
 * (managers.md).
 *
 *     clone phonebook trial 16 &    the object "trial": the container "phonebook" as it is now, at
 *                                   addresses of its own, with at most 16 MiB in memory
 *
 * A page of the clone is read from the original when it is touched, so nothing is copied before,
 * and a page that was not changed is nowhere twice when memory is short. Words that are addresses
 * in the original become addresses in the clone on their way (as pointers are swizzled at page
 * faults). The original is locked shared as long as the clone lives: others read it, nobody writes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clone.h"
#include "manager.h"
#include "pstore.h"

enum { WORDS = KM_PAGE_BYTES / 8, LIST_MAX = 1024, MIB_MAX = 4096, PAGES_A_MIB = 256 };

static struct km_object *object;
static ps_container *original;
static struct clone_info info;

/* Each thread that answers has the original locked from its first page on. */
static int hold_original(void)
{
    static __thread int held;
    int error = held ? 0 : ps_begin(NULL);
    if (!error && !held) error = ps_lock(original, PS_LOCK_SHARED);
    held |= !error;
    return error;
}

static void page(struct km_request *r)
{
    uint64_t words[WORDS];
    int error = hold_original();
    if (error) {
        km_fail(r, EIO);
        return;
    }
    memcpy(words, (char *)(uintptr_t)info.original + r->page * KM_PAGE_BYTES, sizeof words);
    for (int i = 0; i < WORDS; i++)
        if (words[i] - info.original < info.pages * KM_PAGE_BYTES) {
            words[i] += info.base - info.original;
            __atomic_fetch_add(&info.moved, 1, __ATOMIC_RELAXED);
        }
    __atomic_fetch_add(&info.fetched, 1, __ATOMIC_RELAXED);
    error = km_supply(r, words, 1);
    if (error) km_fail(r, ENOMEM);
}

static void call(struct km_object *o, void *message, int bytes)
{
    (void)o;
    if (bytes == sizeof info) memcpy(message, &info, sizeof info);
}

static int find_original(const char *name)
{
    struct ps_info *all = calloc(LIST_MAX, sizeof *all);
    int count = all ? ps_list(all, LIST_MAX) : -ENOMEM;
    for (int i = 0; i < count && i < LIST_MAX && !info.original; i++)
        if (strcmp(all[i].name, name) == 0) {
            info.original = all[i].base;
            info.pages = all[i].pages_max;
        }
    free(all);
    return count < 0 ? count : info.original ? 0 : -ENOENT;
}

static int serve(const char *name, const char *as, uint64_t mib)
{
    static const struct km_ops ops = {.page = page, .call = call};
    original = ps_open(name, 0, NULL);
    int error = original ? find_original(name) : -errno;
    if (!error) error = km_create(as, info.pages, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL,
                                  &object);
    if (error) return error;
    info.base = (uint64_t)(uintptr_t)km_address(object);
    error = km_advise(object, 0, 1, KM_RANDOM);
    if (error >= 0 && mib * PAGES_A_MIB < info.pages)
        error = km_advise(object, 0, mib * PAGES_A_MIB, KM_MEMORY);
    return error < 0 ? error : km_serve(1);
}

int main(int argc, char **argv)
{
    uint64_t mib = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    if (mib == 0 || mib > MIB_MAX) {
        fprintf(stderr, "usage: clone CONTAINER AS MIB\n");
        return 2;
    }
    int error = serve(argv[1], argv[2], mib);
    fprintf(stderr, "clone: cannot serve %s: %s\n", argv[2], ps_strerror(error));
    return 1;
}
