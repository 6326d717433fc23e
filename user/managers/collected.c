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
 * GC3  What was supplied is kept until the next flip: the kernel may drop it while it is clean.
 * GC4  Chunks for new cells leave room for all that may have to be copied.
 * GC5  The mutator never waits until this process has memory: it has all of it before it serves.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "collected.h"

enum { MIB_MAX = 64, PAGES_A_MIB = 256, PAGE_CELLS = KM_PAGE_BYTES / sizeof(struct collected_cell),
       FORWARDED = 2, THREADS = 2, POPULATE_WRITE = 23 /* MADV_, which musl lacks */ };

static struct km_object *object;
static uint64_t base, pages;            /* of the object; pages of a space */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* all that follows */
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static struct collected_cell *cells;    /* what was supplied or taken back, or is being copied */
static uint8_t *done;                   /* of each page: taken back (old), or scanned (new) */
/* A space: its first page; where its copies end, counted in cells; its first page of chunks. */
static struct space { uint64_t first, copied, top; } new, old; /* new: the mutator's */
static int collecting;
static uint64_t next_scan;              /* pages before it are scanned and supplied */
static uint64_t due;                    /* cells of the old space that may have to be copied yet */
static struct collected_counts counts;

/* The page behind its copies. */
static uint64_t copies_end(const struct space *s)
{
    return (s->copied + PAGE_CELLS - 1) / PAGE_CELLS;
}

/* ---- copying ---- */

/* The value as the mutator may see it. A page of the old space is taken back from the kernel when a
 * cell of it is needed first; what is not there any more is as it was supplied (GC3). Guarded. */
static uint64_t forward(uint64_t value)
{
    uint64_t i = (value - base) / sizeof *cells, page = i / PAGE_CELLS, csn;
    if (page - old.first >= pages || value % sizeof *cells) return value;
    if (page >= copies_end(&old) && page < old.top) return value; /* nobody was given it (GC4) */
    if (!done[page]) (void)km_read(object, page, cells + page * PAGE_CELLS, &csn);
    done[page] = 1;
    if ((cells[i].car & 3) == FORWARDED) return cells[i].car & ~3ull;
    if (new.copied / PAGE_CELLS >= new.top) abort(); /* GC4 */
    due--;
    uint64_t at = base + new.copied * sizeof *cells;
    cells[new.copied++] = cells[i];
    counts.copied++;
    cells[i].car = at | FORWARDED;
    return at;
}

/* Pages between copies and chunks that no copy will need (GC4). */
static uint64_t room(void)
{
    uint64_t end = copies_end(&new) + (collecting ? due / PAGE_CELLS + 2 : 0);
    return new.top > end ? new.top - end : 0;
}

static void step(void);

/* Scans a page of copies. One that is being filled is full from then on, and the rest of it wasted;
 * where room is short others are scanned first, which may fill it. Guarded. */
static void scan(uint64_t page)
{
    if (done[page]) return;
    while (room() == 0 && next_scan < page && new.copied / PAGE_CELLS == page) step();
    done[page] = 1;
    uint64_t i = page * PAGE_CELLS, end = i + PAGE_CELLS;
    for (; i < end && i < new.copied; i++)
        cells[i].car = forward(cells[i].car), cells[i].cdr = forward(cells[i].cdr);
    memset(cells + i, 0, (end - i) * sizeof *cells);
    if (new.copied < end) new.copied = end;
}

/* ---- a collection ---- */

/* One more page is scanned and brought, or the collection is over and the old space, which nobody
 * can store to (GC2), leaves memory. Guarded, so that no page comes when its space is the old one
 * already. */
static void step(void)
{
    if (next_scan == copies_end(&new)) {
        for (uint64_t p = 0; p < pages; p++) (void)km_cleaned(object, old.first + p, KM_CSN_ANY);
        (void)km_advise(object, old.first, pages, KM_EVICT);
        collecting = 0;
        return;
    }
    uint64_t page = next_scan++;
    counts.by_scanner += !done[page];
    scan(page);
    (void)km_push(object, page, 1, cells + page * PAGE_CELLS);
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
    due = (pages - (new.top - copies_end(&new))) * PAGE_CELLS;
    next_scan = old.first;
    old = new;
    new = (struct space){next_scan, next_scan * PAGE_CELLS, next_scan + pages};
    memset(done, 0, 2 * pages);
    (void)km_recall(object, old.first, pages, 0, NULL); /* GC2 */
    for (int i = 0; i < COLLECTED_ROOTS + 2; i++) roots[i] = forward(roots[i]);
    collecting = 1;
    counts.flips++;
    pthread_cond_signal(&begun);
}

/* ---- what the kernel and the mutator ask ---- */

static void page(struct km_request *r)
{
    pthread_mutex_lock(&guard);
    uint64_t p = r->page;
    if (p >= new.first && p < copies_end(&new)) {
        counts.by_fault += !done[p];
        scan(p);
        km_answer(r, cells + p * PAGE_CELLS, 1, 0);
    } else { /* new cells; else the old space, or what nobody was given (GC2) */
        km_answer(r, NULL, 1, p >= new.top && p < new.first + pages ? 0 : EFAULT);
    }
    pthread_mutex_unlock(&guard);
}

static void lock(struct km_request *r) { km_fail(r, EFAULT); }

/* Guarded. */
static int chunk(struct collected_call *c)
{
    while (room() < COLLECTED_CHUNK_PAGES && collecting) step();
    if (room() < COLLECTED_CHUNK_PAGES) return -ENOSPC;
    new.top -= COLLECTED_CHUNK_PAGES;
    c->at = base + new.top * KM_PAGE_BYTES;
    c->end = c->at + COLLECTED_CHUNK_PAGES * KM_PAGE_BYTES;
    c->collect = new.top - copies_end(&new) <= pages / 2;
    return 0;
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct collected_call *c = message;
    (void)o;
    if (bytes != sizeof *c) return;
    pthread_mutex_lock(&guard);
    c->error = c->what == COLLECTED_CHUNK  ? chunk(c)
               : c->what == COLLECTED_FLIP ? (flip(c->root), 0) : 0;
    c->counts = counts;
    pthread_mutex_unlock(&guard);
}

/* ---- the program ---- */

static int serve(const char *name, int lazy)
{
    static const struct km_ops ops = {.page = page, .lock = lock, .call = call};
    uint64_t bytes = 2 * pages * (KM_PAGE_BYTES + 1);
    pthread_t scanner;
    cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED || madvise(cells, bytes, POPULATE_WRITE)) return -errno; /* GC5 */
    done = (uint8_t *)(cells + 2 * pages * PAGE_CELLS);
    int error = km_create(name, 2 * pages, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (error) return error;
    new = (struct space){0, 0, pages};
    old = (struct space){pages, pages * PAGE_CELLS, 2 * pages};
    base = (uint64_t)(uintptr_t)km_address(object);
    if (!lazy) error = -pthread_create(&scanner, NULL, scan_all, NULL);
    return error ? error : km_serve(THREADS);
}

static int show(const char *name)
{
    struct collected_call c = {.what = COLLECTED_COUNTS};
    int error = km_call(name, name, &c, sizeof c);
    if (!error)
        printf("%lu collections, %lu cells copied; pages scanned: %lu touched before, %lu ahead\n",
               c.counts.flips, c.counts.copied, c.counts.by_fault, c.counts.by_scanner);
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
