/*
 * link_hello.c - HELLO: what a site says of itself at the begin of a session.
 *
 * It names the receiver's nonce, if that was heard (the frame's `session`), and one of its own.
 * With a key its last field is a check value of both nonces and all fields, so what was recorded
 * in one session is no proof in another one.
 */
#include "link_peer.h"

#include <string.h>

#include "store_protocol.h"

enum { PROOF_BYTES = 8 };

bool site_name_good(const char *name)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t bytes = strlen(name);
    return bytes > 0 && bytes < LINK_SITE_BYTES && strspn(name, all) == bytes && name[0] != '.';
}

/* A copy that is not home stands for nobody. */
bool hello_stands_for(const struct hello *h, const char *name)
{
    const char *own = h->as[0] ? h->as : h->flags & HELLO_PAIR ? "" : h->site;
    return own[0] && strcmp(own, name) == 0;
}

/* What the proof is of: the fields before it, and whom they are said to. */
static uint64_t proof(const uint64_t key[2], uint64_t echo, const uint8_t *fields, size_t bytes)
{
    uint8_t all[OWN_BYTES + sizeof(echo)];
    memcpy(all, &echo, sizeof(echo));
    memcpy(all + sizeof(echo), fields, bytes);
    return key_check(key, all, sizeof(echo) + bytes);
}

size_t hello_put(const struct self *self, uint64_t nonce, uint64_t echo, uint8_t *at)
{
    const struct hello *h = &self->hello;
    struct fields_out o = frame_begin(at, OWN_BYTES);
    put_u32(&o, LINK_PROTOCOL);
    put_u32(&o, h->flags);
    put_text(&o, h->site);
    put_u64(&o, h->boot);
    put_u64(&o, nonce);
    put_u64(&o, h->lease_ns);
    put_u32(&o, h->zones);
    put_u32(&o, h->claim);
    put_u32(&o, h->store_count);
    for (uint32_t i = 0; i < h->store_count; i++) {
        put_text(&o, h->stores[i].name);
        put_u32(&o, h->stores[i].zone);
        put_u64(&o, h->stores[i].term);
    }
    put_text(&o, h->as);
    const uint8_t *fields = o.begin + FRAME_HEADER;
    put_u64(&o, self->has_key ? proof(self->key, echo, fields, (size_t)(o.at - fields)) : 0);
    return frame_end(&o, FRAME_HELLO, 0, 0);
}

static void stores_take(struct fields_in *i, struct hello *h)
{
    h->store_count = take_u32(i);
    i->bad |= h->store_count > LINK_STORES_MAX;
    for (uint32_t n = 0; !i->bad && n < h->store_count; n++) {
        take_text(i, h->stores[n].name, sizeof(h->stores[n].name));
        i->bad |= !site_name_good(h->stores[n].name);
        h->stores[n].zone = take_u32(i);
        i->bad |= !wire_zone_valid(h->stores[n].zone);
        h->stores[n].term = take_u64(i);
    }
}

const char *hello_take(struct hello *h, const struct self *self, const struct frame *f,
                       const uint8_t *at)
{
    struct fields_in i = frame_fields(f, at);
    const uint8_t *fields = i.at;
    *h = (struct hello){.protocol = take_u32(&i)};
    if (!i.bad && h->protocol != LINK_PROTOCOL)
        return "it speaks another version of the protocol";
    h->flags = take_u32(&i);
    take_text(&i, h->site, sizeof(h->site));
    h->boot = take_u64(&i);
    h->nonce = take_u64(&i);
    h->lease_ns = take_u64(&i);
    h->zones = take_u32(&i);
    h->claim = take_u32(&i);
    stores_take(&i, h);
    take_text(&i, h->as, sizeof(h->as));
    size_t bytes = (size_t)(i.at - fields);
    h->proof = take_u64(&i);
    if (!take_end(&i) || !h->nonce || !site_name_good(h->site) ||
        (h->as[0] && !site_name_good(h->as)))
        return "its HELLO is none";
    if (h->lease_ns < LEASE_NS_MIN || h->lease_ns > LEASE_NS_MAX)
        return "its lease is not between 1 ms and 60 s";
    if (f->session && self->has_key && h->proof != proof(self->key, f->session, fields, bytes))
        return h->proof ? "it has another key" : "it has no key, and this site wants one";
    if (f->session && !self->has_key && h->proof)
        return "it wants a key, and this site has none";
    return NULL;
}
