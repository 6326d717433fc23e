/* manager_store_private.h - a store of a manager's own: the containers (manager_store_pages.c) that
 * clients ask about (manager_store.c). */
#ifndef MANAGER_STORE_PRIVATE_H
#define MANAGER_STORE_PRIVATE_H

#include "manager.h"
#include "manager_store.h"
#include "store_protocol.h"

enum { CONTAINERS_MAX = 16, OPENINGS_MAX = 128, NAMES_MAX = 256 };
enum { UNUSED, FREED, USED, LEASED };    /* owner of a page; LEASED + a process: leased by it */

struct opening { uint64_t process; unsigned count; int writes; };
struct named { uint64_t address, bytes; char name[STORE_NAME_BYTES]; };
struct container {
    uint64_t id, base, from;             /* from: where leases are looked for */
    struct km_object *object;
    struct wire_open made;               /* its name and layout */
    struct opening openings[OPENINGS_MAX];
    unsigned opening_count, name_count;
    struct named names[NAMES_MAX];
    uint32_t *owner;                     /* of each page */
};

extern struct front {
    struct km_store is;
    struct km_ops ops;                   /* the policy's, and what the store does with commits */
    struct container *containers[CONTAINERS_MAX];
    uint64_t commits;
} front;

struct container *front_by_id(uint64_t id);
struct container *front_named(const char *name);
/* front_make and those that follow return 0 or -errno. */
int front_make(const struct wire_open *as, struct container **out);
void front_end(struct container *c);     /* and its pages */
int front_attach(struct container *c, uint64_t process, int writes);
void front_detach(struct container *c, uint64_t process, unsigned times);
void front_left(struct container *c, uint64_t process); /* ends what a program before had open */
struct opening *front_opening(struct container *c, uint64_t process);
int front_lease(struct container *c, uint64_t process, uint64_t count, uint64_t *address);
void front_unlease(struct container *c, uint64_t process, uint64_t address, uint64_t count);
struct named *front_name(struct container *c, const char *name);

/* front_commit is ops->commit: pages that a commit wrote are nobody's lease any more. */
int front_commit(struct km_object *o, uint64_t view);
/* front_check checks the operations of a commit, front_outcome carries them out (km_protocol). */
int front_check(uint64_t process, const void *batch, uint64_t bytes);
void front_outcome(uint64_t process, const void *batch, uint64_t bytes, int error);

#endif
