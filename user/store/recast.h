/*
 * recast.h - another layout for the objects of a container, made at the spare (spare.md): its pages
 * are converted there, those that the log changes again and again, and are committed when this copy
 * becomes home. It knows neither kernel nor link; disk/ it calls.
 *
 * How the objects look, and are to look, is said by descriptions (user/sites/types.md) in the
 * container, and in another one, `like`, which has a root of the same type, of another version.
 *
 * One thread calls it, or the caller has a lock. Nothing of it is durable before recast_commit.
 *
 *     recast_begin
 *     recast_step, again and again     while the copy applies groups
 *     recast_commit                    it is home, and nobody uses the store yet
 *     recast_end
 *
 * Invariants
 *   RX1  What is committed of a page is made of the version that the home committed last: of each
 *        page the LSN is kept, and all are compared when the copy has applied its log.
 *   RX2  All pages, the description, the layout and the names' sizes are of one transaction.
 *   RX3  What cannot be converted, or needs more room than there is, changes nothing: the copy is
 *        home as it would have been.
 */
#ifndef USER_STORE_RECAST_H
#define USER_STORE_RECAST_H

#include "store.h"

enum { RECAST_PAGES = 8192,             /* of the container */
       RECAST_LOOKS = 4096,             /* page numbers that a step looks at */
       RECAST_TYPE_BYTES = 48 };

struct recast_state {
    char     name[STORE_NAME_BYTES];
    uint64_t pages, converted;          /* that it has; made, with those that were made again */
    uint64_t wrong;                     /* pages that cannot be converted as they are */
    uint64_t wrong_page;                /* one of these */
    uint32_t wrong_type;                /* the number of a type in it */
    int      wrong_error;
    bool     all;                       /* what was applied when the last turn began is made */
};

struct recast;
/* recast_begin: `store` is as the copy has applied it. 0; -ENOENT: no such container; -ENODATA: one
 * of the two has no description; -EBADMSG: it has a wrong line; -EPROTOTYPE: `refused` is a type or
 * a name that one of the two describes, or has otherwise than can be converted; -EOPNOTSUPP: the
 * container's pages are in no log, or roots, or orders of bytes, differ; -E2BIG: too many pages, or
 * too many for the log; -ENOMEM, -EIO. */
store_must_check int recast_begin(struct store *store, const struct disk_memory *memory,
                                  const char *name, const char *like, struct recast **out,
                                  char refused[RECAST_TYPE_BYTES]);
/* recast_step converts at most so many pages. 1: there is more to look at now. 0: at the end, for
 * now. Or an error, for good: as above. */
store_must_check int recast_step(struct recast *r, uint32_t most);
/* recast_commit: the same store, open: converts what is left, and commits all; the log has to have
 * room for that (-EAGAIN). Another error: as above, or of the page that is wrong, or the fence.
 * Only after the fence is it not known whether it was committed. */
store_must_check int recast_commit(struct recast *r);
void recast_tell(const struct recast *r, struct recast_state *out);
void recast_end(struct recast *r);

#endif
