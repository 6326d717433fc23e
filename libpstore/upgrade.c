/*
 * upgrade.c - ps_upgrade: a container's objects grow from one layout to the next.
 *
 * The program's step copies from the old root object to a new one, in one transaction or in many.
 * What is done between two of them is in the container: the new root has a name of its own, and the
 * layout says that it is being made, so that neither the older nor the newer program opens it. The
 * last transaction gives the new root the name of the old one, frees that, and sets the layout.
 *
 * Invariants
 *   UG1  The layout changes in a commit of the step's: to "being made" in the first that is not the
 *        last, to the new one in the last. So the step is never begun again once it is done.
 *   UG2  No other process or thread has the container open at these two commits (the manager's
 *        -EBUSY), nor can open it with a layout in between.
 */
#include "pstore_private.h"

#include <errno.h>

#define BEING_MADE 0x80000000u          /* in a layout's version */
#define NEW_ROOT   "\1new root"

struct upgrade {
    ps_container *container;
    const struct ps_layout *from, *to;
    int (*step)(void *from, void *to, void *arg);
    void *arg;
    int making, more;                   /* the layout is BEING_MADE; the step has said PS_MORE */
};

static int layout_set(const struct upgrade *u, uint32_t version)
{
    return tx_op(tx_active(), WIRE_LAYOUT, u->container, 0,
                 WIRE_LAYOUT_VALUE(version, u->to->bytes), u->to->type);
}

/* root_replace puts the new root in the old one's place. */
static int root_replace(ps_container *c, void *old, void *new, const struct ps_layout *to)
{
    struct ps_tx *tx = tx_active();
    int result = tx_op(tx, WIRE_NAME_UNSET, c, 0, 0, NEW_ROOT);
    if (result == 0)
        result = tx_op(tx, WIRE_NAME_UNSET, c, 0, 0, ROOT_NAME);
    if (result == 0)
        result = tx_op(tx, WIRE_NAME_SET, c, (uintptr_t)new, to->bytes, ROOT_NAME);
    names_forget(c);                    /* else the old root could not be freed */
    return result == 0 ? ps_free(old) : result;
}

/* batch copies some of it: a root that was never made leaves nothing to copy. */
static int batch(void *arg)
{
    struct upgrade *u = arg;
    ps_container *c = u->container;
    void *old = names_object(c, ROOT_NAME, 0, 0), *new = NULL;
    int result = 0;
    u->more = 0;
    if (!old && errno != ENOENT)
        return -errno;
    if (old)
        new = names_object(c, NEW_ROOT, u->to->bytes, type_number(u->to->type));
    if (old && !new)
        return -errno;
    if (old)
        result = u->step(old, new, u->arg);
    u->more = result == PS_MORE;
    if (u->more)
        return u->making ? 0 : layout_set(u, u->to->version | BEING_MADE);
    if (result == 0 && old)
        result = root_replace(c, old, new, u->to);
    return result == 0 ? layout_set(u, u->to->version) : result;
}

static int upgrade(struct upgrade *u)
{
    int result;
    do {
        result = ps_transaction(batch, u);
        u->making |= result == 0;
    } while (result == 0 && u->more);
    return result;
}

/* upgrade_open: 0, -errno; -ENOENT: nothing is of the older layout, nor is being made. */
static int upgrade_open(struct upgrade *u, const char *name)
{
    struct ps_layout making = *u->to;
    making.version |= BEING_MADE;
    u->container = ps_open(name, PS_WRITE, u->from);
    if (!u->container && errno == EPROTO) {
        u->container = ps_open(name, PS_WRITE, &making);
        u->making = 1;
    }
    if (u->container)
        return u->container->opens > 1 ? -EBUSY : 0;
    return errno == EPROTO ? -ENOENT : -errno;
}

int ps_upgrade(const char *name, const struct ps_layout *from, const struct ps_layout *to,
               int (*step)(void *from, void *to, void *arg), void *arg)
{
    struct upgrade u = {.from = from, .to = to, .step = step, .arg = arg};
    if (tx_active())
        return error_told(ERROR_NAMES, -EBUSY);
    if (!from || !to || !step || !from->bytes || !to->bytes || from->version >= to->version ||
        to->version & BEING_MADE)
        return error_told(ERROR_UPGRADE, -EINVAL);
    int result = upgrade_open(&u, name);
    if (result == 0)
        result = upgrade(&u);
    if (u.container) {
        names_forget(u.container);
        ps_close(u.container);
    }
    if (result == -EBUSY)
        error_told(ERROR_NAMES, result);
    return u.container || result != -ENOENT ? result : 0;
}
