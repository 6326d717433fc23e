/*
 * compressed.c - memory whose pages are packed while nobody uses them: more than there is.
 *
 *     compressed 512 64 &     an object of 512 MiB; what leaves memory has 64 MiB, packed by LZ4
 *     compressed              what it holds at the moment
 *
 * Clients take the object by km_open("compressed", "compressed", ...), load and store. Packed pages
 * lie in slots of slabs, each of which has slots of one size; a page without a slot is zero.
 *
 * CZ1  The packed copy of a page stays while the page is in memory: if nobody stores to it, the
 *      kernel drops it and asks again. So a page that is asked for has its last contents in its
 *      slot, or is zero.
 * CZ2  Cleaning takes no new memory: it stores to slabs that are READY, which another thread makes.
 *      While they are few no page is brought, or pages would take all frames that it needs; what
 *      is cleaned then frees more memory than slabs need, and others have the rest.
 * CZ3  There are never more slabs than the limit. When all are used, pages that hold nothing yet
 *      are refused (ENOSPC); a dirty page that finds no slot stays in memory until one is free.
 * CZ4  A page is not cleaned while an answer brings it (`coming`): pages come several at a time, so
 *      another answer may have brought it before, and a thread stored to it since.
 *
 * Locks: `lock` guards slabs, places and counts.
 */
#include <errno.h>
#include <lz4.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "compressed.h"
#include "manager.h"

enum {
    POPULATE_WRITE = 23,                        /* MADV_POPULATE_WRITE, which musl lacks */
    SLAB_BYTES = 16384, STEP = 256,
    CLASSES = KM_PAGE_BYTES / STEP,             /* slots of class c have c * STEP bytes */
    READY = 0, BARE = CLASSES + 1, SLABS = CLASSES + 2, /* lists; 1 to CLASSES: with free slots */
    AHEAD = 64,                                 /* slabs that are READY, if there are so many */
    LAST = AHEAD / 8,                           /* so few are left: memory is refused */
    MOMENT_NS = 10000000,
    GROUP = 4,                                  /* pages of one answer */
    WORDS = KM_PAGE_BYTES / 8,
};
static const char name[] = "compressed";

struct slab {
    uint64_t used;                              /* a bit of each slot */
    uint32_t next, previous;                    /* in a list, whose head stands in its place */
    uint32_t class;
};
struct place { uint32_t at; uint16_t bytes, coming; }; /* at: slab * 64 + slot; 0: it is zero */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* how many slabs are READY */
static struct slab *slabs;
static char *memory;
static struct place *places;
static uint64_t ready, expected;                /* expected: the page that comes next in order */
static bool refused;                            /* memory, for slabs, of which few are left */
static struct compressed_counts counts;

/* ---- slots; lock: held ---- */

static void slab_move(uint32_t s, uint32_t list)
{
    slabs[slabs[s].previous].next = slabs[s].next;
    slabs[slabs[s].next].previous = slabs[s].previous;
    slabs[s].next = list == s ? s : slabs[list].next;
    slabs[s].previous = list;
    slabs[slabs[s].next].previous = s;
    slabs[list].next = s;
}

static char *slab_memory(uint32_t s) { return memory + (size_t)(s - SLABS) * SLAB_BYTES; }
static char *slot_memory(uint32_t at)
{
    return slab_memory(at / 64) + (size_t)(at % 64) * slabs[at / 64].class * STEP;
}

static uint64_t slots_all(uint32_t class) { return ~0ull >> (64 - SLAB_BYTES / (class * STEP)); }

/* 0: there is none. */
static uint32_t slot_take(uint32_t class)
{
    uint32_t s = slabs[class].next;
    if (s == class) {
        s = slabs[READY].next;
        pthread_cond_broadcast(&changed);
        if (s == READY) return 0;
        slabs[s].class = class;
        ready--;
    }
    unsigned slot = (unsigned)__builtin_ctzll(~slabs[s].used);
    slabs[s].used |= 1ull << slot;
    slab_move(s, slabs[s].used == slots_all(class) ? s : class);
    counts.memory += class * STEP;
    return s * 64 + slot;
}

static void slot_free(uint32_t at)
{
    uint32_t s = at / 64;
    bool stays = ready < AHEAD;                 /* where it is empty now */
    slabs[s].used &= ~(1ull << at % 64);
    counts.memory -= slabs[s].class * STEP;
    slab_move(s, slabs[s].used ? slabs[s].class : stays ? READY : BARE);
    if (slabs[s].used) return;
    ready += stays;
    if (!stays) madvise(slab_memory(s), SLAB_BYTES, MADV_DONTNEED);
}

/* Gives slabs memory before they are needed. It may wait for that, as cleaning must not (CZ2).
 * Frames that cleaning here makes are told (changed). Those that others give back are not: a word
 * of the kernel's at each free frame would cost everybody, so it looks again after a moment. */
static void *slabs_prepare(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        uint32_t s;
        while (ready >= AHEAD || (s = slabs[BARE].next) == BARE) pthread_cond_wait(&changed, &lock);
        slab_move(s, s);
        pthread_mutex_unlock(&lock);
        bool got = madvise(slab_memory(s), SLAB_BYTES, POPULATE_WRITE) == 0;
        pthread_mutex_lock(&lock);
        ready += got;
        slab_move(s, got ? READY : BARE);
        refused = !got && ready < LAST; /* else it may be others who have it for a moment */
        pthread_cond_broadcast(&changed);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += MOMENT_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (!got) pthread_cond_timedwait(&changed, &lock, &until);
    }
    return unused;
}

/* ---- policy ---- */

/* lock: held. */
static int unpack(uint64_t page, char to[KM_PAGE_BYTES])
{
    const char *at = slot_memory(places[page].at);
    int bytes = places[page].bytes;
    if (bytes == KM_PAGE_BYTES) return memcpy(to, at, KM_PAGE_BYTES), 0;
    return LZ4_decompress_safe(at, to, bytes, KM_PAGE_BYTES) == KM_PAGE_BYTES ? 0 : EIO;
}

static bool full(void) { return ready < AHEAD / 2 && (refused || slabs[BARE].next == BARE); }

/* Pages that follow each other are brought several at a time, where they are asked for in order. */
static void page(struct km_request *r)
{
    char bytes[GROUP][KM_PAGE_BYTES];
    uint64_t n = 0, most = r->count;
    int error = 0;
    pthread_mutex_lock(&lock);
    while (ready < AHEAD / 2 && !full()) pthread_cond_wait(&changed, &lock); /* CZ2 */
    if (r->page == expected) most = GROUP;
    for (; n < most && n < GROUP && r->page + n < counts.pages && !error; n++) {
        if (!places[r->page + n].at) break;
        error = unpack(r->page + n, bytes[n]);
        places[r->page + n].coming++;
    }
    if (n == 0 && full()) error = ENOSPC;
    expected = r->page + (n ? n : 1);
    counts.supplied += n;
    pthread_mutex_unlock(&lock);
    km_answer(r, n ? bytes : NULL, error || !n ? 1 : n, error);
    while (n) __atomic_fetch_sub(&places[r->page + --n].coming, 1, __ATOMIC_SEQ_CST);
}

/* The new copy takes the place of the old one; where they are of a size, its slot. False: there is
 * no room for it. lock: held. */
static bool keep(uint64_t page, const void *packed, uint32_t bytes)
{
    struct place old = places[page];
    uint32_t class = (bytes + STEP - 1) / STEP, at = bytes ? old.at : 0;
    bool fits = at && slabs[at / 64].class == class;
    if (bytes && !fits && !(at = slot_take(class))) return false;
    if (old.at && !fits) slot_free(old.at);
    places[page] = (struct place){at, (uint16_t)bytes, 0};
    if (at) memcpy(slot_memory(at), packed, bytes);
    counts.packed = counts.packed + (at != 0) - (old.at != 0);
    counts.bytes = counts.bytes + bytes - old.bytes;
    return true;
}

static LZ4_stream_t state;                      /* of the one thread that cleans */

/* A page that was stored to while it was read is packed all the same: it stays dirty in memory, and
 * so will come once more before anybody asks for it. */
static void clean_page(struct km_object *o, uint64_t page)
{
    static uint64_t words[WORDS];
    static char packed[KM_PAGE_BYTES];
    uint64_t csn;
    if (km_read(o, page, words, &csn)) return;
    bool none = !words[0] && !memcmp(words, words + 1, sizeof words - sizeof words[0]);
    int n = none ? 0 : LZ4_compress_fast_extState(&state, (const char *)words, packed, sizeof words,
                                                  sizeof words - STEP, 1);
    pthread_mutex_lock(&lock);
    bool kept = !__atomic_load_n(&places[page].coming, __ATOMIC_SEQ_CST) &&
                (n || none ? keep(page, packed, (uint32_t)n) : keep(page, words, sizeof words));
    counts.left += !kept;
    pthread_mutex_unlock(&lock);
    if (kept) ++*(km_cleaned(o, page, csn) == -ESTALE ? &counts.stale : &counts.cleaned);
}

static void clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    for (unsigned i = 0; i < count; i++) clean_page(o, pages[i]);
    pthread_cond_broadcast(&changed);           /* slabs may have these frames */
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct compressed_call *c = message;
    if (bytes != sizeof *c) return;
    if (c->what == COMPRESSED_OUT && !(c->result = km_clean(o, c->page, c->count)))
        c->result = km_advise(o, c->page, c->count, KM_EVICT);
    pthread_mutex_lock(&lock);
    c->counts = counts;
    pthread_mutex_unlock(&lock);
}

/* ---- the program ---- */

static bool prepare(uint64_t pages, uint64_t limit)
{
    uint64_t count = limit / SLAB_BYTES;
    pthread_t thread;
    counts = (struct compressed_counts){.pages = pages, .limit = limit};
    slabs = calloc(SLABS + count, sizeof *slabs);
    places = calloc(pages, sizeof *places);
    memory = mmap(NULL, limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!slabs || !places || memory == MAP_FAILED) return false;
    memset(places, 0, pages * sizeof *places);  /* cleaning stores to all of it (CZ2) */
    memset(&state, 0, sizeof state);
    for (uint32_t s = 0; s < SLABS + count; s++) slabs[s].next = slabs[s].previous = s;
    for (uint32_t s = SLABS; s < SLABS + count; s++) slab_move(s, BARE);
    return pthread_create(&thread, NULL, slabs_prepare, NULL) == 0;
}

static int serve(uint64_t mib, uint64_t limit_mib)
{
    static const struct km_ops ops = {.page = page, .clean = clean, .call = call};
    struct km_object *object;
    int e = prepare(mib << 8, limit_mib << 20) ? 0 : -ENOMEM;
    if (!e) e = km_create(name, mib << 8, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (!e) e = km_serve(2);
    fprintf(stderr, "compressed: cannot serve: %s\n", ps_strerror(e));
    return 1;
}

static int show(void)
{
    struct compressed_call c = {.what = COMPRESSED_COUNTS};
    if (km_call(name, name, &c, sizeof c) < 0)
        return fprintf(stderr, "compressed: nobody serves it; start it by "
                               "`compressed MIB LIMIT_MIB &`\n"), 1;
    const struct compressed_counts *n = &c.counts;
    printf("%lu MiB: %lu pages packed into %lu KiB, which take %lu of %lu KiB\n"
           "supplied %lu, cleaned %lu, stored to meanwhile %lu, left in memory %lu\n",
           n->pages >> 8, n->packed, n->bytes >> 10, n->memory >> 10, n->limit >> 10,
           n->supplied, n->cleaned, n->stale, n->left);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1) return show();
    uint64_t mib = strtoull(argv[1], NULL, 0), limit = argc == 3 ? strtoull(argv[2], NULL, 0) : 0;
    if (mib && limit && mib <= 1u << 20 && limit <= 1u << 16) return serve(mib, limit);
    fprintf(stderr, "usage: compressed MIB LIMIT_MIB & (serves), compressed (shows)\n");
    return 2;
}
