/* store.h - the containers of a store in memory: main.c speaks with clients, container.c keeps. */
#ifndef VOLATILE_STORE_H
#define VOLATILE_STORE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "store_protocol.h"

enum { CONTAINERS_MAX = 16, OPENINGS_MAX = 128, NAMES_MAX = 256 };
enum { UNUSED, FREED, USED, LEASED };    /* owner of a page; LEASED + a process: leased by it */

struct opening { uint64_t process; unsigned count; int writes; };
struct named { uint64_t address, bytes; char name[STORE_NAME_BYTES]; };
struct container {
    uint64_t id, base, from;             /* from: where leases are looked for */
    int object;
    struct wire_open made;               /* its name and layout */
    struct opening openings[OPENINGS_MAX];
    unsigned opening_count, name_count;
    struct named names[NAMES_MAX];
    uint32_t *owner;                     /* of each page */
};

extern struct container *containers[CONTAINERS_MAX];
extern int port;
extern uint64_t pages_max;               /* of a container */

struct container *container_by_id(uint64_t id);
struct container *container_named(const char *name);
/* Those that follow: 0 or -errno. */
int container_make(const struct wire_open *as, struct container **out);
void container_end(struct container *c); /* and its pages */
int container_attach(struct container *c, uint64_t process, int writes);
void container_detach(struct container *c, uint64_t process, unsigned times);
struct opening *opening_of(struct container *c, uint64_t process);
int container_lease(struct container *c, uint64_t process, uint64_t count, uint64_t *address);
void container_unlease(struct container *c, uint64_t process, uint64_t address, uint64_t count);
struct named *name_find(struct container *c, const char *name);

/* Pages that a commit wrote are nobody's lease any more. */
void page_written(uint64_t cookie, uint64_t page);
/* Checks the operations of a commit: 0 or -errno. batch_apply carries out checked ones. */
int batch_check(uint64_t process, const uint8_t *bytes, uint64_t count);
void batch_apply(const uint8_t *bytes, uint64_t count);

#endif
