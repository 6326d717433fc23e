/*
 * directory_table.h - what the files of the directory module share: the table of grants.
 *
 * A grant is found by its serial and by its container. A container's first one is in the table if
 * its entry lies in a directory that is not the root, or something was granted out of it; all
 * others are made up when somebody asks (grant_first).
 *
 *     grant.c            the table
 *     grant_read.c       made from the disk at the start
 *     directory.c        names, walks, lists
 *     directory_plan.c   plans of changes, and what becomes of them
 *     directory_mend.c   what a start mends
 *     directory_who.c    who can reach a container
 *     limit.c            limits
 */
#ifndef USER_STORE_DIRECTORY_TABLE_H
#define USER_STORE_DIRECTORY_TABLE_H

#include "directory.h"

#define SERIAL_MAX (1ull << 62)                 /* of links, exclusive */

enum grant_flags {
    GRANT_USED      = 1,
    GRANT_ENTRY     = 2,        /* directory and slot say where its entry is */
    GRANT_DIRECTORY = 4,        /* what it names is one */
    GRANT_FORGED    = 8,        /* while the table is made */
};

struct grant {                          /* 0: none, where others are named by their place */
    uint64_t serial, container;
    uint64_t directory;                 /* of the entry; while the table is made: parent's serial */
    uint32_t serial_next, container_next;       /* in the chains; of a free one: the next */
    uint32_t parent, child;
    uint32_t next, before;              /* children of one parent */
    uint32_t slot;                      /* the entry's among all names of the disk library */
    uint32_t rights;
    uint8_t  flags, depth;              /* depth: grants above */
};
_Static_assert(sizeof(struct grant) == 64, "as directories.md says");

enum plan { PLAN_NONE, PLAN_MEND, PLAN_MAKE, PLAN_LINK, PLAN_END, PLAN_MOVE, PLAN_DELETE,
            PLAN_LIMIT };

/* struct limit: of commits so many since since_us, in a second; marked: the next is about it. */
struct limit {
    uint64_t directory, most[LIMITS], used[LIMITS], since_us;
    uint32_t marked_next;               /* another that is marked: its place and one; 0: none */
    bool marked;
};

struct directory {
    struct store *store;
    uint64_t root;                      /* the root's container; 0: there is none yet */
    uint64_t next;                      /* serial of the next link */
    uint64_t changes;                   /* so many were applied */
    struct grant *grants;
    uint32_t room, top, free;           /* places; used once; the first that is free again */
    uint32_t *by_serial, *by_container, heads;
    uint64_t links;
    struct limit *limits;               /* in the order of their directories */
    uint32_t limit_count, limit_room, marked;
    uint64_t limits_counted;            /* so often */
    /* the pending change */
    enum plan plan;
    uint64_t plan_container;            /* MAKE, LINK, MOVE, DELETE: what the entry names ... */
    uint64_t plan_serial, plan_parent, plan_directory;          /* ... by which grant, where */
    uint32_t plan_rights;
    char plan_name[STORE_NAME_BYTES];   /* the entry's */
    uint64_t plan_root;                 /* the root's container is made by it: its number */
    uint32_t ended[DIRECTORY_NAMES], ended_count;       /* END: grants, children first */
    enum directory_limit plan_limit;
    uint64_t plan_most;
    uint64_t plan_payer, plan_names;    /* so many names are counted already, of this directory */
    uint64_t plan_counted;              /* as limits_counted was then */
    /* what a start mends */
    uint64_t mend_container;
    uint32_t mend_slot;
    struct { char from[STORE_NAME_BYTES]; } renamed[DIRECTORY_NAMES];
    uint32_t renamed_count;
    struct directory_change change;
};

/* ---- grant.c */
uint32_t grant_find(const struct directory *d, uint64_t serial);
/* grants_reserve makes room for so many more: 0, or -ENOMEM. */
int grants_reserve(struct directory *d, uint32_t more);
/* grant_add: there is room; the parent, or 0, is in the table, rights and flags are checked. */
uint32_t grant_add(struct directory *d, uint64_t serial, uint64_t container, uint32_t parent,
                   uint32_t rights);
void grant_hang(struct directory *d, uint32_t grant, uint32_t parent);
/* grant_first finds the container's first grant, or adds it: there is room. */
uint32_t grant_first(struct directory *d, uint64_t container);
/* grant_end takes out a grant that has no children. */
void grant_end(struct directory *d, uint32_t grant);
/* grants_end ends all grants of a container, with their trees. */
void grants_end(struct directory *d, uint64_t container);
/* grant_of: the next grant of this container behind one (0: the first), or 0. */
uint32_t grant_of(const struct directory *d, uint64_t container, uint32_t after);
/* grant_deepest, grant_behind walk the grants below one, children first, up to `top` itself. */
uint32_t grant_deepest(const struct directory *d, uint32_t grant);
uint32_t grant_behind(const struct directory *d, uint32_t grant, uint32_t top);
void grant_entry(struct directory *d, uint32_t grant, uint64_t directory, uint32_t slot);

/* ---- grant_read.c */
/* row_serial tells the serial of a link's row by its name, or 0; row_name makes that name. */
uint64_t row_serial(const char *name);
void row_name(char name[STORE_NAME_BYTES], uint64_t serial);
extern const char next_serial_name[];
int grants_read(struct directory *d, struct directory_report *report);

/* ---- directory.c */
/* entry_counts: does an entry in this directory count (DG2)? */
bool entry_counts(const struct directory *d, uint64_t directory, const struct store_name *entry);
/* directory_of_number returns a container's number, or DIRECTORY_ROOT if it is the root's. */
uint64_t directory_of_number(const struct directory *d, uint64_t number);
/* is_placed: has the container its first entry in a directory that is not the root? */
bool is_placed(const struct directory *d, uint64_t container);
/* directory_home returns the directory of the container's first entry. */
uint64_t directory_home(const struct directory *d, uint64_t container);
/* in_root: is the container's name in the catalogue one in the root? */
bool in_root(const struct directory *d, const struct store_container *c);
/* name_byte_ok: false: such a byte in a name ends a line, a part or a store's name. */
bool name_byte_ok(unsigned char c);
/* grant_name reads the name of the grant's entry: false, it has none. */
bool grant_name(struct directory *d, uint32_t grant, char name[STORE_NAME_BYTES]);

/* ---- directory_plan.c */
struct store_op *change_add(struct directory *d, enum store_op_type type, uint64_t object,
                            const char *name);
void change_begin(struct directory *d);

/* ---- limit.c */
bool limit_of_name(const char *name, enum directory_limit *kind);
int limits_read(struct directory *d);
void limit_name(char name[STORE_NAME_BYTES], enum directory_limit kind);
/* limits_reserve makes room for what limit_apply enters. */
int limits_reserve(struct directory *d);
void limit_apply(struct directory *d, uint64_t directory, enum directory_limit kind,
                 uint64_t most);
void limits_forget(struct directory *d, uint64_t directory);
void limits_count_again(struct directory *d);   /* what moved takes its pages along */
/* limit_names_take: a plan makes so many names in a directory: -EDQUOT, or they are counted. */
int limit_names_take(struct directory *d, uint64_t directory, uint32_t names);
/* limit_names_end: the plan's names are made, or not; _gone: so many of a directory are gone. */
void limit_names_end(struct directory *d, bool made);
void limit_names_gone(struct directory *d, uint64_t directory, uint32_t names);

#endif
