/*
 * item_layer.c - access to items by brackets, and what their types do on the way.
 *
 * Owns      the types of this process by number; of each transaction what it accesses of types with
 *           functions (struct accesses), in memory of its own (chunks), which an abort leaves as
 *           it is and the next transaction's first access makes empty.
 * Not here  headers and room (item_header.c), locks (item.c).
 *
 * An item is locked by its header's address, in the table of the container with its data: so who
 * may not write headers has locks, and a lock stays where it is when data move. An item of a type
 * without functions leaves no trace but that lock.
 *
 * Invariants
 *   IY1  What a header says is believed behind the lock only.
 *   IY2  An item's functions `first` and `update` are called once in a transaction, `commit` at
 *        most once; what is packed is packed behind the last of them.
 *   IY3  Chunks and accesses are whole before they are linked, and unlinked before they go: an
 *        abort may come at any instruction, and the next transaction finds them (TX2).
 *   IY4  In a partition with sums a header's sum is that of its data before and behind each
 *        transaction; it is made anew at the end of one that accessed the item to write, and looked
 *        at whenever an item is accessed that this one has not.
 */
#include "item_layer_private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { TYPES_MAX = 64, BUCKETS = 256, CHUNK = 65536, BASE_MODE = 15 };
enum { STORES = 1 << PS_X | 1 << PS_ADD | 1 << PS_OWN };

/* ---- types ---- */

static struct {
    const struct ps_item_type *_Atomic type;
    _Atomic uint32_t number;              /* behind it: until then it is of no type */
} types[TYPES_MAX];

static const struct ps_item_type *type_of(uint32_t number)
{
    for (unsigned i = number; i < number + TYPES_MAX && types[i % TYPES_MAX].type; i++)
        if (types[i % TYPES_MAX].number == number)
            return types[i % TYPES_MAX].type;
    return NULL;
}

int ps_item_type_add(const struct ps_item_type *type)
{
    uint32_t number = type_number(type->name);
    if (!number || type_of(number))
        return number ? -EEXIST : -errno;
    for (unsigned i = number; i < number + TYPES_MAX; i++) {
        const struct ps_item_type *none = NULL;
        if (atomic_compare_exchange_strong(&types[i % TYPES_MAX].type, &none, type)) {
            types[i % TYPES_MAX].number = number;
            return 0;
        }
    }
    return -ENOSPC;
}

/* type_in finds the type whose functions are called; written items with sums always have one. */
static const struct ps_item_type *type_in(const ps_part *p, uint32_t number, int stores)
{
    static const struct ps_item_type none;
    const struct ps_item_type *type = type_of(number);
    return type || !stores || !(p->flags & PS_PART_SUMS) ? type : &none;
}

/* ---- what a transaction accesses ---- */

/* settle makes what was stored so far be stored before what follows (IY3). */
static void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

struct access {
    struct access *next, *chain;          /* in their order; of its bucket */
    ps_item_id id;
    ps_part *part;
    struct ps_item *item;
    const struct ps_item_type *type;
    void *plain;                          /* what the program sees */
    uint64_t bytes;
    int copied;                           /* it is a volatile copy */
    int updated, dirty, gone;             /* dirty: to be packed */
};
struct accesses {
    struct item_chunk chunk;
    struct access *first, **last, *bucket[BUCKETS];
    int aborts;                           /* ps_on_abort knows */
};

/* chunk_take takes volatile bytes until the end, aligned to 16; NULL: ENOMEM. Not malloc (TX1). */
static void *chunk_take(struct ps_tx *tx, size_t bytes)
{
    struct item_chunk *c = tx->items.chunk, *rest = c ? c->next : NULL;
    size_t wanted = (bytes + 15) / 16 * 16, size = wanted + sizeof *c;
    for (; c; c = c == tx->items.chunk ? rest : NULL)         /* the first and the youngest one */
        if (c->size - c->used >= wanted) {
            c->used += wanted;
            return (char *)c + c->used - wanted;
        }
    size = size > CHUNK ? (size + KD_PAGE_BYTES - 1) / KD_PAGE_BYTES * KD_PAGE_BYTES : CHUNK;
    c = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) {
        errno = ENOMEM;
        return NULL;
    }
    *c = (struct item_chunk){.next = rest, .size = size, .used = sizeof *c + wanted};
    settle();
    if (tx->items.chunk)
        tx->items.chunk->next = c;
    else
        tx->items.chunk = c;
    return (char *)c + sizeof *c;
}

static int accesses_end(struct ps_tx *tx);

static struct accesses *accesses_of(struct ps_tx *tx)
{
    struct accesses *all = (struct accesses *)(void *)tx->items.chunk;
    if (tx->items.accesses)
        return all;
    if (!all && !chunk_take(tx, sizeof *all - sizeof all->chunk))
        return NULL;
    all = (struct accesses *)(void *)tx->items.chunk;
    chunks_free(&all->chunk.next);
    all->chunk.used = sizeof *all;
    memset(all->bucket, 0, sizeof all->bucket);
    all->last = &all->first;
    all->first = NULL;
    all->aborts = 0;
    settle();
    tx->items.accesses = accesses_end;
    return all;
}

static struct access **bucket_of(struct accesses *all, ps_item_id id)
{
    return &all->bucket[(id * 0x9e3779b97f4a7c15ull) >> 56];
}

static struct access *access_find(struct ps_tx *tx, ps_item_id id)
{
    struct access *a = tx->items.accesses ? *bucket_of(accesses_of(tx), id) : NULL;
    while (a && (a->id != id || a->gone))
        a = a->chain;
    return a;
}

static struct access *access_add(struct ps_tx *tx, ps_part *p, struct ps_item *item,
                                 const struct ps_item_type *type)
{
    struct accesses *all = accesses_of(tx);
    struct access *a = all ? chunk_take(tx, sizeof *a) : NULL;
    if (!a)
        return NULL;
    struct access **bucket = bucket_of(all, id_of(p, item));
    *a = (struct access){.chain = *bucket, .id = id_of(p, item), .part = p, .item = item,
                         .type = type, .plain = item->data, .bytes = item->bytes};
    settle();
    *all->last = *bucket = a;
    all->last = &a->next;
    return a;
}

static void accesses_aborted(void *all)
{
    for (const struct access *a = ((struct accesses *)all)->first; a; a = a->next)
        if (a->updated && a->type->abort)
            a->type->abort(a->id);
}

/* ---- room ---- */

/* room_set gives the item room for so many bytes, perhaps elsewhere: `keep` of them are copied. */
static int room_set(struct ps_tx *tx, ps_part *p, struct ps_item *item, uint64_t bytes,
                    uint64_t keep)
{
    struct ps_item old = *item;
    int result = header_write(tx, p, item);
    if (result != 0)
        return result;
    if (!old.data || bytes > old.room || bytes < old.room / 4) {
        if (!(item->data = p->allocator->take(p, old.type, bytes, &item->room))) {
            *item = old;
            return -errno;
        }
        if (old.data)
            memcpy(item->data, old.data, keep < bytes ? keep : bytes);
        result = old.data ? p->allocator->give(p, old.data, old.room, NULL) : 0;
    } else {
        items_store(tx, p->data, (uintptr_t)item->data, item->room);
        if (bytes < keep)
            memset((char *)item->data + bytes, 0, keep - bytes);
    }
    return result;
}

/* stores_meant says that the program is about to store to the item. */
static int stores_meant(struct ps_tx *tx, const ps_part *p, const struct ps_item *item)
{
    if (p->data->protection & PS_PROTECT_GUARD)
        return guard_access(tx, p->data, (uintptr_t)item->data, item->room);
    items_store(tx, p->data, (uintptr_t)item->data, item->room);
    return 0;
}

/* access_pack brings what the program changed in its copy to where the item is kept. */
static int access_pack(struct ps_tx *tx, struct access *a)
{
    PART_OPENED(a->part);
    struct ps_item *item = a->item;
    void *out = a->bytes ? chunk_take(tx, a->bytes) : NULL;
    if (a->bytes && !out)
        return -errno;
    size_t packed = out ? a->type->pack(a->plain, a->bytes, out, a->bytes) : 0;
    size_t stored = packed ? packed : a->bytes;
    int result = room_set(tx, a->part, item, stored, 0);
    if (result != 0)
        return result;
    if (stored)
        memcpy(item->data, packed ? out : a->plain, stored);
    item->bytes = a->bytes;
    item->stored = stored;
    item->form = packed != 0;
    a->dirty = 0;
    return 0;
}

/* accesses_end runs before the commit. Functions may access other items, which come last then. */
static int accesses_end(struct ps_tx *tx)
{
    int result = 0;
    struct access *first = accesses_of(tx)->first;
    for (struct access *a = first; a && result == 0; a = a->next)
        if (a->updated && a->type->commit)
            result = a->type->commit(a->id, a->gone ? NULL : a->plain, a->gone ? 0 : a->bytes);
    for (struct access *a = first; a && result == 0; a = a->next)
        if (a->dirty && !a->gone)
            result = access_pack(tx, a);                                        /* IY2 */
    for (struct access *a = first; a && result == 0; a = a->next) {
        PART_OPENED(a->part);
        if (a->updated && !a->gone && a->part->flags & PS_PART_SUMS)
            a->item->sum = header_sum(a->item);                                 /* IY4 */
    }
    return result;
}

/* ---- brackets ---- */

/* access_copy makes what the program sees a copy if the type packs, and it is packed or written. */
static int access_copy(struct ps_tx *tx, struct access *a, int stores)
{
    const struct ps_item *item = a->item;
    if (a->copied || (!item->form && !(stores && a->type->pack)))
        return 0;
    if (item->form && !a->type->unpack)
        return -ENOTSUP;
    void *plain = chunk_take(tx, item->bytes + 1);
    if (!plain)
        return -errno;
    int result = item->form ? a->type->unpack(item->data, item->stored, plain, item->bytes) : 0;
    if (!item->form && item->data)
        memcpy(plain, item->data, item->bytes);
    a->plain = plain;
    a->copied = result == 0;
    return result;
}

static int access_open(struct ps_tx *tx, ps_part *p, struct ps_item *item,
                       const struct ps_item_type *type, int stores, void **out)
{
    struct access *a = access_find(tx, id_of(p, item));
    int is_new = !a, result = 0;
    if (!a && !(a = access_add(tx, p, item, type)))
        return -errno;
    result = access_copy(tx, a, stores);
    if (result == 0 && is_new && type->first)
        result = type->first(a->id, a->plain, a->bytes);
    struct accesses *all = accesses_of(tx);
    if (result == 0 && stores && type->abort && !all->aborts) {
        result = ps_on_abort(accesses_aborted, all);
        all->aborts = result == 0;
    }
    if (result == 0 && stores && !a->updated) {
        a->updated = 1;                   /* before the call: that may begin an access here, too */
        result = type->update ? type->update(a->id, a->plain, a->bytes) : 0;
    }
    *out = a->plain;
    if (stores && a->copied)
        a->dirty = 1;
    return result || !stores || a->copied ? result : stores_meant(tx, p, item);
}

static int lock(struct ps_tx *tx, const ps_part *p, const struct ps_item *item, int mode,
                int stores)
{
    if (tx->kind == TX_READS)
        return stores ? -EROFS : 0;
    if (p->flags & PS_PART_UNLOCKED)
        return !stores || tx_writing(p->data) ? 0 : -errno;
    return ps_key(p->data, (uintptr_t)item, mode & (BASE_MODE | PS_NOW));
}

/* sum_look keeps IY4, behind the lock, with sums. Who writes will write the header, too. */
static int sum_look(struct ps_tx *tx, ps_part *p, struct ps_item *item, int mode, int stores)
{
    const struct access *a = access_find(tx, id_of(p, item));
    if (a && a->updated)
        return 0;
    if (stores && mode != PS_X)
        return -EINVAL;
    return item->sum != header_sum(item) ? -EIO : stores ? header_write(tx, p, item) : 0;
}

static int item_open(struct ps_tx *tx, ps_part *p, struct ps_item *item, ps_item_id id, int mode,
                     void **out)
{
    int base = mode & BASE_MODE, stores = base <= PS_OWN ? STORES >> base & 1 : 0;
    int result = lock(tx, p, item, mode, stores) ?: header_is(p, item, id);     /* IY1 */
    if (result != 0)
        return result;
    if (!(item->rights & (stores ? PS_MAY_WRITE : PS_MAY_READ)))
        return -EACCES;
    if (p->flags & PS_PART_SUMS && (result = sum_look(tx, p, item, base, stores)) != 0)
        return result;
    const struct ps_item_type *type = type_in(p, item->type, stores);
    if (type)
        return access_open(tx, p, item, type, stores, out);
    if (item->form)
        return -ENOTSUP;
    *out = item->data;
    return stores ? stores_meant(tx, p, item) : 0;
}

/* item_at finds the header, in a transaction; NULL with errno. */
static struct ps_item *item_at(ps_item_id id, ps_part **part)
{
    if (tx_active())
        return header_of(id, part);
    errno = EPERM;
    return NULL;
}

void *ps_begin_access(ps_item_id id, int mode)
{
    ps_part *p;
    void *data = NULL;
    struct ps_item *item = item_at(id, &p);
    int result = item ? item_open(tx_active(), p, item, id, mode, &data) : -errno;
    errno = -result;
    return result == 0 ? data : NULL;
}

int ps_end_access(ps_item_id id, int mode)
{
    struct ps_tx *tx = tx_active();
    if (tx && !tx->items.accesses && !tx->items.guard.brackets && !(mode & PS_BRIEF))
        return 0;                         /* of no type with functions */
    ps_part *p;
    struct ps_item *item = item_at(id, &p);
    struct access *a = item ? access_find(tx, id) : NULL;
    int result = !item ? -errno : a && a->dirty ? access_pack(tx, a) : 0;
    if (result == 0 && STORES >> (mode & BASE_MODE) & 1 && !(a && a->copied))
        (void)guard_released(&tx->items.guard, (uintptr_t)item->data);
    if (result != 0 || !(mode & PS_BRIEF) || p->flags & PS_PART_UNLOCKED || tx->kind == TX_READS)
        return result;
    return items_release(tx, p->data, p->data->base, (uintptr_t)item);
}

/* ---- whole items ---- */

/* item_made tells a type's functions of a new item: 0 or -errno. */
static int item_made(struct ps_tx *tx, ps_part *p, struct ps_item *item,
                     const struct ps_item_type *type, size_t bytes)
{
    struct access *a = access_add(tx, p, item, type);
    if (!a)
        return -errno;
    a->updated = 1;
    if (type->pack) {
        if (!(a->plain = chunk_take(tx, bytes + 1)))
            return -errno;
        memset(a->plain, 0, bytes);
        a->copied = a->dirty = 1;
    }
    return type->update ? type->update(a->id, NULL, 0) : 0;
}

/* item_fill fills a new header, and takes room unless it will be packed. */
static int item_fill(struct ps_tx *tx, ps_part *p, struct ps_item *item, uint32_t type,
                     size_t bytes, int packs)
{
    PART_OPENED(p);
    item->type = type;
    item->rights = PS_MAY_READ | PS_MAY_WRITE;
    int result = lock(tx, p, item, PS_X, 1) ?: packs ? 0 : room_set(tx, p, item, bytes, 0);
    item->bytes = bytes;
    item->stored = packs ? 0 : bytes;
    if (result != 0)
        header_free(item);
    return result;
}

ps_item_id ps_item_make(ps_part *p, const char *type, size_t bytes)
{
    struct ps_tx *tx = tx_active();
    uint32_t number = type_number(type);
    struct ps_item *item = !tx || !p->root || !number ? NULL : header_take(tx, p);
    if (!item) {
        errno = !tx ? EPERM : !p->root ? EINVAL : errno;
        return 0;
    }
    const struct ps_item_type *t = type_in(p, number, 1);
    int result = item_fill(tx, p, item, number, bytes, t && t->pack);
    if (result == 0 && t && (result = item_made(tx, p, item, t, bytes)) != 0)
        ps_item_delete(id_of(p, item));
    errno = -result;
    return result == 0 ? id_of(p, item) : 0;
}

int ps_item_delete(ps_item_id id)
{
    struct ps_tx *tx = tx_active();
    ps_part *p;
    struct ps_item *item = ps_begin_access(id, PS_X) ? header_of(id, &p) : NULL;
    int result = item ? header_write(tx, p, item) : -errno;
    if (result != 0)
        return result;
    PART_OPENED(p);
    struct access *a = access_find(tx, id);
    struct ps_item old = *item;
    if (a)
        a->gone = 1;
    header_free(item);
    return old.data ? p->allocator->give(p, old.data, old.room, item) : 0;
}

int ps_item_resize(ps_item_id id, size_t bytes)
{
    struct ps_tx *tx = tx_active();
    ps_part *p;
    struct ps_item *item = ps_begin_access(id, PS_X) ? header_of(id, &p) : NULL;
    struct access *a = item ? access_find(tx, id) : NULL;
    void *plain = a && a->copied ? chunk_take(tx, bytes + 1) : NULL;
    int result = item && (plain || !a || !a->copied) ? 0 : -errno;
    if (result != 0)
        return result;
    void *old = item->data;
    if (!plain)
        (void)guard_released(&tx->items.guard, (uintptr_t)old);
    PART_OPENED(p);
    if (plain) {
        memset(plain, 0, bytes);
        memcpy(plain, a->plain, a->bytes < bytes ? a->bytes : bytes);
    } else if ((result = room_set(tx, p, item, bytes, item->bytes)) == 0) {
        item->bytes = item->stored = bytes;
        plain = item->data;
        guard_moved(&tx->items.guard, (uintptr_t)old, (uintptr_t)plain);
    }
    if (result == 0 && a) {
        a->plain = plain;
        a->bytes = bytes;
    }
    return result;
}

/* header_locked finds the header of an item, locked to be written; NULL with errno. */
static struct ps_item *header_locked(ps_item_id id, ps_part **p)
{
    struct ps_item *item = item_at(id, p);
    int result = !item ? -errno
                       : lock(tx_active(), *p, item, PS_X, 1) ?: header_is(*p, item, id)
                             ?: header_write(tx_active(), *p, item);
    errno = -result;
    return result == 0 ? item : NULL;
}

int ps_item_sum_again(ps_item_id id)
{
    ps_part *p;
    struct ps_item *item = header_locked(id, &p);
    if (!item)
        return -errno;
    PART_OPENED(p);
    item->sum = header_sum(item);
    return 0;
}

int ps_item_protect(ps_item_id id, unsigned rights)
{
    ps_part *p;
    struct ps_item *item = header_locked(id, &p);
    if (!item)
        return -errno;
    PART_OPENED(p);
    item->rights = rights & (PS_MAY_READ | PS_MAY_WRITE);
    return 0;
}

const struct ps_item *ps_item_header(ps_item_id id)
{
    ps_part *p;
    return header_of(id, &p);
}

size_t ps_item_bytes(ps_item_id id)
{
    ps_part *p;
    const struct ps_item *item = item_at(id, &p);
    const struct access *a = item ? access_find(tx_active(), id) : NULL;
    return a ? a->bytes : item && header_is(p, item, id) == 0 ? item->bytes : 0;
}

int64_t ps_item_get(ps_item_id id, void *out, size_t bytes)
{
    const void *data = ps_begin_access(id, PS_S);
    size_t have = data ? ps_item_bytes(id) : 0;
    if (have && bytes)
        memcpy(out, data, have < bytes ? have : bytes);
    return data ? (int64_t)have : -errno;
}

int ps_item_put(ps_item_id id, const void *data, size_t bytes)
{
    void *there = ps_begin_access(id, PS_X);
    int result = !there ? -errno : ps_item_bytes(id) != bytes ? ps_item_resize(id, bytes) : 0;
    if (result == 0 && bytes)
        memcpy(ps_begin_access(id, PS_X), data, bytes);
    return result;
}
