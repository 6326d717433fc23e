/*
 * agent_ring.h - the commits that an agent has made last. Each is noted in the home's store by the
 * transaction that it is (agent_outcome.c): two words, its number and its place in the order.
 *
 * Sessions of one site are numbered upwards. A site has at most KD_VIEW_MAX commits that it has not
 * been answered, and what its home answered came in order: so those that it may ask for are among
 * the last so many of their session in each ring.
 */
#ifndef USER_SITES_AGENT_RING_H
#define USER_SITES_AGENT_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "katydid/abi.h"
#include "store_protocol.h"

enum { RING_ENTRIES = 255 };
enum { RING_COUNT_BITS = 40 };          /* of a place; above them is the session */
#define RING_SESSIONS (1ull << (64 - RING_COUNT_BITS))  /* sessions are below it */
struct ring {                           /* of one thread: so they are in the order of commits */
    uint64_t next, newest;              /* where the next one lies; the place of the last one */
    struct { uint64_t session, number; } entry[RING_ENTRIES];   /* session 0: none yet */
};

/* The place in the order of what is noted next, in this session. */
uint64_t ring_place(const struct ring *r, uint64_t session);
void ring_note(struct ring *r, uint64_t session, uint64_t number);
/* One that an earlier session has noted there: all of them, in any order, before the first that is
 * new. */
void ring_load(struct ring *r, unsigned entry, uint64_t number, uint64_t place);
/* What became of a commit of an earlier session, none of which is under way any more. IN_DOUBT: it
 * may have been noted, and too much was since. */
enum wire_outcome ring_find(const struct ring *all, unsigned count, uint64_t session,
                            uint64_t number);

#endif
