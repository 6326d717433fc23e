/*
 * overlap.c - all objects, by address; and those at the same addresses, in different processes.
 *
 * Owns      the tree of all objects.
 *
 * OV3   The tree is in order of objects' first addresses, those with the same one in order of their
 *       structs. Each one's `reach` is the furthest end of those below it and its own.
 * OV4   A parent's `weight` is not less than its children's. Weights are drawn by chance, so
 *       the tree is about as deep as a balanced one, whoever chooses the addresses.
 *
 * Locks: objects_lock for the tree.
 */
#include "store/object_private.h"

/* ---- the tree ---- */

static struct object *tree;

static bool before(const struct object *a, const struct object *b)
{
    return a->base < b->base || (a->base == b->base && a < b);
}

static uint32_t weight(const struct object *o) { return o->place.weight; }

static vaddr_t reach_of(const struct object *o)
{
    const struct object *left = o->place.left, *right = o->place.right;
    vaddr_t below = MAX(left ? left->place.reach : 0, right ? right->place.reach : 0);
    return MAX(object_end(o), below);
}

static void reach_set(struct object *o) { o->place.reach = reach_of(o); }

/* tree_join makes one tree of two; all of `a` are before all of `b`. */
static struct object *tree_join(struct object *a, struct object *b)
{
    if (!a || !b)
        return a ? a : b;
    if (weight(a) >= weight(b)) { /* OV4 */
        a->place.right = tree_join(a->place.right, b);
        reach_set(a);
        return a;
    }
    b->place.left = tree_join(a, b->place.left);
    reach_set(b);
    return b;
}

/* tree_part makes two of one: those before o, and the others. */
static void tree_part(struct object *t, const struct object *o, struct object **left,
                      struct object **right)
{
    if (!t) {
        *left = *right = NULL;
        return;
    }
    if (before(t, o)) {
        tree_part(t->place.right, o, &t->place.right, right);
        *left = t;
    } else {
        tree_part(t->place.left, o, left, &t->place.left);
        *right = t;
    }
    reach_set(t);
}

/* tree_without takes o out of the tree t, which has it. What is left. */
static struct object *tree_without(struct object *t, const struct object *o)
{
    if (t == o)
        return tree_join(t->place.left, t->place.right);
    struct object **part = before(o, t) ? &t->place.left : &t->place.right;
    *part = tree_without(*part, o);
    reach_set(t);
    return t;
}

/* tree_with puts o into the tree t: where it weighs more than what is there, that is parted. */
static struct object *tree_with(struct object *t, struct object *o)
{
    if (!t || weight(t) < weight(o)) {
        tree_part(t, o, &o->place.left, &o->place.right);
        reach_set(o);
        return o;
    }
    struct object **part = before(o, t) ? &t->place.left : &t->place.right;
    *part = tree_with(*part, o);
    reach_set(t);
    return t;
}

void object_place(struct object *o)
{
    random_bytes(&o->place.weight, sizeof o->place.weight);
    tree = tree_with(tree, o);
}

void object_unplace(struct object *o)
{
    tree = tree_without(tree, o);
    o->place.left = o->place.right = NULL;
    reach_set(o);
}

/* tree_next finds the first one of t behind `last`, if that is not NULL, which has addresses in
 * [from, end). */
static struct object *tree_next(struct object *t, const struct object *last, vaddr_t from,
                                vaddr_t end)
{
    if (!t || t->place.reach <= from)
        return NULL; /* OV3 */
    bool behind = !last || before(last, t);
    struct object *found = behind ? tree_next(t->place.left, last, from, end) : NULL;
    if (found || t->base >= end)
        return found;
    return behind && object_end(t) > from ? t : tree_next(t->place.right, last, from, end);
}

bool object_misplaced(const struct object *o)
{
    lock_acquire(&objects_lock);
    const struct object *left = o->place.left, *right = o->place.right;
    bool wrong = o->place.reach != reach_of(o) ||
                 (left && (!before(left, o) || weight(left) > weight(o))) ||
                 (right && (!before(o, right) || weight(right) > weight(o)));
    lock_release(&objects_lock);
    return wrong;
}

/* `before` is a reference until the next one is found: its place says where to go on. */
struct object *object_next(struct object *before, vaddr_t from, vaddr_t end)
{
    lock_acquire(&objects_lock);
    struct object *o = tree_next(tree, before, from, end);
    if (o)
        object_get(o);
    lock_release(&objects_lock);
    if (before) {
        object_put(before);
        thread_breathe(); /* there may be very many */
    }
    return o;
}

/* ---- objects at the same addresses, in different processes ----
 *
 * A view's entry at an address is taken for a right to the page of each object there whose mask has
 * the view. So such an object's masks have no view of a process that has another object there:
 * OV1   A bit without an entry goes when the process detaches the object, at the end of its view if
 *       that commits meanwhile, when another object comes to these addresses, and before a view
 *       gets a number that was another's.
 * OV2   No page table of theirs is taken out while a view has it. */

static uint32_t objects_overlap;        /* atomic: so many do, or did (OV1) */

void overlaps_forget(const struct object *o)
{
    __atomic_fetch_sub(&objects_overlap, o->overlaps, __ATOMIC_SEQ_CST);
}

static void object_overlaps(struct object *o)
{
    lock_acquire(&o->lock); /* OV2: behind who takes out tables now */
    __atomic_fetch_add(&objects_overlap, !o->overlaps, __ATOMIC_SEQ_CST);
    o->overlaps = true;
    lock_release(&o->lock);
}

static void object_meet(struct object *o, struct object *n)
{
    if (o == n)
        return;
    object_overlaps(o);
    object_overlaps(n);
    UNMAP(u, .stale = true);
    leaves_for(o, leaf_unmap, &u);
}

void object_meets(struct object *o)
{
    objects_in(other, o->base, object_end(o))
        object_meet(other, o);
}

static unsigned leaf_strip(struct leaf *l, unsigned slot, unsigned end, void *view)
{
    const struct view *v = view;
    lock_acquire(&l->lock);
    for (bool used = vmask_test(&l->users, v->id); used && slot < end; slot++) {
        vmask_clear(&l->pages[slot].mask, v->id);
        if (l->pages[slot].writer == v->id)
            l->pages[slot].writer = WRITER_NONE;
    }
    lock_release(&l->lock);
    return end;
}

void objects_strip(struct view *v)
{
    if (likely(!__atomic_load_n(&objects_overlap, __ATOMIC_SEQ_CST)))
        return;
    objects_each(o)
        if (__atomic_load_n(&o->overlaps, __ATOMIC_SEQ_CST))
            leaves_for(o, leaf_strip, v);
}
