/*
 * optimistic.c - a lock policy of a manager's own: transactions read without locks, and at commit
 * it is looked at whether what they read is still what is there (managers.md).
 *
 *     optimistic NAME MIB &             serves the object NAME; commits are validated
 *     optimistic NAME MIB committed &   not validated: "read committed"
 *     optimistic NAME MIB locks &       the kernel's two-phase locks, for comparison
 *     optimistic NAME                   how many commits were let through, and how many sent back
 *
 * The kernel does for pages without locks (KM_UNLOCKED) what it does anyway: a reader sees what was
 * published last, a writer has a copy, two writers of one page wait for each other. Pages come
 * without rights, so each first touch of a transaction asks; that is the read set.
 *
 * OP1  What is noted for a page is not younger than what the transaction then sees: the note is
 *      made before the right is given, and the first one counts.
 * OP2  A version is told from the next only when that is published. So commits are judged one at a
 *      time, each behind the publication of the one before it.
 *
 * A client's transactions hold no rights beyond their ends (ps_strict), else no touch asks. What
 * only reads is a snapshot (PS_SNAPSHOT) and is not validated.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"
#include "optimistic.h"

enum { MIB_MAX = 64, PAGES_A_MIB = 256, THREADS = 2 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* all that follows */
static uint64_t pages;
static uint32_t *version;               /* of each page: from 1, one more at each publication */
static struct coming { uint64_t base_csn; int is; } *coming; /* of each page: passed, not settled */
static uint64_t *passed, passed_count;  /* the pages of the last commit that was let through */
static struct reader {
    uint32_t *seen;                     /* of each page: the version noted; 0: not read */
    uint32_t *list, count;              /* the pages noted */
} readers[KM_VIEWS_MAX];
static struct optimistic_counts counts;
static int validates = 1;

/* ---- versions ---- */

/* The page's new version is there for all. Guarded. */
static void settle(uint64_t page)
{
    version[page] += coming[page].is != 0;
    coming[page].is = 0;
}

/* Was it published meanwhile? Then its csn is another one. Who looks too early notes the older
 * version, and is sent back for nothing: that is OP1. Guarded. */
static void settle_if_published(struct km_object *o, uint64_t page)
{
    static char bytes[KM_PAGE_BYTES];
    uint64_t csn;
    if (coming[page].is && km_read(o, page, bytes, &csn) == 0 && csn != coming[page].base_csn)
        settle(page);
}

/* ---- the read set ---- */

static void reader_note(struct reader *r, uint64_t page)
{
    if (r->seen[page]) return;
    r->seen[page] = version[page];
    r->list[r->count++] = (uint32_t)page;
    counts.reads++;
}

/* Is all that the view has read as it was? Forgets it: the next transaction of the view begins with
 * nothing noted. What an aborted one leaves is judged with the next, which may send that back for
 * nothing. Guarded. */
static int reader_judge(struct reader *r)
{
    int good = 1;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t page = r->list[i];
        good &= r->seen[page] == version[page];
        r->seen[page] = 0;
    }
    r->count = 0;
    return good;
}

/* Stores are noted, too. A page that is only stored to would need no note, as its copy is made of
 * the newest version; but a read that the kernel takes for the beginning of a store asks like a
 * store, and may become a plain read while it is asked. */
static void lock(struct km_request *r)
{
    pthread_mutex_lock(&guard);
    if (r->view > 0 && r->view <= KM_VIEWS_MAX) {
        settle_if_published(r->object, r->page);
        reader_note(&readers[r->view - 1], r->page);
    }
    pthread_mutex_unlock(&guard);
    (void)km_grant(r);
}

/* ---- commits ---- */

/* Notes which pages it changes, and what they are now. 0 or -errno. Guarded. */
static int pass(const struct km_run *r, void *unused)
{
    (void)unused;
    if (coming[r->page].is) return 0;
    coming[r->page] = (struct coming){r->base_csn, 1};
    passed[passed_count++] = r->page;
    return 0;
}

/* The commit before this one is published, or has failed, in which case its pages count as changed
 * and some are sent back for nothing (OP2). */
static int commit(struct km_object *o, uint64_t view)
{
    pthread_mutex_lock(&guard);
    while (passed_count > 0) settle(passed[--passed_count]);
    int good = reader_judge(&readers[view]) || !validates;
    int error = good ? km_diff_each(o, view, pass, NULL) : -EDEADLK; /* the client runs it again */
    counts.commits += error == 0;
    counts.refused += error == -EDEADLK;
    pthread_mutex_unlock(&guard);
    return error;
}

static void call(struct km_object *o, void *message, int bytes)
{
    (void)o;
    if (bytes != sizeof counts) return;
    pthread_mutex_lock(&guard);
    memcpy(message, &counts, sizeof counts);
    pthread_mutex_unlock(&guard);
}

/* ---- the program ---- */

static int tables_make(void)
{
    version = malloc(pages * sizeof *version);
    coming = calloc(pages, sizeof *coming);
    passed = calloc(pages, sizeof *passed);
    if (!version || !coming || !passed) return -ENOMEM;
    for (uint64_t p = 0; p < pages; p++) version[p] = 1;
    for (int v = 0; v < KM_VIEWS_MAX; v++) {
        readers[v].seen = calloc(pages, sizeof *readers[v].seen);
        readers[v].list = calloc(pages, sizeof *readers[v].list);
        if (!readers[v].seen || !readers[v].list) return -ENOMEM;
    }
    return 0;
}

static int serve(const char *name, const char *how)
{
    static const struct km_ops own = {.lock = lock, .commit = commit, .call = call},
                               kernels = {.call = call};
    struct km_object *object;
    int locks = strcmp(how, "locks") == 0, error = locks ? 0 : tables_make();
    int flags = KM_READ | KM_WRITE | KM_TRANSACTIONAL | (locks ? 0 : KM_ASK | KM_UNLOCKED);
    validates = strcmp(how, "committed") != 0;
    if (!error)
        error = km_create(name, pages, flags, locks ? &kernels : &own, NULL, &object);
    return error ? error : km_serve(THREADS);
}

static int show(const char *name)
{
    struct optimistic_counts c = {0};
    int error = km_call(name, name, &c, sizeof c);
    if (!error)
        printf("%llu reads, %llu commits, %llu sent back\n", (unsigned long long)c.reads,
               (unsigned long long)c.commits, (unsigned long long)c.refused);
    return error;
}

int main(int argc, char **argv)
{
    uint64_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const char *how = argc > 3 ? argv[3] : "";
    if (argc < 2 || argc > 4 || argv[1][0] == '-' || (argc > 2 && (mib == 0 || mib > MIB_MAX)) ||
        (argc > 3 && strcmp(how, "locks") != 0 && strcmp(how, "committed") != 0)) {
        fprintf(stderr, "usage: optimistic NAME [MIB [locks | committed]]\n"
                        "Without a size: what the manager of that name has counted.\n");
        return 2;
    }
    pages = mib * PAGES_A_MIB;
    int error = argc > 2 ? serve(argv[1], how) : show(argv[1]);
    if (error) fprintf(stderr, "optimistic: %s: %s\n", argv[1], ps_strerror(error));
    return error != 0;
}
