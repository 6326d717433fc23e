/* agent_ring.c - the commits that an agent has made last (agent_ring.h). Pure: no calls. */
#include "agent_ring.h"

void ring_note(struct ring *r, uint64_t session, uint64_t number)
{
    uint64_t at = r->next % RING_ENTRIES;
    r->entry[at].session = session;
    r->entry[at].number = number;
    r->next = (at + 1) % RING_ENTRIES;
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
