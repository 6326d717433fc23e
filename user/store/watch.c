/*
 * watch.c - clients that sleep until pages change that they have read (ps_retry).
 *
 * A client in a transaction names the pages (STORE_WATCH): as long as that lasts, nobody else's
 * commit changes one of them. Then it undoes the transaction and waits (STORE_WAIT). A commit that
 * is about to change one of the pages wakes it: it reads them again, and so waits for the commit
 * like anybody. A wake without a change (the commit is refused) costs one look.
 *
 * Bounded: WATCHES_MAX in all, WATCHES_EACH of a process. A process loses them when it ends, or has
 * no container open any more, for then its end is not heard of; who has none open gets none. One of
 * more than WATCHED_MAX pages is woken by any commit. A piece of PIECE_MAX pages costs at most one
 * pass over those before it, and none if it lies behind them, as it mostly does.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

enum { WATCHES_MAX = 128, WATCHES_EACH = 32, WATCHED_MAX = 4096, PIECE_MAX = 128 };

static struct watch {
    uint64_t process, key;              /* key: the client's; process 0: free */
    uint64_t token;                     /* the WAIT to be answered; 0: none yet */
    bool fired, all;
    unsigned count;
    uint64_t *page;                     /* addresses, ascending, each once; WATCHED_MAX fit */
} watches[WATCHES_MAX];
static unsigned watched;                /* how many there are; lock */

#define watches_each(w) for (struct watch *w = watches; w < watches + WATCHES_MAX; w++)

static void watch_end(struct watch *w)
{
    free(w->page);
    *w = (struct watch){0};
    watched--;
}

static void watch_fire(struct watch *w)
{
    struct kd_message reply = {.handle = -1};
    w->fired = true;
    if (!w->token) return;
    kd_reply(w->token, &reply);
    watch_end(w);
}

/* watch_drop takes a watch away, and wakes: nobody sleeps for ever by it. */
static void watch_drop(struct watch *w)
{
    watch_fire(w);
    if (w->process) watch_end(w);
}

static struct watch *watch_of(uint64_t process, uint64_t key)
{
    watches_each(w) if (w->process == process && w->key == key) return w;
    return NULL;
}

/* watch_make: NULL: there are too many, or no memory; or its end would not be heard of. */
static struct watch *watch_make(uint64_t process, uint64_t key)
{
    struct watch *free_place = NULL;
    unsigned own = process_known(process) ? 0 : WATCHES_EACH;
    watches_each(w) {
        own += w->process == process;
        if (!w->process && !free_place) free_place = w;
    }
    uint64_t *page = free_place && own < WATCHES_EACH ? malloc(WATCHED_MAX * sizeof(*page)) : NULL;
    if (!page) return NULL;
    *free_place = (struct watch){.process = process, .key = key, .page = page};
    watched++;
    return free_place;
}

/* page_of returns the page's address; 0: the process may not read it: *error says why. */
static uint64_t page_of(const struct watch *w, uint64_t address, int *error)
{
    struct store_container d;
    uint64_t page;
    int r = store_container_at(server.store, address, &d, &page);
    struct container *c = r == 0 ? container_by_id(d.object) : NULL;
    if (r == 0) r = c ? container_allows(c, w->process, KD_RIGHT_READ) : -ENOENT;
    *error = r;
    return r == 0 ? address / PAGE_BYTES * PAGE_BYTES : 0;
}

static int address_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* merge puts all into one order, from behind, where there is room. */
static void merge(struct watch *w, const uint64_t *piece, unsigned n)
{
    unsigned old = w->count, at = old + n;
    for (w->count = at; n > 0;)
        w->page[--at] = old > 0 && w->page[old - 1] > piece[n - 1] ? w->page[--old] : piece[--n];
}

/* unique leaves a page that is named twice there once. */
static void unique(struct watch *w, unsigned from)
{
    unsigned n = from;
    for (unsigned i = from; i < w->count; i++)
        if (n == 0 || w->page[n - 1] != w->page[i]) w->page[n++] = w->page[i];
    w->count = n;
}

static int pages_add(struct watch *w, const uint64_t *address, uint64_t n)
{
    uint64_t piece[PIECE_MAX];
    int r = n > PIECE_MAX ? -EINVAL : 0;
    for (uint64_t i = 0; r == 0 && i < n; i++) piece[i] = page_of(w, address[i], &r);
    if (r != 0) return r;
    w->all |= n > WATCHED_MAX - w->count;
    if (w->all || n == 0) return 0;
    unsigned before = w->count;
    qsort(piece, n, sizeof(*piece), address_order);
    bool behind = before == 0 || w->page[before - 1] < piece[0];
    merge(w, piece, (unsigned)n);
    unique(w, behind ? before : 0);
    return 0;
}

int watch_request(const struct kd_message *m)
{
    const uint64_t *address = m->buffer;
    int r = m->data_bytes % sizeof(*address) ? -EINVAL : 0;
    server_lock();
    struct watch *w = watch_of(m->process, m->word[0]);
    if (w && (w->token || m->word[1] != 1)) { /* word1 1: its pages are added to those before */
        watch_drop(w);
        w = NULL;
    }
    if (r == 0 && (m->data_bytes || m->word[1] == 1)) {
        if (!w) w = watch_make(m->process, m->word[0]);
        if (!w) r = -EDQUOT;
        if (r == 0) r = pages_add(w, address, m->data_bytes / sizeof(*address));
        if (w && r < 0) watch_end(w);
    }
    server_unlock();
    return r;
}

bool watch_wait(const struct kd_message *m)
{
    if (m->kind != STORE_WAIT) return false;
    server_lock();
    struct watch *w = watch_of(m->process, m->word[0]);
    bool sleeps = w && !w->fired && !w->token && !server.fenced;
    if (sleeps)
        w->token = m->token;
    else if (w && !w->token)
        watch_end(w);
    server_unlock();
    struct kd_message reply = {.handle = -1, .status = w ? 0 : -ENOENT};
    if (!sleeps) kd_reply(m->token, &reply);
    return true;
}

/* watch_has: does a page of the watch lie in the range? */
static bool watch_has(const struct watch *w, uint64_t from, uint64_t end)
{
    unsigned low = 0, high = w->count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (w->page[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return w->all || (low < w->count && w->page[low] < end);
}

static __attribute__((noinline)) void watched_change(uint64_t id, uint64_t page, uint64_t count)
{
    struct container *c = container_by_id(id);
    for (uint64_t n; c && count; page += n, count -= n) {
        n = container_left(c, page); /* in this segment */
        n = n < count ? n : count;
        uint64_t from = container_address(c, page);
        if (!n || !from) return;
        unsigned left = watched;        /* used places lie in front, mostly */
        for (struct watch *w = watches; left; w++) {
            left -= w->process != 0;
            if (w->process && !w->fired && watch_has(w, from, from + n * PAGE_BYTES))
                watch_fire(w);
        }
    }
}

void watch_changes(uint64_t id, uint64_t page, uint64_t count)
{
    if (watched) watched_change(id, page, count); /* mostly nobody waits */
}

void watch_all_change(void)
{
    watches_each(w)
        if (w->process && !w->fired) watch_fire(w);
}

void watches_end(uint64_t process)
{
    watches_each(w) {
        if (w->process == process) watch_drop(w);
    }
}
