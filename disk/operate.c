/*
 * operate.c - records of operations: what a commit made of a page, as functions of the version
 * before. Where an insertion shifts what stands behind it, a difference has all that moved, an
 * operation where from and how much.
 *
 * A function is pure: of that version and its arguments, and of nothing else. Those of a record
 * ascend and do not overlap, as the runs of a difference do, so what a record takes to apply is
 * bounded by its page.
 *
 * Invariants
 *   FN1  Each copy is from the version before, not from what other functions of the record have
 *       made of it; so they may be applied in any order, and forward only.
 *   FN2  A record of operations was applied once before it is in a group, and made the same bytes
 *       as the difference that it stands for.
 */
#include "internal.h"

/* An operation is: number skip << 2 | function, skipped since the end of the one before (first: of
 * the page's beginning); number of bytes; arguments. A number takes a byte below 128, else two:
 * low seven bits + 128, the rest. */
enum { FUNCTION_STORE,                  /* the bytes */
       FUNCTION_COPY,                   /* number: how far before it stood << 1, or behind, | 1 */
       FUNCTION_FILL,                   /* a byte: the value */
       FUNCTIONS };

struct operation {
    uint32_t function, at, bytes;
    uint32_t from;                      /* copy: the place in the version before */
    const uint8_t *data;                /* store: the bytes; fill: the value */
};

/* ---- what a record says */

struct reader { const uint8_t *at, *end; };

/* data_bytes is how many bytes of `data` an operation has. */
static uint32_t data_bytes(const struct operation *o)
{
    return o->function == FUNCTION_STORE ? o->bytes : o->function == FUNCTION_FILL;
}

/* number_take reads a number. UINT32_MAX: there is none. */
static uint32_t number_take(struct reader *r)
{
    uint32_t low = r->at < r->end ? *r->at++ : 0x80;
    if (low < 0x80)
        return low;
    return r->at < r->end ? (low & 0x7f) | (uint32_t)*r->at++ << 7 : UINT32_MAX;
}

/* operation_take makes `o` the next operation, behind what it was. False: there is none. */
static bool operation_take(struct reader *r, struct operation *o)
{
    uint32_t head = number_take(r), bytes = number_take(r), far = 0;
    uint64_t at = (uint64_t)o->at + o->bytes + (head >> 2);
    o->function = head & 3;
    if (o->function >= FUNCTIONS || !bytes || at + bytes > STORE_PAGE_BYTES)
        return false;
    if (o->function == FUNCTION_COPY)
        far = number_take(r);
    else if (r->at == r->end)
        return false;
    o->at = (uint32_t)at;
    o->bytes = bytes;
    o->data = r->at;
    o->from = far & 1 ? o->at + (far >> 1) : o->at - (far >> 1);
    if (far == UINT32_MAX || (uint64_t)o->from + bytes > STORE_PAGE_BYTES)
        return false;
    if (data_bytes(o) > (size_t)(r->end - r->at))
        return false;
    r->at += data_bytes(o);
    return true;
}

int operations_check(const uint8_t *data, uint32_t bytes)
{
    struct reader r = { data, data + bytes };
    struct operation o = { .at = 0 };
    if (bytes > STORE_PAGE_BYTES)
        return -EINVAL;
    while (r.at < r.end)
        if (!operation_take(&r, &o))
            return -EINVAL;
    return 0;
}

void operations_apply(const uint8_t *data, uint32_t bytes, uint8_t *page)
{
    uint8_t before[STORE_PAGE_BYTES];
    struct reader r = { data, data + bytes };
    struct operation o = { .at = 0 };
    memcpy(before, page, sizeof before);
    while (r.at < r.end && operation_take(&r, &o))      /* the data was checked */
        if (o.function == FUNCTION_FILL)
            memset(page + o.at, *o.data, o.bytes);
        else
            memcpy(page + o.at, o.function == FUNCTION_COPY ? before + o.from       /* FN1 */
                                                            : o.data, o.bytes);
}

/* same counts how many bytes at the beginning are the same, of `most`. */
static uint32_t same(const uint8_t *a, const uint8_t *b, uint32_t most)
{
    uint32_t n = 0;
    while (n + 8 <= most && load64(a + n) == load64(b + n))
        n += 8;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

/* operations_differ tells whether the operations make another page of `before` than `now`. */
static bool operations_differ(const uint8_t *data, uint32_t bytes, const uint8_t *before,
                              const uint8_t *now)
{
    uint8_t made[STORE_PAGE_BYTES];
    if (operations_check(data, bytes))
        return true;
    memcpy(made, before, sizeof made);
    operations_apply(data, bytes, made);
    return same(made, now, STORE_PAGE_BYTES) < STORE_PAGE_BYTES;
}

/* ---- what has happened to a page */

/* LEAST: fewer bytes are stored, for another function takes three, and ends what is stored. */
#define LEAST         8u
#define STORE_HEAD    2u
#define NEAR          128u              /* so far a copy is looked for in both directions, ... */
#define LOOK_FIRST    8u                /* ... when so much is to be stored, ... */
#define LOOK_EVERY    32u               /* ... and again, ... */
#define LOOKS_MOST    32u               /* ... of a page */

/* A finder looks for operations; what follows an insertion comes from `left` in `before`. */
struct finder {
    const uint8_t *before, *now;
    uint8_t *to;
    uint32_t used, room, looks;
    uint32_t left;                      /* what is before this was the same, or copied */
    uint32_t end;                       /* of the operation put last */
};

static void number_put(struct finder *f, uint32_t number)
{
    f->to[f->used++] = (uint8_t)(number < 0x80 ? number : number | 0x80);
    if (number >= 0x80)
        f->to[f->used++] = (uint8_t)(number >> 7);
}

/* operation_put puts an operation where `f` has room for the longest head. False: there is none. */
static bool operation_put(struct finder *f, const struct operation *o)
{
    uint32_t takes = data_bytes(o);
    if (f->used + 6 + takes > f->room)
        return false;
    number_put(f, (o->at - f->end) << 2 | o->function);
    number_put(f, o->bytes);
    if (o->function == FUNCTION_COPY)
        number_put(f, o->from > o->at ? (o->from - o->at) << 1 | 1 : (o->at - o->from) << 1);
    memcpy(f->to + f->used, o->data, takes);
    f->used += takes;
    f->end = o->at + o->bytes;
    return true;
}

static bool stored(struct finder *f, uint32_t from, uint32_t to)
{
    struct operation o = { .function = FUNCTION_STORE, .at = from, .bytes = to - from,
                           .data = f->now + from };
    return from == to || operation_put(f, &o);
}

/* copied counts the bytes from `at` on that stood at `from` in the version before. */
static uint32_t copied(const struct finder *f, uint32_t at, uint32_t from)
{
    uint32_t most = STORE_PAGE_BYTES - MAX(at, from);
    return most < LEAST || load64(f->now + at) != load64(f->before + from)
               ? 0
               : same(f->before + from, f->now + at, most);
}

/* look does what `copied` does for places near `at`, and sets *from. 0: none has enough to copy. */
static uint32_t look(struct finder *f, uint32_t at, uint32_t *from)
{
    uint32_t end = MIN(at + NEAR, STORE_PAGE_BYTES - LEAST), n;
    uint64_t wanted = at < STORE_PAGE_BYTES - LEAST ? load64(f->now + at) : 0;
    f->looks++;
    for (uint32_t place = at > NEAR ? at - NEAR : 0; place < end; place++)
        if (load64(f->before + place) == wanted && (n = copied(f, at, place)) >= LEAST) {
            *from = place;
            return n;
        }
    return 0;
}

static uint32_t filled(const struct finder *f, uint32_t at)
{
    if (at + LEAST > STORE_PAGE_BYTES || f->now[at] != f->now[at + 1])
        return 1;
    return 1 + same(f->now + at, f->now + at + 1, STORE_PAGE_BYTES - at - 1);
}

/* function_find finds one function for what is at `at`, where [stores, at) is to be stored.
 * Returns how many bytes it makes, 0: none fits, or there is no room. */
static uint32_t function_find(struct finder *f, uint32_t stores, uint32_t at)
{
    struct operation o = { .function = FUNCTION_FILL, .at = at, .bytes = filled(f, at),
                           .from = f->left, .data = f->now + at };
    if (o.bytes < LEAST) {
        o.function = FUNCTION_COPY;
        o.bytes = copied(f, at, f->left);
        if (o.bytes < LEAST && (at - stores) % LOOK_EVERY == LOOK_FIRST && f->looks < LOOKS_MOST)
            o.bytes = look(f, at, &o.from);
    }
    if (o.bytes < LEAST || !stored(f, stores, at) || !operation_put(f, &o))
        return 0;
    f->left = o.function == FUNCTION_COPY ? o.from + o.bytes : at + o.bytes;
    return o.bytes;
}

/* run_find returns where the operations end that it found for what differs in [at, end); 0: they
 * take more than there is room for. */
static uint32_t run_find(struct finder *f, uint32_t at, uint32_t end)
{
    uint32_t stores = at, n;            /* [stores, at) is to be stored */
    while (at < end) {
        n = same(f->before + at, f->now + at, end - at);
        if (n && (at == stores || n > STORE_HEAD || at + n == end)) {
            if (!stored(f, stores, at))
                return 0;
            stores = at + n;
            f->left = at + n;
        } else if (!n) {
            n = function_find(f, stores, at);
            stores = n ? at + n : stores;
            n += !n;
        }
        at += n;
        if (f->used + at - stores > f->room)
            return 0;
    }
    return stored(f, stores, at) ? at : 0;
}

/* operations_find looks for operations that make `now` of `before`; the two differ in the runs.
 * False: there are none, or they take more than there is room for. */
static bool operations_find(struct finder *f, const uint8_t *runs, uint32_t bytes)
{
    uint32_t reached = 0;               /* a copy may lead into the next run */
    while (bytes) {
        uint32_t offset = runs[0] | runs[1] << 8, length = runs[2] | runs[3] << 8;
        if (offset > reached)
            f->left = offset;
        if (reached < offset + length)
            reached = run_find(f, MAX(reached, offset), offset + length);
        if (!reached)
            return false;
        runs += 4 + length;
        bytes -= 4 + length;
    }
    return true;
}

int store_txn_operate(struct store_group *group, const void *before)
{
    uint8_t now[STORE_PAGE_BYTES], made[STORE_PAGE_BYTES];
    struct record_disk *record = record_last(group);
    int error = txn_state(group);
    if (error || !record || le16_get(record->type) != RECORD_PAGE_DIFF ||
        le16_get(record->flags))
        return error;
    uint32_t bytes = le32_get(record->data_bytes);
    struct finder f = { .before = before, .now = now, .to = made,
                        .room = MIN(bytes - bytes / 8, (uint32_t)sizeof made) };
    memcpy(now, before, sizeof now);
    record_page(record, now);
    if (!operations_find(&f, (const uint8_t *)(record + 1), bytes) ||
        operations_differ(made, f.used, before, now))                           /* FN2 */
        return 0;                       /* the record stays what it is */
    record_shrink(group, made, f.used);
    record->type = le16_of(RECORD_PAGE_OP);
    return 1;
}
