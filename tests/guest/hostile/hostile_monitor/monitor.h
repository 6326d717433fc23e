/*
 * monitor.h - the reference monitor of hostile_monitor: who may what, kept as plain lists.
 *
 * It knows what was granted to whom and what of that was taken back, and nothing of how the store
 * manager does it. A handle is of a *ticket*, which says what its holder owes the handle to: the
 * grants on the way, and the handle by which it was asked for. With one of them all ends that came
 * of it (user/store/directories.md).
 */
#ifndef MONITOR_H
#define MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "store_protocol.h"

enum { ACTORS = 4, HANDLES = 10, BOXES = 24, GRANTS = 96, TICKETS = 600, SOURCES = 6, NAMES = 5,
       PARTS = 3, CHAIN = 16, GRANT_DEPTH = 64, TICKETS_EACH = 128, NONE = -1 };
enum { R = WIRE_MAY_READ, W = WIRE_MAY_WRITE, D = WIRE_MAY_DELETE, N = WIRE_MAY_RENAME,
       M = WIRE_MAY_MANAGE, G = WIRE_MAY_GRANT, ALL = WIRE_MAY_ALL };

/* Numbers of grants, and of tickets with GRANTS added. */
struct by { int of[SOURCES], count; bool full; };
struct box { bool live, is_directory; uint64_t number, base; bool ghost; };
struct grant { bool live; uint64_t serial; int box, above, in, name; uint32_t rights; };
struct ticket { bool used, ended, lost; int grant, actor, depth; struct by by; };
struct held { bool used; long number; int ticket; uint32_t rights; };
struct opening { int count; bool writes; struct by by; };

struct monitor {
    struct box box[BOXES];              /* 0: the root */
    struct grant grant[GRANTS];         /* 0: the root's */
    struct ticket ticket[TICKETS];
    struct held held[ACTORS][HANDLES], mail;    /* mail: on its way from one to another */
    struct opening opening[ACTORS][BOXES];
    uint64_t last_serial, last_number;
};
extern struct monitor now;

extern const char *const names[NAMES];
struct way { int parts, part[PARTS]; char text[WIRE_PATH_BYTES]; };

/* What a way leads to, for whom has the handle; NULL: for who has no handle, and so the root. */
struct seen {
    int error, grant, box, in, name;
    uint32_t rights, in_rights;
    bool last;                          /* -ENOENT: only the last part is not there */
    struct by by;
};
struct seen walked(const struct held *h, const struct way *way);

bool is_first(int grant);
bool has_children(int grant);
/* Would what is linked out of this handle end with all that the handle ends with? */
bool link_ends(int ticket);
unsigned depth_of(int grant);
bool lies_in(int to, int directory);
int first_of(int box);
int box_free(void);
int grant_free(void);
bool box_has_entries(int box);
/* Does another program have it open? */
bool opened_beside(int box, int actor);

/* What was granted out of the grant ends, and perhaps that, and all that came of these. */
void grants_end(int grant, bool itself);
void handles_end(int grant);            /* handles of it, but not who has it open */
void box_end(int box);
/* The ticket of these sources, an old one or a new one; NONE: there is no room. */
int ticket_for(int grant, const struct by *by, int actor);
bool ticket_works(int ticket);
/* How many tickets are there that this one asked for? */
int tickets_of(int actor);
bool by_add(struct by *by, const struct by *more);
/* All that a death of the store manager ends; of a program. */
void manager_died(void);
void actor_died(int actor);

#endif
