/* object_private.h - what object.c, attach.c, sweep.c and page.c share. */
#ifndef KERNEL_OBJECT_PRIVATE_H
#define KERNEL_OBJECT_PRIVATE_H

#include "store/right.h"

/* ---- object.c ---- */
extern struct lock objects_lock; /* the list of all objects */

/* ---- leaf.c ---- */
/* leaves_in calls fn for each leaf that exists of the pages [page, end), in portions; leaves_for
 * does for all pages. */
void leaves_in(struct object *o, uint64_t page, uint64_t end, leaf_fn *fn, void *arg);
/* leaf_portion returns the end of a portion of [slot, end), short enough where each page is looked
 * at in each of the leaf's users. Leaf locked. */
unsigned leaf_portion(const struct leaf *l, unsigned slot, unsigned end);
struct leaf ***leaf_tables_new(uint64_t n); /* empty ones; NULL: no memory. No lock is held */
void leaves_free(struct object *o); /* with the object */

/* object_table_frames: the table of the leaves' tables, which the owner is charged for. */
static inline uint64_t object_table_frames(const struct object *o)
{
    return o->table_count * sizeof *o->tables / PAGE_BYTES;
}

/* OBJECT_CALL(kd_object_pin, 0) { ... }: a call whose argument 0 is a handle of a manager's object;
 * its body gets the object, too, whose reference is dropped behind it. -EBADF, -EACCES: there is
 * none. */
typedef long object_call(struct object *o, const uint64_t a[6]);
long call_with_object(object_call *fn, int handle, const uint64_t a[6]);
#define OBJECT_CALL(name, argument)                                                               \
    static object_call name##_of;                                                                 \
    long name(const uint64_t a[6]) { return call_with_object(name##_of, (int)a[argument], a); }   \
    static long name##_of(struct object *o, const uint64_t a[6])

/* ---- sweep.c: taking rights by force ---- */
struct unmap {
    struct process *only;    /* views of this process; NULL: all */
    int reason;  /* active views that lose a PTE are doomed with it; 0: are left alone */
    bool dying;              /* the copies of committing views go too: nobody will publish them */
    uint64_t in_use;         /* pages that active views keep */
    struct debt debt;
    struct list frames;      /* of copies and pages that went: free behind the shootdown (FR1) */
};
#define UNMAP(u, ...) struct unmap u = {__VA_ARGS__, .frames = LIST_INIT((u).frames)}
/* unmap_page takes the page's PTE in the views that `u` means. Leaf locked. */
void unmap_page(struct leaf *l, unsigned slot, struct unmap *u);
/* unmap_end pays the debt of all pages by one shootdown, and frees what went. Their leaf is still
 * locked. */
void unmap_end(struct unmap *u);
leaf_fn leaf_unmap;          /* both for a portion of a leaf, which it locks; arg: struct unmap */
/* object_die ends an object whose manager is gone or destroys it: a power cut for the object. */
void object_die(struct object *o, int reason);

/* ---- page.c ---- */
/* waits_end tells the page's waiters that it came, or the manager's error. Leaf locked. */
void waits_end(struct leaf *l, unsigned slot, int error);
void asks_look_again(const struct object *o); /* it is dead: nobody will answer (KD_OBJECT_ASK) */

#endif
