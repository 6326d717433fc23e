/*
 * agent_ring.h - the commits that an agent has made last, as they lie in the home's store: each is
 * noted by the transaction that it is (agent_outcome.c).
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
struct ring {                           /* a page, so that two threads do not wait for each other */
    uint64_t next, unused;
    struct { uint64_t session, number; } entry[RING_ENTRIES];   /* session 0: none yet */
};
_Static_assert(sizeof(struct ring) == KD_PAGE_BYTES, "a page each");

void ring_note(struct ring *r, uint64_t session, uint64_t number);
/* What became of a commit of an earlier session, none of which is under way any more. IN_DOUBT: it
 * may have been noted, and too much was since. */
enum wire_outcome ring_find(const struct ring *all, unsigned count, uint64_t session,
                            uint64_t number);

#endif
