/*
 * directory.h - directories: who may touch which container, by which names (directories.md).
 *
 * A part of the store manager that knows nothing of it: it reads through the disk library, and what
 * it changes is a list of operations, for one transaction, which its caller commits:
 *
 *     directory_link(d, ...)                plans: checks all, changes nothing
 *     the ops of directory_change(d)        committed in one transaction, durably
 *     directory_ended(d, ...)               the badges of these serials end
 *     directory_applied(d)                  the table is as the disk; or directory_dropped(d)
 *
 * One change at a time: from plan to applied or dropped every other plan says -EBUSY, and whoever
 * wants one waits; walks and lists go on meanwhile. So no right is looked up before the transaction
 * that uses it (RT6). The caller holds one mutex for all calls, that of the disk library, and drops
 * it for the commit. If nobody knows whether the commit happened (the fence), the table is made
 * anew by the next start.
 *
 * Serials. A container's first grant has no row on the disk: its serial is DIRECTORY_FIRST and the
 * container's number, it has all rights and nothing above it, and ends with the container. Its
 * entry is its name in the catalogue, which is a name in the root directory; or it lies in another
 * directory, and the name in the catalogue is `#` and the number. Links have serials from 1 on,
 * and a row that says of which grant they were made. So an old store's containers are in the root
 * directory, and have their grants, from the beginning.
 *
 * In all calls the root directory has the number DIRECTORY_ROOT, whether the disk has a container
 * for it (`\4root`, made with the first link) or not.
 *
 * Invariants
 *   DG1  A grant in the table has a parent there, of the same container, with a smaller serial if
 *        both are links, with at least its rights; or it is a container's first one.
 *   DG2  An entry counts if the grant of its serial says that it is its entry: a grant has one.
 *   DG3  From each directory a way of at most DIRECTORY_DEPTH first entries leads up to the root.
 *
 * All bytes from the disk may be forged. What breaks DG1 to DG3 is left out when the table is made
 * (struct directory_report counts it): such grants and entries are not there, and a container that
 * has no way up is in the root directory by its catalogue's name.
 */
#ifndef USER_STORE_DIRECTORY_H
#define USER_STORE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "katydid/abi.h"
#include "store.h"

/* Rights of directories stand so in handles, on the disk, and in all calls. */
enum {
    DIRECTORY_READ   = 1 * KD_RIGHT_OWN,
    DIRECTORY_WRITE  = 2 * KD_RIGHT_OWN,
    DIRECTORY_DELETE = 4 * KD_RIGHT_OWN,
    DIRECTORY_RENAME = 8 * KD_RIGHT_OWN,
    DIRECTORY_MANAGE = 16 * KD_RIGHT_OWN,
    DIRECTORY_GRANT  = KD_RIGHT_GRANT,
    DIRECTORY_ALL    = 31 * KD_RIGHT_OWN | KD_RIGHT_GRANT
};

#define DIRECTORY_FIRST         (1ull << 63)
#define DIRECTORY_ROOT          0ull
#define DIRECTORY_ROOT_SERIAL   (DIRECTORY_FIRST | DIRECTORY_ROOT)
#define DIRECTORY_ROOT_NAME     "\4root"        /* in the catalogue */
#define DIRECTORY_FLAG          1u              /* store_container.flags: it is a directory */

enum {
    DIRECTORY_PATH   = 256,     /* bytes of a path with its zero */
    DIRECTORY_PARTS  = 16,      /* of a path */
    DIRECTORY_DEPTH  = 64,      /* of directories below the root, and of grants below the first */
    DIRECTORY_NAMES  = 256,     /* names of a transaction, at most */
    DIRECTORY_OPS    = DIRECTORY_NAMES + 8
};

struct directory;

/* struct directory_at: where a path begins: a handle's grant, and the rights it has. */
struct directory_at { uint64_t serial; uint32_t rights; };
#define DIRECTORY_AT_ROOT ((struct directory_at){ DIRECTORY_ROOT_SERIAL, DIRECTORY_ALL })

/* struct directory_step, part of a way: its grant's rights, and those left of them on the way. */
struct directory_step { uint64_t serial; uint32_t own, rights; };

/* struct directory_found: what a path leads to. */
struct directory_found {
    uint64_t directory;                 /* the one that has the entry */
    char     name[STORE_NAME_BYTES];    /* the last part; "": the path is empty */
    uint64_t serial, container;         /* of the grant; 0, 0: the entry is not there */
    uint32_t rights;                    /* on this way, the entry's own cut down (RT7) */
    uint64_t link[4];                   /* serials of links on the way, the first four ... */
    uint32_t links;                     /* ... of so many */
    bool     is_directory;
    unsigned parts;                     /* of the path, up to the entry */
    struct directory_step way[DIRECTORY_PARTS + 1];     /* [0]: where it begins */
};

/* struct directory_lack: why this thread's last -EACCES was: what the path names without its last
 * `up` parts has not the rights `missing`. */
struct directory_lack {
    uint64_t serial;                    /* of the grant by which that was reached */
    uint32_t has, missing, up;
};
/* Flags or-ed to `up`: of the second of two paths; of the handle sent; of the root directory. */
enum { DIRECTORY_LACK_TO = 1 << 8, DIRECTORY_LACK_HANDLE = 2 << 8, DIRECTORY_LACK_ROOT = 3 << 8 };
extern _Thread_local struct directory_lack directory_lack;
/* directory_needs: 0, or -EACCES, noted in directory_lack: `has` has not all of these rights. */
int directory_needs(uint64_t serial, uint32_t has, uint32_t rights, uint32_t up);
/* directory_way_needs asks part `at` of a way, the path without its last `up` parts. Noted is the
 * last part up to that whose own grant has not all: to give others another were of no use. */
int directory_way_needs(const struct directory_found *f, unsigned at, uint32_t rights, uint32_t up);

struct directory_report {
    uint64_t grants;            /* links, sound */
    uint64_t directories;       /* beside the root */
    uint64_t forged;            /* rows that break DG1, left out */
    uint64_t dangling;          /* entries that name nothing */
    uint64_t lost;              /* containers without a way up: in the root now */
    uint64_t next;              /* serial */
};

/* ---- start and end */

/* directory_open reads all grants once, without the forged. 0 or -ENOMEM. `report` or NULL. */
int directory_open(struct store *store, struct directory **out, struct directory_report *report);
void directory_close(struct directory *d);

/* directory_mend plans the next transaction of what a start finds to mend: containers of old stores
 * with a slash or colon in their name get another (a_b, a_b_2 ...), entries that name nothing go.
 * -ENOENT: no more. A start cut off goes on at the next. Before anybody is served. */
int directory_mend(struct directory *d);
/* directory_renamed tells the i-th container of that plan which gets another name: or false. */
bool directory_renamed(const struct directory *d, unsigned i, const char **from, const char **to);

/* ---- looks: nothing is changed, no plan is needed */

/* directory_name_ok: can this be an entry's name? 1 to 63 bytes, none below a blank, no 127, slash,
 * colon; not `.`, `..`. */
bool directory_name_ok(const char *name);
/* directory_name_reserved: is this a name of the manager's (bytes 3 to 5), not for clients? */
bool directory_name_reserved(const char *name);

/* directory_walk: at each directory READ is needed, rights are anded. "" is where it begins.
 *   0          found
 *   -ENOENT    a part is not there; if it is the last one: *out has directory, rights and name,
 *              and serial 0
 *   -EIDRM     the grant at which it begins is not there (any more)
 *   -EACCES    directory_lack says which right
 *   -ENOTDIR, -EINVAL (a name that none can have, an empty part), -ENAMETOOLONG (a part, or the
 *   path), -ELOOP (too many parts) */
int directory_walk(struct directory *d, struct directory_at at, const char *path,
                   struct directory_found *out);
/* directory_grant finds the grant of this serial: its container and rights. -EIDRM. */
int directory_grant(struct directory *d, uint64_t serial, uint64_t *container, uint32_t *rights);
/* directory_parent: the serial of which this was made; 0: it is a first one, or not there. */
uint64_t directory_parent(const struct directory *d, uint64_t serial);
/* directory_below: is the grant `above` itself, or made out of it? */
bool directory_below(const struct directory *d, uint64_t serial, uint64_t above);
/* directory_entry_name reads the name of a container's first entry: false, there is none. */
bool directory_entry_name(struct directory *d, uint64_t container, char name[STORE_NAME_BYTES]);
/* directory_is: is this container a directory? */
bool directory_is(const struct directory *d, uint64_t container);
/* directory_number: the container's number on the disk; of DIRECTORY_ROOT 0 while there is none. */
uint64_t directory_number(const struct directory *d, uint64_t directory);

struct directory_entry {
    char     name[STORE_NAME_BYTES];
    uint64_t serial, parent, container; /* parent: the grant of which it was made; 0: a first one */
    uint32_t rights;                    /* the entry's, cut down to the directory's */
    bool     is_directory;
};
/* directory_list lists entries, in no order; needs READ. *cursor is 0 at first. It fills at most
 * `most` and looks at some thousands of names at most: 0 with *count (perhaps 0): call it again;
 * -ENOENT with *count: that was all. What is there all the time between is told once. */
int directory_list(struct directory *d, struct directory_at at, uint64_t *cursor,
                   struct directory_entry *out, unsigned most, unsigned *count);
/* directory_who tells who can reach a container: the entries of its grants, then those of the
 * directories that have these, and so on up to the root; each once, even in circles. The cursor is
 * zero at first; -ENOENT: all; -ESTALE: a change came between, begin anew. */
struct directory_who {
    uint64_t directory;                 /* that has the entry; its grants come later */
    struct directory_entry entry;       /* with the rights of the grant */
};
struct directory_who_cursor { uint64_t changes, *queue; uint32_t head, tail, row; bool first; };
int directory_who(struct directory *d, uint64_t container, struct directory_who_cursor *cursor,
                  struct directory_who *out);
void directory_who_end(struct directory_who_cursor *cursor);
/* directory_way finds one of the shortest paths from `at` to the container on which every entry has
 * the rights wanted; "": it is what `at` is of. -ENOENT: none; -EIDRM, -ENOMEM, -ENAMETOOLONG. Who
 * walks it has no more than by any path. */
int directory_way(struct directory *d, struct directory_at at, uint64_t container, uint32_t wanted,
                  char path[DIRECTORY_PATH]);

/* ---- plans. 0, and a change is pending; or what directory_walk says; or
 *   -EBUSY     a change is pending already
 *   -ENOMEM
 *   -EEXIST    the entry is there
 *   -EINVAL    not the kind of name, right or path that this can have
 * The commit may say more: -EEXIST (a container was made beside it: plan again), -ENOSPC.
 * Each needs WRITE of the directory whose entries it changes, if nothing else is said. */

struct directory_change {
    struct store_op ops[DIRECTORY_OPS]; /* names lie in `names` */
    char     names[DIRECTORY_OPS][STORE_NAME_BYTES];
    unsigned count;
    uint64_t container;         /* directory_make: the number it will have */
    uint64_t serial;            /* made by it: of a first grant or a link */
    bool     more;              /* not all fitted: after directory_applied plan the same again */
};
/* directory_change: the plan, or NULL. The caller may put operations of its own behind these, up to
 * DIRECTORY_OPS, e.g. STORE_OP_LAYOUT of change->container, with names it keeps. */
struct directory_change *directory_change(struct directory *d);
/* directory_ended tells the serials that end with the plan: false: no more; *cursor is 0 first. */
bool directory_ended(struct directory *d, uint64_t *cursor, uint64_t *serial);
/* directory_applied: the change is durable: the table becomes what the disk is. Cannot fail. */
void directory_applied(struct directory *d);
/* directory_dropped: it was not committed, or nobody knows: the table stays as it is. */
void directory_dropped(struct directory *d);

/* directory_make makes a container, or directory (of layout "directory"), with its entry. */
int directory_make(struct directory *d, struct directory_at at, const char *path,
                   bool is_directory);
/* directory_link makes another entry for what `of` names, with those of `rights` that it has; needs
 * GRANT. The answer may be told when it is durable (RT9). -EACCES: no right is left. -EMLINK:
 * DIRECTORY_DEPTH grants lie above. */
int directory_link(struct directory *d, struct directory_at of, uint32_t rights,
                   struct directory_at at, const char *path);
/* directory_unlink removes a link's entry and grant with all that came out of it (if anything, that
 * needs MANAGE of the entry). -EPERM: it is the container's first entry: delete or rename it. */
int directory_unlink(struct directory *d, struct directory_at at, const char *path);
/* directory_move gives another name: RENAME of the directory that has it. Into another directory:
 * WRITE there, and on the way all rights of the entry's grant, with GRANT (or it had more there).
 * -ELOOP: a directory into one below it, or deeper than DIRECTORY_DEPTH. */
int directory_move(struct directory *d, struct directory_at at, const char *from,
                     struct directory_at to_at, const char *to);
/* directory_remove deletes a container, or empty directory, with all entries and grants: DELETE of
 * directory and entry. -ENOTEMPTY. out (or NULL): what it is, for whom its pages are in use. */
int directory_remove(struct directory *d, struct directory_at at, const char *path,
                     struct directory_found *out);
/* directory_take_back takes what was granted out of `by`, with MANAGE: `target`, made out of it,
 * and all that came from that; or, if `target` is by.serial, all but that itself. -EACCES, -EIDRM.
 * -ENOENT: nothing was granted. What does not fit into one transaction goes from the leaves on, and
 * the target last (change->more). */
int directory_take_back(struct directory *d, struct directory_at by, uint64_t target);

/* ---- limits: numbers of a directory, for all that has its first entry below it */
enum directory_limit { LIMIT_PAGES, LIMIT_COMMITS, LIMIT_VERSIONS, LIMIT_NAMES, LIMITS };
#define LIMIT_NONE UINT64_MAX
/* directory_limit_set plans a limit or, with LIMIT_NONE, its end. MANAGE of the directory. */
int directory_limit_set(struct directory *d, struct directory_at at, const char *path,
                        enum directory_limit kind, uint64_t most);
uint64_t directory_limit_get(struct directory *d, uint64_t directory, enum directory_limit kind);
/* directory_up fills up[] from a container's own directory to the root, and returns how many. */
unsigned directory_up(const struct directory *d, uint64_t container,
                      uint64_t up[DIRECTORY_DEPTH + 1]);
/* Names count where their container lies, a directory's own in itself, too; a link is two, where
 * its entry is. So plans that make one may end with -EDQUOT. What moves in, and what the manager
 * sets, is counted and not refused. */
/* directory_limit_check: may `more` be added to what the container's directories hold? -EDQUOT:
 * *full, the one nearest to the root, would have more than it may. Counts nothing. */
int directory_limit_check(struct directory *d, uint64_t container, enum directory_limit kind,
                          uint64_t more, uint64_t *full);
/* directory_limits_count counts anew what the disk holds; _counted: how often that was done. */
void directory_limits_count(struct directory *d);
uint64_t directory_limits_counted(const struct directory *d);
/* directory_limit_used: how many are held; of commits those of this second. 0 without a limit. */
uint64_t directory_limit_used(struct directory *d, uint64_t directory, enum directory_limit kind);
/* directory_limit_next finds the next directory with such a limit, round and round; *cursor is 0 at
 * first. False: it was not found among some; there is none perhaps. */
bool directory_limit_next(const struct directory *d, enum directory_limit kind, uint32_t *cursor,
                          uint64_t *directory);
/* directory_limited: is there any limit at all? */
bool directory_limited(const struct directory *d);
/* directory_commit_mark: a commit is about this container; then _check, of all that were marked
 * since the last one: may it be made now (-EDQUOT); and _end. A directory counts it once. */
void directory_commit_mark(struct directory *d, uint64_t container);
int directory_commit_check(struct directory *d, uint64_t now_us, uint64_t *full);
void directory_commit_end(struct directory *d, bool made);
/* directory_limit_count: so much more, or less, is held now. */
void directory_limit_count(struct directory *d, uint64_t container, enum directory_limit kind,
                           int64_t more);

#endif
