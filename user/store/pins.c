/*
 * pins.c - pages of containers that programs want in memory, and not to go (STORE_PIN, ps_pin).
 *
 * A program pins a range; the store brings its pages and pins them in the kernel, whose limit of
 * pinned pages is the store's. What a program itself may pin is its own limit (`limit pins`).
 *
 * PN1  A page that the kernel has pinned lies in a range of this table; when the last range that
 *      has it ends, it is unpinned.
 *
 * A range ends by STORE_PIN, when its program has closed the container, or has ended. One that is
 * still being brought then (busy) is `over`, and whoever brings it ends it.
 *
 * Locks: server.lock.
 */
#include "server.h"

#include <stdlib.h>

enum { PINS_MAX = 256, AT_ONCE = 64, TRIES = 16, PROCESSES_MAX = 512 };

static struct pin {
    uint64_t process, container, page, count; /* count 0: free */
    bool busy, over;
} pins[PINS_MAX];

#define pins_each(p) for (struct pin *p = pins; p < pins + PINS_MAX; p++)

/* limit_of tells how many pages the process may pin. It takes memory: no lock. */
static uint64_t limit_of(uint64_t process)
{
    struct kd_process_info *rows = malloc(PROCESSES_MAX * sizeof(*rows));
    long n = rows ? KD2(KD_PROCESS_LIST, rows, PROCESSES_MAX) : 0;
    uint64_t limit = 0;
    for (long i = 0; i < n && i < PROCESSES_MAX; i++)
        if ((uint64_t)rows[i].pid == process) limit = rows[i].most[KD_LIMIT_PINS];
    free(rows);
    return limit;
}

/* pinned_beside: does another range have the page? */
static bool pinned_beside(const struct pin *mine, uint64_t page)
{
    pins_each(p)
        if (p != mine && p->count && p->container == mine->container &&
            page - p->page < p->count)
            return true;
    return false;
}

static void pin_end(struct pin *p)
{
    int object;
    uint64_t object_page;
    for (uint64_t i = 0; i < p->count; i++)
        if (!pinned_beside(p, p->page + i) &&
            container_object(p->container, p->page + i, &object, &object_page) == 0)
            (void)kd_object_pin(object, object_page, 1, 0);
    *p = (struct pin){0};
}

/* pin_begin gives the range a place, if all of it may be pinned. Lock held. */
static int pin_begin(uint64_t process, uint64_t id, uint64_t page, uint64_t count, uint64_t limit,
                     struct pin **out)
{
    struct pin *place = NULL;
    uint64_t others = 0;
    pins_each(p) {
        if (p->count && p->process == process) others += p->count;
        if (!p->count && !place) place = p;
    }
    if (!place) return -EMFILE;
    if (others > limit || count > limit - others) return -ENOMEM;
    *place = (struct pin){process, id, page, count, .busy = true};
    *out = place;
    return 0;
}

/* part_pin pins pages of a busy range that are in memory: 0; -EAGAIN: they are to be brought. */
static int part_pin(const struct pin *p, uint64_t page, uint64_t count)
{
    int object;
    uint64_t object_page;
    server_lock();
    int r = p->over ? -ECANCELED : container_object(p->container, page, &object, &object_page);
    long n = r < 0 ? r : kd_object_pin(object, object_page, count, 1);
    server_unlock();
    return n < 0 ? (int)n : (uint64_t)n == count ? 0 : -EAGAIN;
}

static int range_pin(const struct pin *p)
{
    int r = 0;
    for (uint64_t done = 0, n; r == 0 && done < p->count; done += n) {
        n = p->count - done < AT_ONCE ? p->count - done : AT_ONCE;
        struct kd_message wanted = {.word = {cookie_of(p->container, 0), p->page + done, n,
                                             KD_READ}};
        r = -EAGAIN;
        for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
            pager_bring(&wanted);
            r = part_pin(p, p->page + done, n);
        }
    }
    return r == -EAGAIN ? -EIO : r; /* what cannot be read does not come */
}

int pins_pin(const struct kd_message *m)
{
    uint64_t page, limit = limit_of(m->process), count = m->word[1];
    struct store_container d;
    struct pin *p = NULL;
    server_lock();
    int r = store_container_at(server.store, m->word[0], &d, &page);
    struct container *c = r < 0 ? NULL : container_by_id(d.object);
    r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0 && (c->kept || server.read_only)) r = -ENOTSUP;
    if (r == 0 && (count == 0 || count > container_left(c, page))) r = -EINVAL;
    if (r == 0) r = pin_begin(m->process, c->id, page, count, limit, &p);
    server_unlock();
    if (r < 0) return r;
    r = range_pin(p);
    server_lock();
    p->busy = false;
    if (r < 0 || p->over) pin_end(p);
    server_unlock();
    return r;
}

int pins_unpin(const struct kd_message *m)
{
    uint64_t page;
    struct store_container d;
    server_lock();
    int r = store_container_at(server.store, m->word[0], &d, &page) < 0 ? -ENOENT : -EINVAL;
    pins_each(p) {
        if (r != -EINVAL || p->count != m->word[1] || p->process != m->process) continue;
        if (p->container != d.object || p->page != page || p->busy) continue;
        pin_end(p);
        r = 0;
    }
    server_unlock();
    return r;
}

void pins_end(uint64_t container, uint64_t process)
{
    pins_each(p) {
        if (!p->count || p->container != container || p->process != process) continue;
        if (p->busy)
            p->over = true;
        else
            pin_end(p);
    }
}
