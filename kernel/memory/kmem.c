/*
 * kmem.c - kernel memory in pieces.
 *
 * Owns      slabs: frames cut into equal objects of 16, 32, ... 2048 bytes; longer pieces are runs
 *           of frames. An object is aligned to its size.
 * Not here  pages: whoever wants one page takes a frame.
 *
 * Invariants
 *   KM1  A slab's frame: `owner` is the first free object (each free one starts with the next),
 *       `flags` the class and the count of live objects. A run's first frame: `owner` is the
 *       number of frames.
 *   KM2  A slab is in its class's `partial` list exactly while it has a free object.
 *
 * Lock: kmem.lock. It lies inside frames' lock, so frames are taken and freed without it.
 */
#include "memory/frame.h"

#include "arch.h"

enum { CLASS_COUNT = 8, CLASS_SHIFT = 4 };         /* 16 << 0 ... 16 << 7 */
enum { KIND_SLAB = 0x1000, KIND_RUN = 0x2000, CLASS_FACTOR = 0x200, LIVE_MASK = 0x1ff };
_Static_assert(PAGE_BYTES >> CLASS_SHIFT <= LIVE_MASK, "the live count fits");
_Static_assert(CLASS_COUNT * CLASS_FACTOR <= KIND_SLAB, "the class fits");

struct free_object { struct free_object *next; };

static struct {
    struct lock lock;
    struct list partial[CLASS_COUNT];
} kmem = {.lock = LOCK_INIT(RANK_KMEM, "kmem")};

static unsigned class_of_bytes(size_t bytes)
{
    return bytes <= 16 ? 0 : 60 - (unsigned)__builtin_clzll(bytes - 1);
}

static size_t class_bytes(unsigned class) { return (size_t)1 << (CLASS_SHIFT + class); }
static unsigned slab_live(const struct frame *f) { return f->flags & LIVE_MASK; }

/* A new slab, all free, in no list. No lock is held. */
static struct frame *slab_new(unsigned class)
{
    struct frame *f = frame_alloc(FRAME_KERNEL); /* zeroed: memory.md, "What held code" */
    size_t step = class_bytes(class);
    if (f == NULL)
        return NULL;
    char *memory = frame_memory(f);
    for (size_t at = 0; at < PAGE_BYTES; at += step)
        ((struct free_object *)(memory + at))->next =
            at + step < PAGE_BYTES ? (struct free_object *)(memory + at + step) : NULL;
    f->owner = memory;
    f->flags = (uint16_t)(KIND_SLAB | class * CLASS_FACTOR);
    return f;
}

/* Takes an object of the class's first slab with room; NULL: none has. kmem.lock held. */
static void *object_take(unsigned class)
{
    struct list *partial = &kmem.partial[class];
    if (list_empty(partial))
        return NULL;
    struct frame *f = list_first(partial, struct frame, link);
    struct free_object *object = f->owner;
    assert(object != NULL); /* KM2 */
    f->owner = object->next;
    f->flags++;
    if (f->owner == NULL)
        list_remove(&f->link); /* KM2 */
    return object;
}

static void *object_alloc(unsigned class)
{
    lock_acquire(&kmem.lock);
    void *object = object_take(class);
    lock_release(&kmem.lock);
    struct frame *slab = object == NULL ? slab_new(class) : NULL;
    if (slab == NULL)
        return object;
    lock_acquire(&kmem.lock);
    list_push_front(&kmem.partial[class], &slab->link);
    object = object_take(class);
    lock_release(&kmem.lock);
    return object;
}

static void object_free(struct frame *f, struct free_object *object)
{
    struct list *partial = &kmem.partial[(f->flags & ~KIND_SLAB) / CLASS_FACTOR];
    lock_acquire(&kmem.lock);
    assert(slab_live(f) > 0); /* KM1 */
    if (f->owner == NULL)
        list_push_front(partial, &f->link); /* KM2 */
    object->next = f->owner;
    f->owner = object;
    f->flags--;
    bool empty = slab_live(f) == 0 && partial->next != partial->prev;
    if (empty)
        list_remove(&f->link);
    lock_release(&kmem.lock);
    if (empty)
        frame_free(f);
}

/* run_alloc has pages go for a longer piece if its caller can wait. */
static void *run_alloc(size_t bytes)
{
    enum { RUN_TRIES = 8 };
    size_t count = (bytes + PAGE_BYTES - 1) >> PAGE_SHIFT;
    struct frame *run = count == 1 ? frame_alloc_raw(FRAME_KERNEL) : frame_alloc_run(count);
    for (int i = 0; !run && i < RUN_TRIES && frame_seam.can_wait() && frame_seam.together(count);
         i++)
        run = frame_alloc_run(count);
    if (run == NULL)
        return NULL;
    run->flags = KIND_RUN;
    run->owner = (void *)count;
    return frame_memory(run);
}

void *kalloc_raw(size_t bytes)
{
    if (bytes > (size_t)FRAME_RUN_MAX << PAGE_SHIFT)
        return NULL;
    return bytes <= class_bytes(CLASS_COUNT - 1) ? object_alloc(class_of_bytes(bytes))
                                                 : run_alloc(bytes);
}

void *kalloc(size_t bytes)
{
    void *p = kalloc_raw(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

void kfree(void *p)
{
    if (p == NULL)
        return;
    struct frame *f = frame_of((paddr_t)((const char *)p - (const char *)arch_phys(0)));
    assert(f != NULL && f->state == FRAME_USED); /* KM1 */
    if (f->flags & KIND_SLAB) {
        object_free(f, p);
    } else {
        assert(f->flags == KIND_RUN && frame_memory(f) == p); /* KM1 */
        for (size_t i = (size_t)f->owner; i-- > 0;)
            frame_free(f + i);
    }
}

void kmem_init(void)
{
    for (unsigned class = 0; class < CLASS_COUNT; class++)
        list_init(&kmem.partial[class]);
}
