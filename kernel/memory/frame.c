/*
 * frame.c - page frames: the RAM.
 *
 * Owns      one struct frame per page of RAM, which frames are free, pins, the reserve.
 * Not here  what a used frame holds (its owner knows), and who gives frames back (evict.c).
 *
 * Invariants
 *   FR1  A frame on the free list is in no page table and no TLB (its last user saw to that).
 *   FR2  FRAME_FREE: kept by a CPU (order KEPT), head of a free block (order), or inside one (order
 *       INSIDE). A block's index is a multiple of its size. State and order change in one store:
 *       joining blocks looks at frames that other CPUs take or keep.
 *   FR3  A pinned frame is never free. frame_free of one makes it FRAME_DYING, in one step with a
 *       look at its pins; then the last frame_unpin, which sees that in one step with its pin's
 *       end, frees it.
 *   FR4  An allocation leaves at least what its use (enum frame_use) has to leave of reserve_count,
 *       kept ones not counted: CPUs take and keep frames only while the low mark is not reached,
 *       but for FR5, and all together fewer than the evictor frees beyond the reserve.
 *   FR5  Who waits for frames has FRAME_MEAL of them set aside: a use whose takers can wait leaves
 *       them, too. When some are there, the thread is promised them, and when it runs, its CPU
 *       keeps them.
 *
 * Lock: frames.lock guards lists and states of free frames; a CPU's kept frames are its own (the
 * kernel is not interrupted); pins and DYING are atomic.
 */
#include "base/boot.h"
#include "memory/frame.h"

#include "arch.h"

enum { ORDER_MAX = 10, ORDER_KEPT = 0x7ffe, ORDER_INSIDE = 0x7fff };
enum { BATCH_MIN = 16, BATCH_MAX = 64 };
_Static_assert(FRAME_RUN_MAX == 1 << ORDER_MAX, "the longest run is the largest block");

enum { RESERVE_MIN = 64, RESERVE_MAX = 2048 };

static struct {
    struct lock lock;
    struct list blocks[ORDER_MAX + 1];
    size_t free_count;                 /* kept ones not counted; read without the lock */
    size_t leave, promised;            /* FR5: reserve_count and what is set aside; of that */
    size_t total_count, reserve_count, low_mark;
    size_t all_count;                  /* holes and reserved memory included */
    size_t batch;                      /* so many a CPU takes, and keeps twice as many at most */
} frames = {.lock = LOCK_INIT(RANK_FRAMES, "frames")};

struct frame *frame_all;
static struct { size_t count; struct frame *frame[2 * BATCH_MAX]; } kept[CPU_MAX];

static size_t frame_index(const struct frame *f) { return (size_t)(f - frame_all); }

struct frame *frame_of(paddr_t pa)
{
    return pa >> PAGE_SHIFT < frames.all_count ? &frame_all[pa >> PAGE_SHIFT] : NULL;
}

bool frame_spare(void)
{
    return __atomic_load_n(&frames.free_count, __ATOMIC_RELAXED) > frames.reserve_count;
}

size_t frame_free_count(void)
{
    size_t count = __atomic_load_n(&frames.free_count, __ATOMIC_RELAXED);
    for (unsigned cpu = arch_cpu_count(); cpu-- > 0;)
        count += __atomic_load_n(&kept[cpu].count, __ATOMIC_RELAXED);
    return count;
}

size_t frame_total_count(void) { return frames.total_count; }
size_t frame_all_count(void) { return frames.all_count; }
size_t frame_low_mark(void) { return frames.low_mark; }

/* FR2 */
static void set_free(struct frame *f, uint32_t order)
{
    __atomic_store_n(&f->state_flags, FRAME_FREE | order << 16, __ATOMIC_RELAXED);
}

static bool is_free(const struct frame *f, uint32_t order)
{
    return __atomic_load_n(&f->state_flags, __ATOMIC_RELAXED) == (FRAME_FREE | order << 16);
}

/* ---- blocks; all under frames.lock ---- */

/* Gives a block back and joins it with its buddy as long as that one is free as a whole. */
static void block_put(struct frame *f, unsigned order)
{
    size_t index = frame_index(f);
    set_free(f, ORDER_INSIDE);
    for (; order < ORDER_MAX; order++) {
        size_t buddy_index = index ^ (size_t)1 << order;
        struct frame *buddy = &frame_all[buddy_index];
        if (buddy_index >= frames.all_count || !is_free(buddy, order))
            break;
        list_remove(&buddy->link);
        buddy->flags = ORDER_INSIDE;
        index &= ~((size_t)1 << order);
    }
    frame_all[index].flags = (uint16_t)order;
    list_push_front(&frames.blocks[order], &frame_all[index].link);
}

/* Takes a block of exactly this order, splitting a larger one; NULL: none. */
static struct frame *block_take(unsigned order)
{
    unsigned found = order;
    while (found <= ORDER_MAX && list_empty(&frames.blocks[found]))
        found++;
    if (found > ORDER_MAX)
        return NULL;
    struct frame *f = list_take(struct frame, &frames.blocks[found], link);
    assert(is_free(f, found)); /* FR2 */
    while (found > order) {
        struct frame *half = f + ((size_t)1 << --found);
        half->flags = (uint16_t)found;
        list_push_front(&frames.blocks[found], &half->link);
    }
    return f;
}

static void make_used(struct frame *f, enum frame_use use)
{
    list_init(&f->link);
    f->pins = 0;
    f->owner = NULL;
    __atomic_store_n(&f->state_flags, FRAME_USED | (uint32_t)use << 8, __ATOMIC_RELAXED); /* FR2 */
}

/* ---- single frames ---- */

/* frames.lock held; the count is not 0. */
static struct frame *take_kept(void)
{
    struct frame *f = block_take(0);
    assert(f != NULL); /* FR2 */
    set_free(f, ORDER_KEPT); /* the caller's: no block joins it */
    frames.free_count--;
    return f;
}

/* kept_refill gives this CPU, which keeps none, the frames of a block, or of a smaller one.
 * frames.lock held. */
static void kept_refill(unsigned cpu)
{
    assert(kept[cpu].count == 0); /* FR4 */
    if (frames.free_count < frames.low_mark + frames.batch)
        return;
    unsigned order = (unsigned)__builtin_ctzll(frames.batch);
    struct frame *block = block_take(order);
    while (block == NULL && order-- > 0)
        block = list_take(struct frame, &frames.blocks[order], link);
    assert(block != NULL); /* FR2 */
    size_t count = (size_t)1 << order;
    for (size_t i = 0; i < count; i++) {
        set_free(block + i, ORDER_KEPT);
        kept[cpu].frame[i] = block + i;
    }
    kept[cpu].count = count;
    frames.free_count -= count;
}

/* take_locked takes one frame for the caller, and some for this CPU to keep. NULL: there are none
 * for this use. */
static __attribute__((noinline)) struct frame *take_locked(enum frame_use use)
{
    struct frame *f = NULL;
    lock_acquire(&frames.lock);
    size_t leave = use > FRAME_MANAGER ? 0 : use == FRAME_MANAGER ? frames.reserve_count / 4
                                                                  : frames.leave;
    if (frames.free_count > leave) {
        f = take_kept();
        kept_refill(arch_cpu_id());
    }
    bool low = frames.free_count < frames.low_mark;
    lock_release(&frames.lock);
    if (low)
        frame_seam.low();
    return f;
}

/* frame_take takes a frame that holds zeros, if `zeros`. */
HOT struct frame *frame_take(enum frame_use use, bool zeros)
{
    unsigned cpu = arch_cpu_id();
    struct frame *f = kept[cpu].count != 0 ? kept[cpu].frame[--kept[cpu].count]
                                           : take_locked(use);
    if (f == NULL)
        return NULL;
    if (zeros && f->owner != FRAME_OF_ZEROS)
        page_zero(frame_memory(f));
    make_used(f, use);
    return f;
}

struct frame *frame_alloc_raw(enum frame_use use) { return frame_take(use, false); }
struct frame *frame_alloc(enum frame_use use) { return frame_take(use, true); }

/* frames.lock held. */
static void put_locked(struct frame *f)
{
    block_put(f, 0);
    frames.free_count++;
}

/* kept_drain gives back all that this CPU keeps but `leave`. frames.lock held. */
static void kept_drain(unsigned cpu, size_t leave)
{
    while (kept[cpu].count > leave)
        put_locked(kept[cpu].frame[--kept[cpu].count]);
}

static void free_now(struct frame *f)
{
    unsigned cpu = arch_cpu_id();
    assert(f->state == FRAME_USED); /* FR3: the last unpin came first */
    if (kept[cpu].count < 2 * frames.batch && frames.free_count >= frames.low_mark) {
        set_free(f, ORDER_KEPT);
        kept[cpu].frame[kept[cpu].count++] = f;
        return;
    }
    lock_acquire(&frames.lock);
    put_locked(f); /* and an eighth: were it half, each large transaction would want it again */
    kept_drain(cpu, frames.free_count >= frames.low_mark ? frames.batch * 7 / 4 : 0);
    lock_release(&frames.lock);
}

/* FR3: a frame becomes DYING in one step with a look at its pins, if it has any. */
static bool is_unpinned(struct frame *f)
{
    uint64_t now = __atomic_load_n(&f->pins_state, __ATOMIC_SEQ_CST);
    assert(f->state == FRAME_USED); /* FR2 */
    while ((uint32_t)now != 0) {
        uint64_t dying = (now & ~(0xffull << 32)) | (uint64_t)FRAME_DYING << 32;
        if (__atomic_compare_exchange_n(&f->pins_state, &now, dying, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return false; /* the last frame_unpin frees it */
    }
    return true;
}

void frame_free(struct frame *f)
{
    if (is_unpinned(f))
        free_now(f);
}

void frames_free(struct list *all)
{
    if (list_empty(all))
        return;
    lock_acquire(&frames.lock);
    for (struct frame *f; (f = list_take(struct frame, all, link));)
        if (is_unpinned(f))
            put_locked(f);
    lock_release(&frames.lock);
}

void frame_pin(struct frame *f) { __atomic_fetch_add(&f->pins, 1, __ATOMIC_SEQ_CST); }

/* FR3: the state is that of the moment when the last pin went; later the frame may be another's. */
void frame_unpin(struct frame *f)
{
    uint64_t left = __atomic_sub_fetch(&f->pins_state, 1, __ATOMIC_SEQ_CST);
    assert((uint32_t)left != UINT32_MAX); /* FR3 */
    if ((uint32_t)left == 0 && (uint8_t)(left >> 32) == FRAME_DYING) {
        f->state = FRAME_USED;
        free_now(f);
    }
}

/* ---- for those who wait (FR5) ---- */

void frame_wait_begin(void)
{
    lock_acquire(&frames.lock);
    frames.leave += FRAME_MEAL;
    lock_release(&frames.lock);
}

bool frame_promise(void)
{
    lock_acquire(&frames.lock);
    bool can = frames.free_count > frames.reserve_count + frames.promised;
    frames.promised += can ? FRAME_MEAL : 0;
    assert(frames.leave >= frames.reserve_count + frames.promised); /* FR5 */
    lock_release(&frames.lock);
    return can;
}

void frame_wait_end(bool promised)
{
    unsigned cpu = arch_cpu_id();
    lock_acquire(&frames.lock);
    frames.leave -= FRAME_MEAL;
    frames.promised -= promised ? FRAME_MEAL : 0;
    while (promised && kept[cpu].count < FRAME_MEAL && frames.free_count > frames.reserve_count)
        kept[cpu].frame[kept[cpu].count++] = take_kept();
    lock_release(&frames.lock);
}

/* ---- runs ---- */

static unsigned order_of(size_t count)
{
    return count < 2 ? 0 : 64 - (unsigned)__builtin_clzll(count - 1);
}

struct frame *frame_alloc_run(size_t count)
{
    struct frame *run = NULL;
    unsigned order = order_of(count);
    if (count == 0 || order > ORDER_MAX)
        return NULL;
    lock_acquire(&frames.lock);
    if (frames.free_count >= frames.reserve_count + count) {
        run = block_take(order);
        if (run == NULL) {
            kept_drain(arch_cpu_id(), 0);
            run = block_take(order);
        }
    }
    if (run != NULL) {
        for (size_t i = 0; i < count; i++)
            make_used(run + i, FRAME_KERNEL);
        for (size_t i = count; i < (size_t)1 << order; i++)
            block_put(run + i, 0);
        frames.free_count -= count;
    }
    bool low = frames.free_count < frames.low_mark;
    lock_release(&frames.lock);
    if (low)
        frame_seam.low();
    return run;
}

/* ---- start and check ---- */

static void find_end(paddr_t start, paddr_t end, void *arg)
{
    paddr_t *last = arg;
    (void)start;
    *last = MAX(*last, end);
}

static void add_range(paddr_t start, paddr_t end, void *arg)
{
    (void)arg;
    for (paddr_t at = start; at < end; at += PAGE_BYTES)
        put_locked(frame_of(at));
}

/* The boot loader's map may have any number of islands; what it does not call free stays
 * FRAME_RESERVED for ever. The array reaches from address 0 to the end of RAM, holes included. */
void frame_init(void)
{
    paddr_t end = 0, array;
    boot_memory_for(find_end, &end);
    frames.all_count = end >> PAGE_SHIFT;
    size_t bytes = frames.all_count * sizeof(struct frame);
    array = boot_take(bytes, end);
    if (array == 0)
        panic("no room for the array of %zu frames", frames.all_count);
    frame_all = arch_phys(array);
    memset(frame_all, 0, bytes); /* FRAME_RESERVED */

    for (unsigned order = 0; order <= ORDER_MAX; order++)
        list_init(&frames.blocks[order]);
    boot_free_for(add_range, NULL);
    frames.total_count = frames.free_count;
    frames.reserve_count = MIN(MAX(frames.total_count / 64, RESERVE_MIN), RESERVE_MAX);
    frames.leave = frames.reserve_count;
    frames.low_mark = frames.reserve_count + frames.total_count / 64;
    size_t beyond = frames.low_mark * 5 / 4 - frames.reserve_count; /* evict.c: high_mark */
    frames.batch = BATCH_MIN;
    while (frames.batch < BATCH_MAX && 4 * CPU_MAX * frames.batch < beyond) /* FR4 */
        frames.batch *= 2;
    printk("frames: %zu (%zu MiB), reserve %zu, low mark %zu", frames.total_count,
           frames.total_count >> 8, frames.reserve_count, frames.low_mark);
}

/* free_together: of how many free frames is f the first? 0: of none (FR2). frames.lock held. */
static size_t free_together(const struct frame *f, uint32_t order)
{
    size_t count = order <= ORDER_MAX ? (size_t)1 << order : 1;
    bool good = order != ORDER_INSIDE && frame_index(f) % count == 0;
    for (size_t i = 1; good && i < count; i++)
        good = is_free(f + i, ORDER_INSIDE);
    return good ? count : 0;
}

bool frame_check(paddr_t from, uint64_t uses[FRAME_USES])
{
    size_t i = from >> PAGE_SHIFT, end = MIN(i + FRAME_RUN_MAX, frames.all_count), bad_count = 0;
    lock_acquire(&frames.lock);
    for (size_t n; i < end; i += MAX(n, 1u)) {
        /* another CPU may take or keep it now */
        struct frame now = {.state_flags = __atomic_load_n(&frame_all[i].state_flags,
                                                           __ATOMIC_RELAXED)};
        n = now.state == FRAME_FREE ? free_together(&frame_all[i], now.flags) : 1;
        bad_count += n == 0;
        if (now.state != FRAME_RESERVED)
            uses[now.state == FRAME_FREE ? FRAME_UNUSED : now.use] += n;
    }
    lock_release(&frames.lock);
    if (bad_count != 0)
        printk("frames: %zu things wrong with the free frames (FR2)", bad_count);
    return bad_count == 0;
}
