/*
 * together.c - frees frames that lie together, whatever the age of their pages (eviction.md).
 *
 * A kernel stack and a table of handles are some frames in one piece. Pages that go in the order of
 * their use leave holes everywhere; so where no piece is free, one is made.
 *
 * Locks: as evict.c.
 */
#include "store/evict.h"

/* page_of_frame_free frees the page in a frame, if one is there; its second look finds what is in
 * no program's use. False: it stays. */
static bool page_of_frame_free(struct frame *f)
{
    enum look look = LOOK_FREED;
    for (int looks = 0; looks < 2 && __atomic_load_n(&f->state, __ATOMIC_RELAXED) == FRAME_LISTED;
         looks++) {
        struct candidate c = {0};
        struct list gone = LIST_INIT(gone);
        lock_acquire(&evict_lock);
        if (f->state == FRAME_LISTED) { /* EV5 */
            const struct leaf *l = f->owner;
            c = clock_candidate(f, cluster_size(l->object));
            object_get(l->object);
        }
        lock_release(&evict_lock);
        if (!c.leaf)
            return true;
        struct object *o = c.leaf->object;
        right_age(&c, 1);
        look = clock_look(&c, &gone);
        frames_free(&gone);
        object_put(o);
    }
    return look == LOOK_FREED;
}

/* piece_free frees some frames that lie together. False: they hold more than pages that may go. */
static bool piece_free(struct frame *piece, size_t count)
{
    bool goes = true;
    for (size_t i = 0; goes && i < count; i++) {
        uint8_t state = __atomic_load_n(&piece[i].state, __ATOMIC_RELAXED);
        goes = state == FRAME_LISTED || state == FRAME_FREE;
    }
    for (size_t i = 0; goes && i < count; i++)
        goes = page_of_frame_free(piece + i);
    return goes;
}

/* pieces_free frees some aligned pieces of `count` frames, a power of 2, wherever they are. False:
 * there is none. */
static bool pieces_free(size_t count)
{
    enum { MORE_FRAMES = 32 };
    static size_t hand; /* atomic: the piece that was looked at last */
    size_t all = frame_all_count() / count, freed = 0;
    for (size_t looks = 0; looks < all && freed < MORE_FRAMES; looks++) {
        size_t at = __atomic_add_fetch(&hand, 1, __ATOMIC_RELAXED) % all;
        freed += piece_free(frame_all + at * count, count) ? count : 0;
        thread_breathe();
    }
    return freed > 0;
}

bool evict_together(size_t count)
{
    enum { PAGES_PART = 4 }; /* where fewer frames hold pages, they are not what fills memory */
    size_t piece = 1;
    while (piece < count)
        piece *= 2;
    return (piece > 1 && pieces_free(piece)) || /* few pages may lie in every piece, too */
           (evict_resident_count() >= frame_total_count() / PAGES_PART && evict_more(piece == 1));
}
