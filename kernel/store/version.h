/* version.h - publications, the snapshots that see them, and old versions of pages (version.c,
 * versions.md). */
#ifndef KERNEL_VERSION_H
#define KERNEL_VERSION_H

#include "store/object.h"

struct view;

/* struct snapshot: a commit point whose versions are kept, of a transaction or behind a handle.
 * Versions lock. */
struct snapshot {
    struct list link;               /* registered if it is in the list */
    struct list expired_link;
    struct list versions;           /* that it is keeper of */
    uint64_t sequence;              /* the last publication that it sees */
    bool over;                      /* it ends, or needed too many old versions */
    uint64_t kept, kept_most;       /* of how many it is keeper, and may be */
    uint32_t references;            /* atomic; of one behind a handle */
    bool given;                     /* it began at the point behind a handle */
    /* not 0: for this process alone, with the attachments that it had then (parts.c, BP4) */
    int only;
    uint32_t generation;
};

uint64_t version_publish_begin(void);           /* the next number; one publication at a time */
void version_publish(uint64_t sequence);        /* from here on snapshots see it */
void version_publish_end(void);
/* version_shed takes up to `most` versions from expired snapshots, and lets more snapshots expire
 * while there are too many versions: at the end of a publication, or where one came otherwise. No
 * locks. */
enum { SHED_MORE = 64 };
__attribute__((cold)) void version_shed(uint64_t most);
uint64_t version_tick(void); /* the number of a publication of nothing, which is over */
uint64_t version_newest(void);                  /* the last publication */
/* version_cut: an object that began there is over; `first` may see the next one (VS6). */
void version_cut(vaddr_t base, uint64_t first);
/* version_first returns the number of the first snapshot that may see what comes there: the next
 * snapshot may. It may wait for a publication. No locks. */
uint64_t version_first(vaddr_t base);
uint64_t version_oldest(void);  /* what the oldest snapshot sees that is not over; ~0: none */
/* version_add makes c the struct of an old version, which the publication keeps. Leaf locked. */
void version_add(struct page *p, struct copy *c);
/* version_release: `published` has moved, so a snapshot keeps c, or it is freed. Leaf locked. */
void version_release(struct page *p, struct copy *c);
/* version_unmap takes a version's frame out of all tables that the mask leads to: those of
 * snapshots and dirty readers, or of all views. Leaf locked. */
void version_unmap(struct page *p, const struct frame *f, vaddr_t at, bool all);
void version_free(struct page *p, struct copy *c); /* needed or not; leaf locked */
/* version_forget frees all of these pages, needed or not, but those of an open publication. */
leaf_fn version_forget;
/* version_keep makes c one of the page's versions (VS5) if a snapshot has the number c->sequence;
 * false: none has. Leaf locked. */
bool version_keep(struct page *p, struct copy *c);
/* version_rough tells whether only the words in c->words are those of the old version c (VS4). */
static inline bool version_rough(const struct copy *c) { return c->items && c->rough; }
/* version_settle makes the others so, which a snapshot is to see. Leaf locked. */
void version_settle(const struct page *p, struct copy *c);
/* version_snapshot_begin takes `published`, or the shared point, and registers in one step. 0;
 * -ESTALE. */
must_check int version_snapshot_begin(struct view *v, struct snapshot *shared);
void version_snapshot_init(struct snapshot *s);
void version_snapshot_end(struct view *v);
/* version_check_page (leaf locked) and version_check, for check.c, return the rule that is broken,
 * or NULL. */
const char *version_check_page(const struct leaf *l, const struct page *p);
const char *version_check(void);

#endif
