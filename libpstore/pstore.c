/*
 * pstore.c - what is left of the interface: hints, advice and statistics.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

static int hint(const void *p, size_t bytes, int what)
{
    p = ps_home(p);
    ps_container *c = ps_container_of(p);
    if (!tx_active())
        return -EPERM;
    if (bytes == 0)
        return 0;
    if (!c || !container_has(c, (uintptr_t)p, bytes))
        return -EINVAL;
    if (what == KD_HINT_WRITE && !tx_writing(c))
        return -errno;
    if (what == KD_HINT_WRITE && c->items && c->protection & PS_PROTECT_GUARD)
        return guard_access(tx_active(), c, (uintptr_t)p, bytes);
    return (int)ps_kernel(KD_TXN_HINT, (long)p, (long)bytes, what);
}

int segments_lock(ps_container *c, unsigned from, int how)
{
    int result = 0;
    unsigned segments = c->segment_count;
    for (unsigned i = from; result == 0 && i < segments; i++)
        result = (int)ps_kernel(KD_TXN_LOCK, (long)c->segment[i].base, how, 0);
    if (result == 0 && !(how & KD_LOCK_SHARED) && c->items)
        items_lock_all(tx_active(), c, segments);
    return result;
}

int container_lock(ps_container *c, unsigned from, int how)
{
    int result = segments_lock(c, from, how);
    if (result == 0 && how & KD_LOCK_SHARED && c->items)
        result = items_lock_keys(tx_active(), c, how & KD_LOCK_NOW);
    return result;
}

/* stored_at returns container i, if the transaction may have stored items to it; else NULL. */
static ps_container *stored_at(const struct ps_tx *tx, int i)
{
    ps_container *c = container_by_index(i);
    int stored = tx->items.stored >> i & 1;
    return stored && container_is_open(c) && c->items && c->flags & PS_WRITE ? c : NULL;
}

int items_too_large(struct ps_tx *tx)
{
    int any = 0;
    for (int i = 0; i < PS_OPEN_MAX && !tx->items.too_large; i++)
        any |= stored_at(tx, i) != NULL;
    tx->items.too_large = any;            /* not twice */
    return any;
}

int items_lock_stored(struct ps_tx *tx)
{
    int result = 0;
    for (int i = 0; i < PS_OPEN_MAX && result == 0; i++)
        if (stored_at(tx, i))
            result = container_lock(stored_at(tx, i), 0, 0);
    return result;
}

int ps_touch(const void *p, size_t bytes)
{
    return hint(p, bytes, KD_HINT_WRITE);
}

int ps_prefetch(const void *p, size_t bytes)
{
    return hint(p, bytes, KD_HINT_PREFETCH);
}

int ps_lock(ps_container *c, int how)
{
    int result = 0;
    if (!tx_active())
        result = -EPERM;
    else if (!container_is_open(c) || how & ~(PS_LOCK_SHARED | PS_LOCK_NOW))
        result = -EINVAL;
    else if (!(how & PS_LOCK_SHARED) && !(c->flags & PS_WRITE))
        result = -EROFS;
    return error_told(ERROR_OTHER, result == 0 ? container_lock(c, 0, how) : result);
}

int (ps_bulk)(ps_container *c, int (*fn)(void *arg), void *arg)
{
    return (ps_transaction_opt)(fn, arg, &(struct ps_options){.isolation = PS_CONTAINER_LOCK,
                                                              .locked = c, .bulk = 1});
}

int ps_snapshot_share(void)
{
    long handle = tx_active() ? ps_kernel(KD_SNAPSHOT_SHARE, 0, 0, 0) : -EPERM;
    return (int)(handle < 0 ? handle : handle + 1);
}

int ps_snapshot_drop(int snapshot)
{
    return (int)ps_kernel(KD_HANDLE_CLOSE, snapshot - 1, 0, 0);
}

/* segment_part returns a segment's part of so many pages, and what it needs at least. */
static unsigned segment_part(const ps_container *c, unsigned pages)
{
    unsigned part = pages / c->segment_count;
    return pages < KD_MEMORY_LEAST ? pages : part > KD_MEMORY_LEAST ? part : KD_MEMORY_LEAST;
}

static int chunk_set(const ps_container *c, unsigned pages)
{
    uint64_t word[STORE_REQUEST_WORDS] = {c->id, pages};
    int result = store_request(c->store, STORE_CHUNK, word, NULL, 0, NULL, NULL);
    return result == -EACCES ? -EROFS : result;
}

_Static_assert((int)PS_CHUNK != KD_POLICY_ITEMS && (int)PS_CHUNK != KD_POLICY_OWN,
               "ps_policy passes the kernel's numbers on");

int ps_policy(ps_container *c, int which, unsigned value)
{
    int result = container_is_open(c) ? 0 : -EINVAL;
    if (!result && which == PS_CHUNK)
        return chunk_set(c, value);
    if (!result && which == PS_MEMORY)
        value = segment_part(c, value);
    for (unsigned i = 0; result == 0 && i < c->segment_count; i++)
        result = (int)ps_kernel(KD_CONTAINER_POLICY, (long)c->segment[i].base, which, value);
    return result == -EACCES ? -EROFS : result;
}

_Static_assert((int)PS_ENCODE_DIFF == KD_ENCODER_DIFF && (int)PS_ENCODE_FULL == KD_ENCODER_FULL &&
                   (int)PS_ENCODE_RANGES == KD_ENCODER_RANGES &&
                   (int)PS_ENCODE_ADAPTIVE == KD_ENCODER_ADAPTIVE,
               "one number means one encoder");

void form_take(ps_container *c, const uint32_t form[WIRE_FORMS])
{
    c->encoder = (int)form[WIRE_FORM_ENCODER];
    c->items = (int)form[WIRE_FORM_LOCKING];
    c->protection = (int)form[WIRE_FORM_PROTECTION];
    c->durability = (int)form[WIRE_FORM_DURABILITY];
}

static int form_set(ps_container *c, uint32_t which, int value, _Atomic int *kept)
{
    int result = tx_active() ? -EBUSY : stores_refresh();
    return error_told(ERROR_OTHER, result == 0 ? container_form(c, which, value, kept) : result);
}

int ps_encoder(ps_container *c, int encoder)
{
    if (encoder < PS_ENCODE_DIFF || encoder > PS_ENCODE_OPERATIONS)
        return -EINVAL;
    return form_set(c, WIRE_FORM_ENCODER, encoder, &c->encoder);
}

int ps_locking(ps_container *c, int locking)
{
    if (locking != PS_LOCK_PAGES && locking != PS_LOCK_ITEMS)
        return -EINVAL;
    return form_set(c, WIRE_FORM_LOCKING, locking, &c->items);
}

int ps_declares(const ps_container *c)
{
    return c->encoder == PS_ENCODE_RANGES || (c->protection & PS_PROTECT_GUARD) != 0;
}

int ps_protection(ps_container *c, int protection)
{
    if (protection & ~(PS_PROTECT_GUARD | PS_PROTECT_CODEWORDS))
        return -EINVAL;
    return form_set(c, WIRE_FORM_PROTECTION, protection, &c->protection);
}

int ps_durability(ps_container *c, int durability)
{
    if (durability < PS_DURABLE || durability > PS_REBUILD)
        return -EINVAL;
    return form_set(c, WIRE_FORM_DURABILITY, durability, &c->durability);
}

int ps_lost(const ps_container *c)
{
    return container_is_open(c) ? c->durability == PS_LOST : -EINVAL;
}

_Static_assert((int)PS_NORMAL == KD_ADVISE_NORMAL && (int)PS_DONT_NEED == KD_ADVISE_DONT_NEED,
               "one number means one advice");

int ps_advise(const void *p, size_t bytes, int advice)
{
    static const unsigned groups[] = {[PS_NORMAL] = 0, [PS_SEQUENTIAL] = 64, [PS_RANDOM] = 1};
    p = ps_home(p);
    ps_container *c = ps_container_of(p);
    if (!c || !container_has(c, (uintptr_t)p, bytes ? bytes : 1))
        return -ENOENT;
    if (advice < PS_NORMAL || advice > PS_DONT_NEED)
        return -EINVAL;
    if (advice <= PS_RANDOM)
        return ps_policy(c, PS_GROUP, groups[advice]);
    uint64_t first = (uintptr_t)p / KD_PAGE_BYTES;
    uint64_t last = ((uintptr_t)p + bytes + KD_PAGE_BYTES - 1) / KD_PAGE_BYTES;
    uint64_t word[STORE_REQUEST_WORDS] = {first * KD_PAGE_BYTES, last - first, (uint64_t)advice};
    return store_request(c->store, STORE_ADVISE, word, NULL, 0, NULL, NULL);
}

static int pin(const void *p, size_t bytes, int on)
{
    p = ps_home(p);
    ps_container *c = ps_container_of(p);
    if (!c || bytes == 0 || !container_has(c, (uintptr_t)p, bytes))
        return -ENOENT;
    uint64_t first = (uintptr_t)p / KD_PAGE_BYTES;
    uint64_t last = ((uintptr_t)p + bytes + KD_PAGE_BYTES - 1) / KD_PAGE_BYTES;
    uint64_t word[STORE_REQUEST_WORDS] = {first * KD_PAGE_BYTES, last - first, (uint64_t)on};
    return store_request(c->store, STORE_PIN, word, NULL, 0, NULL, NULL);
}

int ps_pin(const void *p, size_t bytes)
{
    return pin(p, bytes, 1);
}

int ps_unpin(const void *p, size_t bytes)
{
    return pin(p, bytes, 0);
}

void ps_stats(struct ps_stats *out)
{
    struct kd_view_stats views;
    struct wire_stats store;
    size_t bytes = sizeof store;
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    struct ps_store *s = store_of_opens();

    memset(out, 0, sizeof *out);
    out->requests = requests_counted();
    if (ps_kernel(KD_VIEW_STATS, (long)&views, 0, 0) == 0) {
        out->commits = views.commits;
        out->aborts = views.aborts;
        out->deadlocks = views.deadlocks;
        out->read_faults = views.read_faults;
        out->write_faults = views.write_faults;
        out->lock_waits = views.lock_waits;
        out->manager_calls = views.manager_calls;
        out->pages_read = views.pages_read;
        out->pages_logged = views.pages_logged;
    }
    if (s && store_request(s, STORE_STATS, word, NULL, 0, &store, &bytes) == 0 &&
        bytes == sizeof store) {
        out->log_bytes = store.log_bytes - s->log_bytes;
        out->flushes = store.flushes - s->flushes;
    }
}
