/*
 * kernel_begin.c - begin and end cost the same, whatever the view has mapped and whatever was
 * published since.
 *
 * Aim     a begin that cannot use what the view maps, and a strict end, take it away in a number of
 *         instructions that does not grow with the pages; what they see is right; a dirty read
 *         costs the next snapshot nothing; the tables that went are freed.
 * Method  own_manager.h; a reader's view and a writer's in one thread. QEMU counts instructions as
 *         time, so the time stamp counter counts them. Each figure is the least of some: a tick may
 *         fall into one.
 */
enum { PAGES = 20 * 512 };
#define HOME_PAGES 1
#include "own_manager.h"

enum { FEW = 20, MANY = 1280, ROUNDS = 4, MOST = 1200 };
struct pages { unsigned count, step; };
static const struct pages few = {FEW, 1}, many = {MANY, 1}, wide = {FEW, 512}, some = {32, 128};
static struct context reader, writer;
static uint64_t round_now, wrong;

static int read_pages(void *arg)
{
    const struct pages *p = arg;
    for (unsigned i = 0; i < p->count; i++)
        wrong += *word_of(i * p->step, 0) != round_now;
    return 0;
}

static int write_pages(void *arg)
{
    const struct pages *p = arg;
    for (unsigned i = 0; i < p->count; i++)
        *word_of(i * p->step, 0) = round_now;
    return 0;
}

static void see(const struct pages *p, unsigned mode)
{
    in_view(&reader);
    wrong += run(read_pages, (void *)(uintptr_t)p, mode, 0) != 0;
}

static void publish(const struct pages *p)
{
    in_view(&writer);
    round_now++;
    wrong += run(write_pages, (void *)(uintptr_t)p, KD_SERIALISABLE, 0) != 0;
    in_view(&reader);
}

/* A begin in the reader's view, and an end. `end`: the latter's instructions are told. */
static uint64_t cost(struct kd_begin b, const struct pages *p, int end)
{
    struct kd_commit k = {.port = -1};
    b.entry = b.stack = base; /* nobody aborts it */
    uint64_t t0 = time_stamp();
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    uint64_t t1 = time_stamp();
    if (p)
        read_pages((void *)(uintptr_t)p);
    uint64_t t2 = time_stamp();
    e = e ? e : kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    wrong += e != 0;
    return end ? time_stamp() - t2 : t1 - t0;
}

/* ---- what was before the begin ---- */

static uint64_t nothing_new(const struct pages *p)
{
    see(p, KD_SNAPSHOT);
    return cost((struct kd_begin){.mode = KD_SNAPSHOT}, NULL, 0);
}
static uint64_t all_published(const struct pages *p)
{
    see(p, KD_SNAPSHOT);
    publish(p);
    return cost((struct kd_begin){.mode = KD_SNAPSHOT}, NULL, 0);
}
static uint64_t after_dirty_read(const struct pages *p)
{
    see(p, KD_DIRTY_READ);
    return cost((struct kd_begin){.mode = KD_SNAPSHOT}, NULL, 0);
}
static int share(void *arg) { *(long *)arg = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0); return 0; }
static uint64_t older(const struct pages *p)
{
    long handle = -1;
    in_view(&reader);
    (void)run(share, &handle, KD_SNAPSHOT, 0);
    publish(p);
    see(p, KD_SNAPSHOT);
    round_now--;
    uint64_t n =
        cost((struct kd_begin){ .mode = KD_SNAPSHOT, .snapshot = (int32_t)handle + 1 }, p, 0);
    round_now++;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    see(p, KD_SNAPSHOT);
    return n;
}
static uint64_t rights_after_snapshot(const struct pages *p)
{
    see(p, KD_SNAPSHOT);
    return cost((struct kd_begin){.mode = KD_SERIALISABLE}, p, 0);
}
static uint64_t snapshot_after_rights(const struct pages *p)
{
    see(p, KD_SERIALISABLE);
    return cost((struct kd_begin){.mode = KD_SNAPSHOT}, p, 0);
}
static uint64_t strict_end(const struct pages *p)
{
    see(p, KD_SERIALISABLE);
    return cost((struct kd_begin){.mode = KD_SERIALISABLE | KD_STRICT}, p, 1);
}

static void reader_anew(void)
{
    if (reader.view)
        kd_call3(KD_HANDLE_CLOSE, reader.view, 0, 0);
    reader.view = 0;
}

static uint64_t least_of(uint64_t (*how)(const struct pages *), const struct pages *p)
{
    uint64_t least = ~0ull;
    reader_anew();
    publish(p);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t n = how(p);
        least = n < least ? n : least;
    }
    return least;
}

/* FEW pages in one page table; many in 3; some in 8, few in as many. */
static void same(uint64_t (*how)(const struct pages *), const char *what)
{
    uint64_t a = least_of(how, &few), b = least_of(how, &many), c = least_of(how, &some),
             d = least_of(how, &wide);
    tap_ok(a < MOST && b < MOST && c < MOST && d < MOST,
           "%s: %lu instructions with 20 pages, %lu with 1280, %lu with 32 in 8 page tables, %lu "
           "with 20 in 20",
           what, a, b, c, d);
}

static uint64_t faults(void)
{
    struct kd_view_stats s;
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.read_faults;
}

static uint64_t frames_free(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.free_bytes / KD_PAGE_BYTES;
}

static void tables(bool close)
{
    for (int i = 0; i < 20; i++) {
        see(i % 2 ? &many : &wide, KD_SNAPSHOT);
        (void)cost((struct kd_begin){.mode = KD_SERIALISABLE}, close ? NULL : &wide, 0);
        if (close)
            reader_anew();
    }
}

int main(void)
{
    tap_plan(13);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES}),
           "an object is created and attached");
    publish(&wide);
    publish(&many);
    same(nothing_new, "begin, nothing published since");
    same(all_published, "begin, all published since");
    same(after_dirty_read, "begin of a snapshot after a dirty read");
    same(older, "begin of an older snapshot");
    same(rights_after_snapshot, "begin of a transaction after a snapshot");
    same(snapshot_after_rights, "begin of a snapshot after a transaction");
    same(strict_end, "end of a strict transaction");
    tap_ok(wrong == 0, "and all of them saw what they should (%lu did not)", wrong);

    publish(&many);
    see(&many, KD_DIRTY_READ);
    uint64_t before = faults();
    see(&many, KD_SNAPSHOT);
    see(&many, KD_DIRTY_READ);
    tap_ok(faults() == before,
           "what a dirty read mapped, a snapshot finds, and the other way round");

    publish(&wide);
    publish(&many);
    tables(false);
    before = frames_free();
    tables(false);
    tap_ok(frames_free() == before, "tables that went are freed: %lu frames, then %lu", before,
           frames_free());
    tables(true);
    before = frames_free();
    tables(true);
    tap_ok(frames_free() == before, "and with the view: %lu frames, then %lu", before,
           frames_free());
    tap_ok(check() == 0, "kcheck is clean");
    return tap_end();
}
