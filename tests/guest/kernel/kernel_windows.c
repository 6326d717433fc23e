/*
 * kernel_windows.c - a container that is larger than all windows together, used through windows.
 *
 * Aim     no window shows all of 40 TiB, and windows reach each page of them: the first, the last,
 *         and some in between that are far apart. Windows nest, and the outer ones may end. Locks
 *         are the container's: whoever holds one by a window holds it at the first address and in
 *         all other windows. Little memory is needed for it. KD_LOOK_MAP shows the windows.
 * Method  own_manager.h; a second thread holds what the first one wants.
 */
enum { LONG_MS = 20000, SHORT_MS = 60, HOME_PAGES = 64 };
#define TIB     (1ull << 40)
#define SIZE    (40 * TIB)
#define PAGES   (SIZE / 4096)
#include "own_manager.h"

static uint64_t low, high, inner, innermost; /* windows: 1 TiB each; 16 pages and the last page */

static long map(uint64_t at, uint64_t pages, unsigned rights)
{
    return kd_call4(KD_MAP, (long)at, (long)pages, rights, 0);
}
static long unmap(uint64_t place) { return kd_call3(KD_UNMAP, (long)place, 0, 0); }

/* ---- reach ---- */

static void windows_open(void)
{
    long e = map(base, PAGES, 3);
    low = (uint64_t)map(base, TIB / 4096, 3);
    high = (uint64_t)map(base + SIZE - TIB, TIB / 4096, 3);
    inner = (uint64_t)map(high + TIB - 16 * 4096, 16, 3);
    innermost = (uint64_t)map(inner + 15 * 4096, 1, 3);
    tap_ok(e == -EINVAL && low >= KD_WINDOW_BASE && high > low && inner > high &&
               innermost > inner && innermost < KD_WINDOW_END,
           "no window shows the container, and two show its ends (%ld)", e);
}

static int store_ends(void *arg)
{
    (void)arg;
    *(volatile uint64_t *)low = 1;
    *(volatile uint64_t *)innermost = 2;
    return *word_of(0, 0) == 1 && *word_of(PAGES - 1, 0) == 2 &&
                   *(uint64_t *)(high + TIB - 4096) == 2 && *(uint64_t *)(inner + 15 * 4096) == 2
               ? 0 : EBADMSG;
}

/* Walks through the container by a window of 1 TiB after the other. */
static int store_each(void *arg)
{
    long bad = 0;
    for (uint64_t tib = 1; tib < 39; tib++) {
        long window = map(base + tib * TIB, TIB / 4096, 3);
        if (window < 0) return EBADMSG;
        *(volatile uint64_t *)window = tib;
        *(volatile uint64_t *)(window + TIB - 4096) = tib + 100;
        bad += unmap((uint64_t)window) != 0;
    }
    *(long *)arg = bad;
    return 0;
}

static int load_each(void *arg)
{
    (void)arg;
    for (uint64_t tib = 1; tib < 39; tib++)
        if (*word_of(tib * TIB / 4096, 0) != tib ||
            *word_of((tib + 1) * TIB / 4096 - 1, 0) != tib + 100)
            return EBADMSG;
    return *word_of(0, 0) == 1 && *word_of(PAGES - 1, 0) == 2 ? 0 : EBADMSG;
}

static void reach(void)
{
    long bad = -1;
    uint64_t before = process_self().used[KD_LIMIT_MEMORY];
    is(run(store_ends, NULL, 0, LONG_MS), 0, "the first page and the last, by windows in windows");
    int e = run(store_each, &bad, 0, LONG_MS);
    uint64_t used = process_self().used[KD_LIMIT_MEMORY] - before;
    tap_ok(e == 0 && bad == 0 && used < 4 << 20,
           "pages all over 40 TiB in one transaction, with %d KiB of tables (%d, %ld)",
           (int)(used >> 10), e, bad);
    is(run(load_each, NULL, 0, LONG_MS), 0, "and they are where the container has them");
}

/* ---- locks ---- */

struct holder { uint64_t at; int locks; _Atomic int has, go; pthread_t thread; int result; };

static int hold(void *arg)
{
    struct holder *h = arg;
    if (h->locks && kd_call3(KD_TXN_LOCK, (long)h->at, 0, 0)) return EBADMSG;
    *(volatile uint64_t *)h->at += 10;
    for (h->has = 1; !h->go;) kd_call3(24, 0, 0, 0);
    return ECANCELED;
}
static void *holder_main(void *arg)
{
    struct holder *h = arg;
    h->result = run(hold, h, 0, LONG_MS);
    return NULL;
}
static void holds(struct holder *h, uint64_t at, int locks)
{
    *h = (struct holder){.at = at, .locks = locks};
    pthread_create(&h->thread, NULL, holder_main, h);
    while (!h->has) kd_call3(24, 0, 0, 0);
}
static int lets_go(struct holder *h)
{
    h->go = 1;
    pthread_join(h->thread, NULL);
    return h->result;
}

static int load(void *at) { return *(volatile uint64_t *)at == 12345 ? EBADMSG : 0; }
static int tries(uint64_t at) { return run(load, (void *)at, 0, SHORT_MS); }

static void locks(void)
{
    struct holder h;
    holds(&h, innermost, 0);
    bool waits = tries((uint64_t)word_of(PAGES - 1, 0)) == -ETIMEDOUT &&
                 tries(inner + 15 * 4096) == -ETIMEDOUT && tries(high + TIB - 8) == -ETIMEDOUT;
    bool free = tries(high + TIB - 2 * 4096) == 0 && tries(low) == 0;
    tap_ok(waits && free && lets_go(&h) == ECANCELED,
           "a lock by the innermost window is one at all addresses of the page, and of no other");
    holds(&h, (uint64_t)word_of(PAGES - 1, 0), 0);
    waits = tries(innermost) == -ETIMEDOUT && tries(inner + 15 * 4096) == -ETIMEDOUT;
    tap_ok(waits && lets_go(&h) == ECANCELED && tries(innermost) == 0,
           "and one at the first address is one by the windows");
    holds(&h, innermost, 1);
    waits = tries(low) == -ETIMEDOUT && tries((uint64_t)word_of(PAGES / 2, 0)) == -ETIMEDOUT;
    tap_ok(waits && lets_go(&h) == ECANCELED && tries(low) == 0,
           "the container's lock by a window of one page locks all 40 TiB");
    is(run(load_each, NULL, 0, LONG_MS), 0, "nothing is left of what was given up");
}

/* ---- what is shown, and the end ---- */

static bool shown(const char *text, uint64_t at, uint64_t pages, uint64_t first)
{
    char line[128];
    snprintf(line, sizeof line, "0x%012lx - 0x%012lx rw- %8lu KiB  window of 0x%012lx\n", at,
             at + pages * 4096, pages * 4, first);
    return strstr(text, line) != NULL;
}

static void looked_at(void)
{
    static char text[16384];
    long n = kd_call4(KD_LOOK, KD_LOOK_MAP, getpid(), (long)text, sizeof text - 1);
    tap_ok(n > 0 && shown(text, low, TIB / 4096, base) &&
               shown(text, innermost, 1, base + SIZE - 4096),
           "KD_LOOK_MAP shows windows, and what they show");
}

static int store_last(void *at) { return *(volatile uint64_t *)at = 3, 0; }

static void ends(void)
{
    bool out = !unmap(high) && !unmap(inner);
    int e = run(store_last, (void *)innermost, 0, LONG_MS);
    long gone = kd_call3(KD_CONTAINER_INFO, (long)inner, 0, 0);
    tap_ok(out && e == 0 && gone == -ENOENT && unmap(innermost) == 0,
           "outer windows end first (%d, %ld)", e, gone);
    is(run(load_each, NULL, 0, LONG_MS), EBADMSG, "the last page has what the inner one stored");
    is(unmap(low), 0, "the last window ends");
}

int main(void)
{
    tap_plan(13);
    if (!tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES}),
                "a container of 40 TiB"))
        return tap_end();
    windows_open();
    reach();
    locks();
    looked_at();
    ends();
    return tap_end();
}
