/*
 * form.c - the form of a container, kept in its directory entry: how its pages are logged (its
 * encoder), and what transactions lock in it, pages or items.
 *
 * The kernel's objects are made for pages or for items. So where that changes they are made anew:
 * the new property is committed, the cleaner brings the container's pages home and, in the gate,
 * makes the objects again. If that cannot be, the property is set back. Nobody opens the container
 * meanwhile (server.changing), and who has it open is the one who asked.
 */
#include "group.h"

#define REMAKE_TRIES 8

_Static_assert((int)STORE_ENCODER_FULL == KD_ENCODER_FULL &&
                   (int)STORE_ENCODER_DIFF == KD_ENCODER_DIFF &&
                   (int)STORE_ENCODER_RANGES == KD_ENCODER_RANGES &&
                   (int)STORE_ENCODER_ADAPTIVE == KD_ENCODER_ADAPTIVE,
               "one number means one encoder");

static struct {
    bool due;                           /* the container that changes is to be made anew ... */
    bool items;                         /* ... like this, ... */
    int result;                         /* ... and what came of it */
} remake;

/* Lock held, dropped while another one changes. NULL: there is no such container. */
static struct container *changes_wait(uint64_t id)
{
    while (server.changing) pthread_cond_wait(&server.changed, &server.lock);
    return container_by_id(id);
}

static void change_done(void)
{
    server.changing = 0;
    pthread_cond_broadcast(&server.changed);
}

/* ---- how its pages are logged ---- */

/* All its kernel objects, or none: -EBUSY. */
static int encoder_tell(const struct container *c, uint32_t encoder)
{
    int r = 0;
    unsigned i = 0;
    for (; r == 0 && i < c->segment_count; i++)
        r = (int)kd_object_encoder(c->segment[i].object, encoder);
    for (; r < 0 && i-- > 0;) kd_object_encoder(c->segment[i].object, c->encoder);
    return r;
}

/* Lock held. Whoever has it open knows whether to declare, so that does not change under them: to
 * and from KD_ENCODER_RANGES the caller is alone, and nobody opens it meanwhile. */
static int encoder_prepare(struct container *c, uint64_t process, uint32_t encoder)
{
    int r = container_allows(c, process, KD_RIGHT_WRITE);
    bool ranges = (encoder == KD_ENCODER_RANGES) != (c->encoder == KD_ENCODER_RANGES);
    if (r == 0 && ranges) r = container_alone(c->id, process);
    return r == 0 ? encoder_tell(c, encoder) : r;
}

/* The kernel first: it knows who stores. If the commit fails, as it was. */
int container_encoder(uint64_t process, uint64_t id, uint64_t encoder)
{
    if (encoder > KD_ENCODER_ADAPTIVE) return -EINVAL;
    server_lock();
    struct container *c = changes_wait(id);
    int r = c ? encoder_prepare(c, process, (uint32_t)encoder) : -ENOENT;
    if (r == 0) server.changing = id;
    server_unlock();
    if (r < 0) return r;

    struct store_op op = { .type = STORE_OP_ENCODER,
                           .object = id,
                           .encoder = (enum store_encoder)encoder };
    r = commit_own(&op, 1);

    server_lock();
    c = container_by_id(id); /* nobody deletes it meanwhile */
    if (r == 0) c->encoder = (uint32_t)encoder;
    encoder_tell(c, c->encoder);
    change_done();
    server_unlock();
    return r;
}

/* ---- what is locked ---- */

void form_remake(struct container *c)
{
    if (remake.due) remake.result = container_remake(c, remake.items);
}

/* Waits until the cleaner has tried: 0, -EBUSY. Lock held, dropped meanwhile. */
static int objects_remake(struct container *c, bool items)
{
    remake.due = true;
    remake.items = items;
    remake.result = -EBUSY;
    for (int try = 0; remake.result == -EBUSY && !server.fenced && try < REMAKE_TRIES; try++) {
        c->leaving = server.idle_due = true;
        pthread_cond_signal(&server.work);
        while (c->leaving && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
    }
    remake.due = false;
    return server.fenced ? -EIO : remake.result;
}

static int locking_commit(uint64_t id, bool items)
{
    struct store_op op = {.type = STORE_OP_LOCKING, .object = id,
                          .locking = items ? STORE_LOCKING_ITEM : STORE_LOCKING_PAGE};
    return commit_own(&op, 1);
}

/* Lock held. */
static int locking_prepare(struct container *c, uint64_t process, bool items)
{
    int r = container_allows(c, process, KD_RIGHT_WRITE);
    if (r == 0 && c->items == items) return 0;
    if (r == 0) r = container_alone(c->id, process);
    if (r == 0 && items && c->encoder != KD_ENCODER_DIFF) r = -EINVAL;
    return r == 0 && c->opens ? -EBUSY : r; /* who decides about its pages knows its objects */
}

int container_locking(uint64_t process, uint64_t id, uint64_t locking)
{
    bool items = locking;
    if (locking > 1) return -EINVAL;
    server_lock();
    struct container *c = changes_wait(id);
    int r = c ? locking_prepare(c, process, items) : -ENOENT;
    bool same = r == 0 && c->items == items;
    if (r == 0 && !same) server.changing = id;
    server_unlock();
    if (r < 0 || same) return r;

    r = locking_commit(id, items);
    if (r == 0) {
        server_lock();
        r = objects_remake(c, items); /* nobody deletes it meanwhile */
        bool back = c->items != items;
        server_unlock();
        if (back) (void)locking_commit(id, !items);
    }
    server_lock();
    change_done();
    server_unlock();
    return r;
}
