/*
 * site_look.h - what programs that tell people about this machine ask `link` and `remote` about the
 * other sites (sites, top, txns).
 */
#ifndef USER_SITES_SITE_LOOK_H
#define USER_SITES_SITE_LOOK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "katydid/call.h"
#include "link.h"
#include "remote.h"

enum { SITE_LOOKS_MAX = LINK_SITES_MAX + 1 };   /* the first one is this site */

/* sites_look asks link for all sites; how many, 0: this machine is none. */
static inline size_t sites_look(struct link_site all[SITE_LOOKS_MAX])
{
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .handle = -1,
                           .buffer_bytes = SITE_LOOKS_MAX * sizeof(*all)};
    long port = kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r < 0 || m.status ? 0 : m.buffer_bytes / sizeof(*all);
}

/* site_cached asks remote for the words of REMOTE_LOOK. False: it serves that home not yet. */
static inline bool site_cached(const struct link_site *s, uint64_t word[KD_WORDS])
{
    char name[KD_NAME_MAX];
    struct kd_message m = {.kind = REMOTE_LOOK, .handle = -1};
    memset(word, 0, KD_WORDS * sizeof(*word));
    snprintf(name, sizeof(name), "%s/store", s->site);
    long port = s->remote ? kd_call3(KD_NAME_FIND, (long)name, 0, 0) : -1;
    if (port < 0) return false;
    long r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    if (r < 0 || m.status) return false;
    memcpy(word, m.word, sizeof(m.word));
    return true;
}

/* site_of names the site among these whose store has the address; NULL: none, or this one. */
static inline const char *site_of(const struct link_site *all, size_t count, uint64_t address)
{
    for (size_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < all[i].store_count && k < LINK_STORES_MAX; k++)
            if (wire_zone_valid(all[i].stores[k].zone) &&
                wire_zone_has(all[i].stores[k].zone, address))
                return all[i].site;
    return NULL;
}

#endif
