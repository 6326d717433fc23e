/*
 * form.c - the form of a container, kept in its directory entry: how its pages are logged (its
 * encoder), what transactions lock in it, pages or items, and what protects it from stray stores.
 *
 * The kernel's objects are told of another encoder; for the rest they are made anew: the new
 * property is committed, the cleaner brings the container's pages home and, in the gate, makes the
 * objects again. If that cannot be, the property is set back. Nobody opens the container meanwhile
 * (server.changing), and who has it open is the one who asked.
 */
#include "group.h"

#include <string.h>

#define REMAKE_TRIES 8

_Static_assert((int)STORE_ENCODER_FULL == KD_ENCODER_FULL &&
                   (int)STORE_ENCODER_DIFF == KD_ENCODER_DIFF &&
                   (int)STORE_ENCODER_RANGES == KD_ENCODER_RANGES &&
                   (int)STORE_ENCODER_ADAPTIVE == KD_ENCODER_ADAPTIVE,
               "one number means one encoder");

static struct {
    bool due;                           /* the container that changes is to be made anew ... */
    enum wire_form which;               /* ... with another one of these, ... */
    uint32_t value;                     /* ... this, ... */
    int result;                         /* ... and what came of it */
} remake;

static const uint32_t form_counts[WIRE_FORMS] = {
    [WIRE_FORM_ENCODER] = STORE_ENCODER_COUNT,
    [WIRE_FORM_LOCKING] = STORE_LOCKING_COUNT,
    [WIRE_FORM_PROTECTION] = STORE_PROTECTION_COUNT,
    [WIRE_FORM_DURABILITY] = STORE_DURABILITY_LOST,
};

void form_of(const struct store_container *d, uint32_t form[WIRE_FORMS])
{
    form[WIRE_FORM_ENCODER] = d->encoder;
    form[WIRE_FORM_LOCKING] = d->locking;
    form[WIRE_FORM_PROTECTION] = d->protection;
    form[WIRE_FORM_DURABILITY] = d->durability;
}

uint32_t form_encoder(uint32_t encoder)
{
    return encoder <= STORE_ENCODER_ADAPTIVE ? encoder : KD_ENCODER_DIFF;
}

uint32_t form_flags(const uint32_t form[WIRE_FORMS])
{
    return (form[WIRE_FORM_LOCKING] == STORE_LOCKING_ITEM ? KD_OBJECT_ITEMS : 0) |
           (form[WIRE_FORM_PROTECTION] & STORE_PROTECT_GUARD ? KD_OBJECT_GUARD : 0) |
           (form[WIRE_FORM_PROTECTION] & STORE_PROTECT_CODEWORDS ? KD_OBJECT_CODEWORDS : 0);
}

static int form_commit(uint64_t id, enum wire_form which, uint32_t value)
{
    static const enum store_op_type types[] = { [WIRE_FORM_ENCODER] = STORE_OP_ENCODER,
                                                [WIRE_FORM_LOCKING] = STORE_OP_LOCKING,
                                                [WIRE_FORM_PROTECTION] = STORE_OP_PROTECTION,
                                                [WIRE_FORM_DURABILITY] = STORE_OP_DURABILITY };
    struct store_op op = { .type = types[which],
                           .object = id,
                           .encoder = (enum store_encoder)value,
                           .locking = (enum store_locking)value,
                           .protection = value,
                           .durability = (enum store_durability)value };
    return commit_own(&op, 1);
}

/* ---- an encoder ---- */

/* encoder_tell tells all kernel objects of a container its encoder, or none: -EBUSY. */
static int encoder_tell(const struct container *c, uint32_t encoder)
{
    int r = 0;
    unsigned i = 0;
    for (; r == 0 && i < c->segment_count; i++)
        r = (int)kd_object_encoder(c->segment[i].object, form_encoder(encoder));
    for (; r < 0 && i-- > 0;)
        kd_object_encoder(c->segment[i].object, form_encoder(c->form[WIRE_FORM_ENCODER]));
    return r;
}

/* encoder_prepare: whoever has it open knows whether to declare, which stays so under them: to and
 * from KD_ENCODER_RANGES the caller is alone. The kernel is told first: it knows who stores. */
static int encoder_prepare(const struct container *c, uint64_t process, uint32_t encoder)
{
    uint32_t old = c->form[WIRE_FORM_ENCODER];
    bool ranges = (encoder == KD_ENCODER_RANGES) != (old == KD_ENCODER_RANGES);
    int r = ranges ? container_alone(c->id, process) : 0;
    return r == 0 ? encoder_tell(c, encoder) : r;
}

/* ---- what kernel objects are made with ---- */

/* form_object makes the kernel's object for a segment: its handle or -errno. */
int form_object(const struct store_container *d, unsigned i, const uint32_t form[WIRE_FORMS])
{
    struct kd_object_create o = { .port = server.port,
                                  .commit_port = server.commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_SPILLS |
                                           form_flags(form),
                                  .cookie = cookie_of(d->object, i),
                                  .base = d->segments[i].address,
                                  .pages = d->segments[i].pages };
    memcpy(o.name, d->name, sizeof(o.name));
    long object = kd_object_create(&o);
    if (object >= 0) kd_object_encoder((int)object, form_encoder(form[WIRE_FORM_ENCODER]));
    return (int)object;
}

void form_remake(struct container *c)
{
    if (remake.due) remake.result = container_remake(c, remake.which, remake.value);
}

/* objects_remake waits until the cleaner has tried: 0, -EBUSY. Lock held, dropped meanwhile. */
static int objects_remake(struct container *c, enum wire_form which, uint32_t value)
{
    remake.due = true;
    remake.which = which;
    remake.value = value;
    remake.result = -EBUSY;
    for (int try = 0; remake.result == -EBUSY && !server.fenced && try < REMAKE_TRIES; try++) {
        c->leaving = true; /* the auditor takes no further piece of it */
        while (c->busy && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
        server.idle_due = true;
        pthread_cond_signal(&server.work);
        while (c->leaving && !server.fenced) pthread_cond_wait(&server.changed, &server.lock);
    }
    remake.due = false;
    return server.fenced ? -EIO : remake.result;
}

static int remake_prepare(const struct container *c, uint64_t process)
{
    int r = container_alone(c->id, process);
    return r == 0 && c->opens ? -EBUSY : r; /* who decides about pages knows the objects */
}

/* ---- how many of its pages go home together ---- */

int container_chunk(uint64_t process, uint64_t id, uint64_t pages)
{
    bool consistent = pages & WIRE_CHUNK_CONSISTENT;
    pages &= ~(uint64_t)WIRE_CHUNK_CONSISTENT;
    if (pages > WIRE_CHUNK_MAX) return -EINVAL;
    server_lock();
    struct container *c = container_by_id(id);
    int r = c ? container_allows(c, process, KD_RIGHT_WRITE) : -ENOENT;
    if (r == 0) c->chunk = (unsigned)pages;
    if (r == 0) c->consistent = consistent;
    server_unlock();
    return r;
}

/* ---- a property ---- */

/* form_sense: do they make sense together? The chapter has the table. Items are merged into a page
 * by what differs; pages that are in no log have no form there, and could not be mended from it. */
static bool form_sense(const uint32_t form[WIRE_FORMS])
{
    uint32_t encoder = form[WIRE_FORM_ENCODER];
    bool items = form[WIRE_FORM_LOCKING] == STORE_LOCKING_ITEM;
    bool unlogged = form[WIRE_FORM_DURABILITY] >= STORE_DURABILITY_VOLATILE;
    bool codewords = form[WIRE_FORM_PROTECTION] & STORE_PROTECT_CODEWORDS;
    if (codewords && unlogged) return false;
    return encoder == STORE_ENCODER_DIFF ||
           (!unlogged && (!items || encoder == STORE_ENCODER_COMPRESSED));
}

/* changes_wait, lock dropped while another one changes. NULL: there is no such container. */
static struct container *changes_wait(uint64_t id)
{
    while (server.changing) pthread_cond_wait(&server.changed, &server.lock);
    return container_by_id(id);
}

/* form_prepare checks a new property, lock held. 1: the container has it already. */
static int form_prepare(struct container *c, uint64_t process, enum wire_form which, uint32_t value)
{
    bool durability = which == WIRE_FORM_DURABILITY;
    int r = c->index && durability ? container_allows_index(c, process)
                                   : container_allows(c, process, KD_RIGHT_WRITE);
    uint32_t form[WIRE_FORMS];
    memcpy(form, c->form, sizeof(form));
    form[which] = value;
    if (r != 0 || c->form[which] == value) return r != 0 ? r : 1;
    if (!form_sense(form)) return -EINVAL;
    if (durability) return 0;
    return which == WIRE_FORM_ENCODER ? encoder_prepare(c, process, value)
                                      : remake_prepare(c, process);
}

/* form_follow: the change is committed, or was to be: the objects follow, or, if they cannot, the
 * property goes back. Nobody deletes the container meanwhile. */
static int form_follow(struct container *c, enum wire_form which, uint32_t value, int r)
{
    server_lock();
    bool remade = which != WIRE_FORM_ENCODER && which != WIRE_FORM_DURABILITY;
    if (!remade && r == 0) c->form[which] = value;
    if (which == WIRE_FORM_ENCODER) encoder_tell(c, c->form[which]);
    if (remade && r == 0) r = objects_remake(c, which, value);
    uint32_t is = c->form[which];
    server_unlock();
    if (r < 0 && remade && is != value) (void)form_commit(c->id, which, is);
    return r;
}

int container_form(uint64_t process, uint64_t id, uint64_t which, uint64_t value)
{
    if (which >= WIRE_FORMS || value >= form_counts[which]) return -EINVAL;
    server_lock();
    struct container *c = changes_wait(id);
    int r = c ? form_prepare(c, process, (enum wire_form)which, (uint32_t)value) : -ENOENT;
    if (r == 0) server.changing = id;
    server_unlock();
    if (r != 0) return r < 0 ? r : 0;

    r = form_commit(id, (enum wire_form)which, (uint32_t)value);
    r = form_follow(c, (enum wire_form)which, (uint32_t)value, r);
    server_lock();
    server.changing = 0;
    pthread_cond_broadcast(&server.changed);
    server_unlock();
    return r;
}
