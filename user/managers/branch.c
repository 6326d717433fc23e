/*
 * branch.c - a writable copy of a container, kept in the store, which shares with it what nobody
 * has changed (managers.md). clone.c is the same for as long as a process lives.
 *
 *     store manager trial branch phonebook 16 4    "trial": the first 16 MiB of "phonebook" as they
 *                                  are when "trial" is opened first; of them 4 MiB may be changed
 *
 * Pages that were changed lie in the container trial.pages, and go there in the commit of who
 * changed them (km_below). All others are read from the original: words that are addresses there
 * become addresses in the branch on their way.
 *
 * BR1  The original is locked shared while the branch is served, so that nobody writes it. A page
 *      of it is supplied only if it has the sum that it had at first: what was written while nobody
 *      had the branch open is an error (ESTALE) for who touches that page, never a page of another
 *      time.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk/crc32c.h"
#include "manager.h"
#include "pstore.h"

enum { WORDS = KM_PAGE_BYTES / 8, PAGES_A_MIB = 256, MIB_MAX = 1024 };

/* In the store. */
struct root {
    uint64_t pages, room, used;         /* pages of the branch; room: for changed ones */
    uint32_t *sum;                      /* CRC-32C of each of the original's pages */
    uint32_t *own;                      /* where the changed one lies, and 1; 0: the original's */
    uint64_t (*page)[WORDS];
};
static ps_container *box, *original;
static bool fresh;                      /* the branch was begun by this process */
static struct root *root;
static uint64_t base;                   /* of the branch */

static const uint64_t *original_page(uint64_t page)
{
    return (uint64_t *)ps_address(original) + page * WORDS;
}

/* In a transaction of the store's. 0 or -errno. */
static int page_get(uint64_t page, uint64_t words[WORDS])
{
    const uint64_t from = (uint64_t)(uintptr_t)ps_address(original);
    if (page >= root->pages) return -EFBIG;
    if (root->own[page]) {
        memcpy(words, root->page[root->own[page] - 1], KM_PAGE_BYTES);
        return 0;
    }
    memcpy(words, original_page(page), KM_PAGE_BYTES);
    if (crc32c(0, words, KM_PAGE_BYTES) != root->sum[page]) return -ESTALE;
    for (int i = 0; i < WORDS; i++)
        if (words[i] - from < root->pages * KM_PAGE_BYTES) words[i] += base - from;
    return 0;
}

/* The place of a page that changes: its own from now on. 0: there is no room. */
static uint64_t *page_own(uint64_t page)
{
    if (!root->own[page] && root->used < root->room) root->own[page] = (uint32_t)++root->used;
    return root->own[page] ? root->page[root->own[page] - 1] : NULL;
}

static void page(struct km_request *r)
{
    uint64_t words[WORDS];
    int error = page_get(r->page, words);
    km_answer(r, words, 1, error);
}

static int change(const struct km_run *r, void *last)
{
    uint64_t words[WORDS], *page = last;
    int error = r->page == *page ? 0 : page_get(r->page, words);
    uint64_t *to = error ? NULL : page_own(r->page);
    if (!to) return error ? error : -ENOSPC;
    if (r->page != *page) memcpy(to, words, KM_PAGE_BYTES);
    *page = r->page;
    memcpy((char *)to + r->offset, r->data, r->bytes);
    return 0;
}

static int commit(struct km_object *o, uint64_t view)
{
    uint64_t last = ~0ull;
    return km_diff_each(o, view, change, &last);
}

/* ---- start ---- */

/* Locks the original, in a transaction that stays open as long as this process lives. */
static int hold(void)
{
    int error = ps_begin(NULL);
    if (!error) error = ps_lock(original, PS_LOCK_SHARED);
    return error || ps_suspend() ? error : -errno;
}

static int set_up(void *mib)
{
    const uint64_t *m = mib;
    root = ps_root(box);
    if (!root) return -errno;
    fresh = root->pages == 0;
    if (!fresh) return 0;
    root->pages = m[0] * PAGES_A_MIB;
    root->room = m[1] * PAGES_A_MIB;
    root->sum = ps_alloc(box, root->pages * sizeof *root->sum, NULL);
    root->own = ps_alloc(box, root->pages * sizeof *root->own, NULL);
    root->page = ps_alloc(box, root->room * sizeof *root->page, NULL);
    if (!root->sum || !root->own || !root->page) return -errno;
    for (uint64_t p = 0; p < root->pages; p++)
        root->sum[p] = crc32c(0, original_page(p), KM_PAGE_BYTES);
    return 0;
}

static int serve(const char *name, const char *of, uint64_t mib[2])
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    char below[KM_NAME_MAX];
    if (snprintf(below, sizeof below, "%s.pages", name) >= KM_NAME_MAX) return -ENAMETOOLONG;
    original = ps_open(of, 0, NULL);
    int error = original ? km_below(NULL) : -errno;
    if (!error) error = hold();
    if (error) return error;
    box = ps_open(below, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    error = box ? ps_transaction(set_up, mib) : -errno;
    fresh |= error && box;              /* it was undone */
    if (!error) error = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    if (error) {
        if (box) ps_close(box);
        if (fresh) ps_delete(below);
        return error;
    }
    base = (uint64_t)(uintptr_t)km_address(object);
    return km_serve(2);
}

/* 0 or -errno, and then it has said what is wrong. */
static int arguments_check(const char *name, int count, char **arguments, uint64_t mib[2])
{
    for (int i = 0; i < 2; i++) mib[i] = count == 3 ? strtoull(arguments[i + 1], NULL, 10) : 0;
    if (name && mib[0] && mib[1] && mib[0] <= MIB_MAX && mib[1] <= mib[0]) return 0;
    fprintf(stderr, "branch: say `store manager NAME branch CONTAINER MIB ROOM`: so many MiB of "
                    "the container, %d at most, of which ROOM MiB may be changed\n", MIB_MAX);
    return -EINVAL;
}

KM_CHECKS;
int main(int argc, char **argv)
{
    bool asked = argc > 2 && strcmp(argv[1], "--check") == 0;
    const char *name = asked ? argv[2] : km_container_name();
    uint64_t mib[2];
    if (asked) argc -= 2, argv += 2;
    int error = arguments_check(name, argc - 1, argv + 1, mib);
    if (error) return 2;
    if (asked)
        error = ps_open(argv[1], 0, NULL) ? 0 : -errno;
    else
        error = serve(name, argv[1], mib);
    if (error) fprintf(stderr, "branch: cannot serve %s: %s: %s\n", name, argv[1],
                       ps_strerror(error));
    return error != 0;
}
