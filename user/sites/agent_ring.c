/* agent_ring.c - the commits that an agent has made last (agent_ring.h). Pure: no calls. */
#include "agent_ring.h"

uint64_t ring_place(const struct ring *r, uint64_t session)
{
    uint64_t first = session << RING_COUNT_BITS;
    return r->newest >= first ? r->newest + 1 : first;
}

void ring_note(struct ring *r, uint64_t session, uint64_t number)
{
    ring_load(r, (unsigned)(r->next % RING_ENTRIES), number, ring_place(r, session));
}

void ring_load(struct ring *r, unsigned entry, uint64_t number, uint64_t place)
{
    r->entry[entry].session = place >> RING_COUNT_BITS;
    r->entry[entry].number = number;
    if (place < r->newest) return;
    r->newest = place;
    r->next = (entry + 1) % RING_ENTRIES;
}

/* Has so much been noted since that session that its last commits may be gone? */
static bool overwritten(const struct ring *r, uint64_t session)
{
    unsigned newer = 0;
    for (unsigned i = 0; i < RING_ENTRIES; i++) newer += r->entry[i].session > session;
    return newer > RING_ENTRIES - KD_VIEW_MAX;
}

enum wire_outcome ring_find(const struct ring *all, unsigned count, uint64_t session,
                            uint64_t number)
{
    enum wire_outcome outcome = WIRE_UNDONE;
    for (const struct ring *r = all; r < all + count; r++) {
        for (unsigned i = 0; i < RING_ENTRIES; i++)
            if (r->entry[i].session == session && r->entry[i].number == number)
                return WIRE_COMMITTED;
        if (overwritten(r, session)) outcome = WIRE_IN_DOUBT;
    }
    return outcome;
}
