/*
 * collected.c - a heap of cells whose garbage is collected while its user runs on, after Appel,
 * Ellis and Li: the page fault is the barrier (managers.md).
 *
 *     collected NAME MIB &          serves the object NAME: two spaces of MIB each
 *     collected NAME MIB lazy &     without a thread that scans: each page when it is touched
 *     collected NAME                how much was collected
 *
 * The mutator uses one space. When a collection begins the spaces change places, and what its roots
 * lead to is copied into the new one, at first here, in private memory. A page of copies goes to
 * the mutator when it is scanned, that is when what its cells lead to is copied, too:
 *
 * GC1  A page that the mutator can read has no pointer into the old space. A page of the new space
 *      that is not scanned is not supplied; who touches it waits until it is (AEL's trap).
 * GC2  The old space is closed to the mutator from the flip on: its rights are called back.
 * GC3  What was supplied is kept until the next flip: the kernel may drop a clean page. Dirty ones
 *      stay, since nobody cleans.
 * GC4  Chunks for new cells leave room for all that may have to be copied.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collected.h"

enum { MIB_MAX = 64, PAGES_A_MIB = 256, PAGE_CELLS = KM_PAGE_BYTES / sizeof(struct collected_cell),
       FORWARDED = 2, THREADS = 2 };

static struct km_object *object;
static uint64_t base, pages;            /* of the object; pages of a space */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* all that follows */
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static struct space {
    struct collected_cell *cells;       /* what was supplied or taken back, or is being copied */
    uint8_t *here, *scanned;            /* of each page: taken back (old); scanned (new) */
    uint64_t copied, top;               /* cells of copies from its begin; first page of chunks */
} spaces[2];
static int now, collecting;             /* the mutator's space */
static uint64_t next_scan;              /* pages before it are scanned and supplied */
static uint64_t due;                    /* cells of the old space that may have to be copied yet */
static struct collected_counts counts;

static uint64_t first_page(int s) { return (uint64_t)s * pages; }
static uint64_t copied_pages(int s)
{
    return (spaces[s].copied + PAGE_CELLS - 1) / PAGE_CELLS;
}

/* ---- copying ---- */

/* A cell of the old space. Its page is taken back from the kernel when it is needed first; what is
 * not there any more is as it was supplied (GC3). */
static struct collected_cell *old_cell(uint64_t offset)
{
    struct space *old = &spaces[!now];
    uint64_t page = offset / KM_PAGE_BYTES, csn;
    if (!old->here[page])
        (void)km_read(object, first_page(!now) + page, old->cells + page * PAGE_CELLS, &csn);
    old->here[page] = 1;
    return &old->cells[offset / sizeof(struct collected_cell)];
}

/* The value as the mutator may see it. Guarded. */
static uint64_t forward(uint64_t value)
{
    struct space *new = &spaces[now], *old = &spaces[!now];
    uint64_t offset = value - base - first_page(!now) * KM_PAGE_BYTES, p = offset / KM_PAGE_BYTES;
    if (p >= pages || offset % sizeof(struct collected_cell)) return value;
    if (p >= copied_pages(!now) && p < old->top) return value; /* nobody was given it (GC4) */
    struct collected_cell *cell = old_cell(offset);
    if ((cell->car & 3) == FORWARDED) return cell->car & ~3ull;
    if (new->copied / PAGE_CELLS >= new->top) abort(); /* GC4 */
    due--;
    uint64_t at = base + first_page(now) * KM_PAGE_BYTES + new->copied * sizeof *cell;
    new->cells[new->copied++] = *cell;
    counts.copied++;
    cell->car = at | FORWARDED;
    return at;
}

/* Pages between copies and chunks that no copy will need (GC4). */
static uint64_t room(void)
{
    uint64_t used = copied_pages(now), need = collecting ? due / PAGE_CELLS + 2 : 0;
    return spaces[now].top > used + need ? spaces[now].top - used - need : 0;
}

static void step(void);

/* Scans a page of copies. One that is being filled is full from then on, and the rest of it wasted;
 * where room is short others are scanned first, which may fill it. Guarded. */
static void scan(uint64_t page)
{
    struct space *new = &spaces[now];
    if (new->scanned[page]) return;
    while (room() == 0 && next_scan < page && new->copied / PAGE_CELLS == page) step();
    new->scanned[page] = 1;
    uint64_t i = page * PAGE_CELLS, end = i + PAGE_CELLS;
    for (; i < end && i < new->copied; i++) {
        new->cells[i].car = forward(new->cells[i].car);
        new->cells[i].cdr = forward(new->cells[i].cdr);
    }
    memset(new->cells + i, 0, (end - i) * sizeof *new->cells);
    if (new->copied < end) new->copied = end;
}

/* ---- a collection ---- */

static void page_forget(uint64_t page)
{
    static char bytes[KM_PAGE_BYTES];
    uint64_t csn;
    if (km_cleaned(object, page, KM_CSN_ANY) == -ESTALE && !km_read(object, page, bytes, &csn))
        (void)km_cleaned(object, page, KM_CSN_ANY);
}

/* The old space leaves memory. Guarded. */
static void finish(void)
{
    struct space *old = &spaces[!now];
    for (uint64_t p = 0; p < pages; p++) page_forget(first_page(!now) + p);
    (void)km_advise(object, first_page(!now), pages, KM_EVICT);
    memset(old->here, 0, pages);
    memset(old->scanned, 0, pages);
    collecting = 0;
}

/* One more page is scanned and brought, or the collection is over. Guarded, so that no page comes
 * when its space is the old one already. */
static void step(void)
{
    if (next_scan == copied_pages(now)) {
        finish();
        return;
    }
    uint64_t page = next_scan++;
    counts.by_scanner += !spaces[now].scanned[page];
    scan(page);
    (void)km_push(object, first_page(now) + page, 1, spaces[now].cells + page * PAGE_CELLS);
}

static void *scan_all(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&guard);
        while (!collecting) pthread_cond_wait(&begun, &guard);
        step();
        pthread_mutex_unlock(&guard);
    }
    return unused;
}

/* Guarded; the mutator waits for the answer. */
static void flip(uint64_t *roots)
{
    while (collecting) step();
    due = copied_pages(now) * PAGE_CELLS + (pages - spaces[now].top) * PAGE_CELLS;
    now = !now;
    spaces[now].copied = next_scan = 0;
    spaces[now].top = pages;
    (void)km_recall(object, first_page(!now), pages, 0, NULL); /* GC2 */
    for (int i = 0; i < COLLECTED_ROOTS + 2; i++) roots[i] = forward(roots[i]);
    collecting = 1;
    counts.flips++;
    pthread_cond_signal(&begun);
}

/* ---- what the kernel and the mutator ask ---- */

static void page(struct km_request *r)
{
    pthread_mutex_lock(&guard);
    uint64_t p = r->page - first_page(now);
    int error = -EFAULT;                /* the old space, or what nobody was given (GC2) */
    r->count = 1;
    if (p < copied_pages(now)) {
        counts.by_fault += !spaces[now].scanned[p];
        scan(p);
        error = km_supply(r, spaces[now].cells + p * PAGE_CELLS, 1);
    } else if (p < pages && p >= spaces[now].top) {
        error = km_zero(r);
    }
    if (error) km_fail(r, error);
    pthread_mutex_unlock(&guard);
}

static void lock(struct km_request *r) { km_fail(r, EFAULT); }

/* Guarded. */
static int chunk(struct collected_call *c)
{
    while (room() < COLLECTED_CHUNK_PAGES && collecting) step();
    if (room() < COLLECTED_CHUNK_PAGES) return -ENOSPC;
    spaces[now].top -= COLLECTED_CHUNK_PAGES;
    c->at = base + (first_page(now) + spaces[now].top) * KM_PAGE_BYTES;
    c->end = c->at + COLLECTED_CHUNK_PAGES * KM_PAGE_BYTES;
    c->collect = copied_pages(now) + pages - spaces[now].top >= pages / 2;
    return 0;
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct collected_call *c = message;
    (void)o;
    if (bytes != sizeof *c) return;
    pthread_mutex_lock(&guard);
    c->error = c->what == COLLECTED_CHUNK    ? chunk(c)
               : c->what == COLLECTED_FLIP   ? (flip(c->root), 0)
               : c->what == COLLECTED_COUNTS ? 0
                                             : -EINVAL;
    c->counts = counts;
    pthread_mutex_unlock(&guard);
}

/* ---- the program ---- */

static int serve(const char *name, int lazy)
{
    static const struct km_ops ops = {.page = page, .lock = lock, .call = call};
    pthread_t scanner;
    int error = 0;
    for (struct space *s = spaces; s < spaces + 2; s++) {
        s->cells = calloc(pages, KM_PAGE_BYTES);
        s->here = calloc(pages, 1);
        s->scanned = calloc(pages, 1);
        s->top = pages;
        if (!s->cells || !s->here || !s->scanned) error = -ENOMEM;
    }
    if (!error)
        error = km_create(name, 2 * pages, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (error) return error;
    base = (uint64_t)(uintptr_t)km_address(object);
    if (!lazy) error = -pthread_create(&scanner, NULL, scan_all, NULL);
    return error ? error : km_serve(THREADS);
}

static int show(const char *name)
{
    struct collected_call c = {.what = COLLECTED_COUNTS};
    int error = km_call(name, name, &c, sizeof c);
    if (!error)
        printf("%llu collections, %llu cells copied; pages scanned: %llu touched before, "
               "%llu ahead\n", (unsigned long long)c.counts.flips,
               (unsigned long long)c.counts.copied, (unsigned long long)c.counts.by_fault,
               (unsigned long long)c.counts.by_scanner);
    return error;
}

int main(int argc, char **argv)
{
    uint64_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    int lazy = argc == 4 && strcmp(argv[3], "lazy") == 0;
    if (argc < 2 || argc > 3 + lazy || argv[1][0] == '-' ||
        (argc > 2 && (mib == 0 || mib > MIB_MAX))) {
        fprintf(stderr, "usage: collected NAME [MIB [lazy]]\n"
                        "Without a size: what the manager of that name has collected.\n");
        return 2;
    }
    pages = mib * PAGES_A_MIB;
    int error = argc > 2 ? serve(argv[1], lazy) : show(argv[1]);
    if (error) fprintf(stderr, "collected: %s: %s\n", argv[1], ps_strerror(error));
    return error != 0;
}
