/*
 * holders.c - who holds a container or a directory now: openings, and handles.
 *
 * It is told to who may take back (MANAGE), of his grant and those made out of it. A handle's
 * ticket says who asked for it; where the handles are now is the kernel's to tell (KD_LOOK).
 */
#include "path.h"

#include <unistd.h>

#define TICKETS_FROM (1ull << 62)       /* a cursor from here on is a ticket's number */
#define LOOKS        1024u              /* tickets that one request looks at */

static bool holds(uint64_t serial, const struct directory_found *found)
{
    return serial && directory_below(paths, serial, found->serial);
}

/* holders_open lists openings in no order: one that ends between two requests hides another. */
static unsigned holders_open(const struct directory_found *found, uint64_t *cursor,
                             struct wire_holder *out, unsigned room)
{
    const struct container *c = container_by_id(found->container);
    unsigned n = 0;
    for (; c && *cursor < c->opening_count && n < room; ++*cursor) {
        const struct opening *o = &c->openings[*cursor];
        bool handle;
        uint64_t serial = sources_grant(&o->by, c->id, &handle);
        if (holds(serial, found))
            out[n++] = (struct wire_holder){.process = o->process, .grant = serial,
                                            .rights = o->rights * DIRECTORY_READ};
    }
    if (n < room) *cursor = TICKETS_FROM;
    return n;
}

static unsigned holders_handles(const struct directory_found *found, uint64_t *cursor,
                                struct wire_holder *out, unsigned room)
{
    unsigned n = 0;
    uint64_t serial, process;
    for (unsigned looks = 0; n < room && looks < LOOKS; looks++) {
        if (!ticket_after(cursor, &serial, &process)) {
            *cursor = 0;
            break;
        }
        if (!holds(serial, found)) continue;
        long handles = KD2(KD_BADGE_USED, server.port, *cursor);
        if (handles > 0)
            out[n++] = (struct wire_holder){.process = process, .grant = serial, .badge = *cursor,
                                            .handles = (uint32_t)handles};
    }
    return n;
}

int holders_request(const struct kd_message *m, struct kd_message *reply, struct wire_holder *out,
                    unsigned room)
{
    struct directory_found found;
    struct sources by;
    unsigned n = 0;
    uint64_t cursor = m->word[0];
    const char *path = names_path(m->buffer, m->data_bytes);
    if (!path || m->data_bytes != WIRE_PATH_BYTES) return -EINVAL;
    server_lock();
    int r = path_walk(path, &found, &by);
    if (r == 0) r = directory_way_needs(&found, found.parts, DIRECTORY_MANAGE, 0);
    if (r == 0 && cursor < TICKETS_FROM) n = holders_open(&found, &cursor, out, room);
    if (r == 0 && cursor >= TICKETS_FROM) n += holders_handles(&found, &cursor, out + n, room - n);
    server_unlock();
    reply->word[0] = cursor;
    reply->word[1] = (uint64_t)getpid();
    reply->data = out;
    reply->data_bytes = r == 0 ? n * sizeof(*out) : 0;
    return r;
}
