/*
 * link_zone.c - which addresses a store that is made gets, agreed with the sites that are there.
 *
 * A site without a store yet claims a zone in its HELLO. Of two that claim the same one, the site
 * whose name comes first keeps it; a store that is there goes before all claims. Each HELLO also
 * names the zones of all stores that its site has heard of, so a site that is off at the moment is
 * counted by those that have met it, until their machines start anew. Where a site begins to look
 * depends on its name: sites that cannot hear each other choose the same zone once in fourteen
 * times, and are refused when they meet.
 *
 * Rules
 *   SZ1  Nobody's store gets addresses that are a store's, or the claim of a site of an earlier
 *        name, as far as was heard in a HELLO.
 *   SZ2  Whoever claims another zone begins all sessions anew, and nobody is done before all are
 *        LIVE: by then each of the others has heard the claim, and has said its own since.
 */
#include "link_peer.h"

#include <string.h>

#include "store_protocol.h"

enum { HALVES = WIRE_ZONE_SMALL, HALVES_LAST = 14, WAIT_MS = 10000 };

uint32_t zones_of(uint32_t zone)
{
    return !wire_zone_valid(zone) ? 0 : zone < WIRE_ZONE_SMALL ? 3u << 2 * zone
                                                               : 1u << (zone - WIRE_ZONE_SMALL);
}

uint32_t zone_choose(const char *site, uint32_t taken)
{
    uint32_t hash = 2166136261u;
    for (; *site; site++) hash = (hash ^ (uint8_t)*site) * 16777619u;
    for (uint32_t i = 0; i < HALVES; i++) {
        /* the last two are where the kernel lays objects of no store */
        uint32_t half = i < HALVES_LAST ? (hash + i) % HALVES_LAST : i;
        if (!(taken >> half & 1)) return WIRE_ZONE_SMALL + half;
    }
    return 0;
}

uint32_t zones_heard(const struct hello *h)
{
    uint32_t zones = h->zones;
    for (uint32_t i = 0; i < h->store_count; i++) zones |= zones_of(h->stores[i].zone);
    return zones;
}

bool zone_heard(struct self *self, const struct hello *const heard[], unsigned count)
{
    struct hello *own = &self->hello;
    uint32_t claims = 0, earlier = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct hello *h = heard[i];
        uint32_t claim = h->flags & HELLO_CLAIMS ? zones_of(h->claim) : 0;
        own->zones |= zones_heard(h);
        claims |= claim;
        if (strcmp(h->site, own->site) < 0) earlier |= claim;
    }
    if (!(own->flags & HELLO_CLAIMS)) return false;
    if (!((own->zones | earlier) & zones_of(own->claim))) return false;
    uint32_t next = zone_choose(own->site, own->zones | claims);
    if (!next) return false; /* some of these claims are old: until those sites say another one */
    own->claim = next;
    return true;
}

bool zone_settled(const struct peer *p, const struct hello *own, uint64_t waited_ms,
                  uint64_t away_ms)
{
    const struct hello *h = &p->hello;
    if (zones_of(own->claim) & own->zones) return false;
    switch (p->state) {
    case LINK_LIVE:
        return !(h->flags & HELLO_CLAIMS && zones_of(h->claim) & zones_of(own->claim) &&
                 strcmp(h->site, own->site) < 0); /* one of a later name has heard ours */
    case LINK_AWAY:
    case LINK_REFUSED: return waited_ms >= away_ms;
    default: return waited_ms >= WAIT_MS + away_ms;
    }
}
