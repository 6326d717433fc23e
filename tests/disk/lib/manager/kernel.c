/*
 * kernel.c - see kernel.h.
 */
#include "manager/kernel.h"

#include <sys/resource.h>

#include "user/store/copy.h"

struct kernel_page page[PAGES];
struct view view[VIEWS];
int encoder;
uint64_t settled_told;
bool unwanted[PAGES];
uint64_t home_calls, home_most, home_chunk, home_crossed, home_gated;
uint64_t page_hit = ~0ull;
int mend_error;
char log_line[256];
long snapshot_waits;
_Thread_local int niceness;

static uint64_t notified;               /* bits for the commit port */

/* In place of the C library's. */
int setpriority(__priority_which_t which, id_t who, int nice)
{
    (void)which;
    (void)who;
    niceness = nice;
    return 0;
}

/* These stores are no copies (user/store/copy.h). */
bool copy_is(void) { return false; }
bool copy_run(const struct disk_io *io, const struct store_open_options *how, unsigned grace_ms)
{
    (void)io;
    (void)how;
    return grace_ms && false;
}
void copy_serves(void) {}
unsigned copy_grace_ms(void) { return 0; }
void copy_sealed(const struct store_group *group) { (void)group; }
void copy_sends(void) {}
void copy_flushed(store_lsn_t end) { (void)end; }
bool copy_has(store_lsn_t end) { return end > 0; }
void copy_confirms(void) {}
void copy_fenced(void) {}
_Noreturn void copy_stop(int error) { _Exit(error); }

long kd_system5(long number, long a, long b, long c, long d, long e)
{
    (void)e;
    return kd_system(number, a, b, c, d);
}

static uint64_t copies_of(const struct view *v)
{
    uint64_t n = v->count - v->spilled;
    helpers_each(h, v) n += view[h].count;
    return n;
}

long commit_take(struct kd_message *m)
{
    for (unsigned i = 0; i < VIEWS; i++) {
        if (!view[i].queued) continue;
        view[i].queued = false;
        struct view *v = &view[i];
        *m = (struct kd_message){.kind = (uint32_t)KD_MSG_COMMIT, .token = v->token,
                                 .process = CLIENT,
                                 .word = {i, copies_of(v), v->spilled, v->lazy, v->helpers},
                                 .buffer = m->buffer, .data_bytes = v->batch_bytes};
        if (v->asks) m->kind = v->asks;
        if (v->asks == (uint32_t)KD_MSG_SPILL) m->word[2] = v->asks_for;
        if (v->asks == (uint32_t)KD_MSG_UNSPILL) {
            m->word[1] = cookie_of(1, 0);
            m->word[2] = v->asks_for;
        }
        if (view[i].batch) memcpy(m->buffer, view[i].batch, view[i].batch_bytes);
        return 0;
    }
    if (!notified) return -EAGAIN;
    *m = (struct kd_message){.kind = (uint32_t)KD_MSG_NOTIFY, .word = {notified},
                             .buffer = m->buffer};
    notified = 0;
    return 0;
}

/* Appends one page to what the manager reads; where that ends. */
static uint8_t *diff_page(const struct view *v, uint64_t p, bool full, uint8_t *to)
{
    static uint64_t now[512];
    memcpy(now, page[p].word, sizeof(now));
    now[WORD_A] = now[WORD_B] = v->value;
    uint16_t unit = full ? 4096 : encoder == PS_ENCODE_RANGES ? 16 : 8;
    for (int word = WORD_A;; word = WORD_B) {
        struct kd_run *run = (void *)to;
        *run = (struct kd_run){ .cookie = cookie_of(server.containers[1]->id, 0),
                                .page = p,
                                .base_csn = page[p].csn,
                                .offset = (uint16_t)(word * 8 & -unit),
                                .bytes = unit,
                                .flags = full             ? KD_RUN_LAST | KD_RUN_FULL
                                         : word == WORD_B ? KD_RUN_LAST
                                                          : 0 };
        memcpy(run + 1, (uint8_t *)now + run->offset, run->bytes);
        to += sizeof(*run) + run->bytes;
        if (full || word == WORD_B) return to;
    }
}

long kernel_diff(struct kd_diff *d)
{
    struct view *v = &view[d->view];
    bool spill = d->flags & KD_DIFF_SPILL;
    uint8_t *to = d->buffer, *end = to + d->buffer_bytes;
    d->pages = 0;
    uint64_t i = spill ? v->spilled + v->told : d->cursor ? d->cursor : v->spilled;
    for (; i < v->count && end - to >= (long)(4096 + sizeof(struct kd_run)); i++, d->pages++) {
        bool full = spill || page[v->first + i].csn < d->full_below || encoder == PS_ENCODE_FULL ||
                    (encoder == PS_ENCODE_ADAPTIVE && (v->value + i) % 2);
        to = diff_page(v, v->first + i, full, to);
    }
    v->told += spill ? d->pages : 0;
    d->cursor = i == v->count ? ~0ull : i;
    d->buffer_bytes = (uint64_t)(to - (uint8_t *)d->buffer);
    return 0;
}

static void answer(uint64_t i, int error)
{
    view[i].answer = error;
    view[i].answered = true;
    view_answered();
}

/* The first n that were told are in the log from now on. */
static long spilled(uint64_t i, uint64_t n, bool done)
{
    view[i].spilled += n;
    view[i].told = 0;
    if (done) answer(i, 0);
    return (long)n;
}

/* The last of them is back. */
static long unspilled(uint64_t i, const uint64_t *bytes)
{
    struct view *v = &view[i];
    bool good = v->asks_for == v->first + v->spilled - 1 && bytes[8] == v->value;
    v->spilled -= good;
    answer(i, good ? 0 : -EBADMSG);
    return 0;
}

static void publish_pages(const struct view *v, uint64_t csn)
{
    for (uint64_t i = v->first; i < v->first + v->count; i++) {
        page[i].word[WORD_A] = page[i].word[WORD_B] = v->value;
        page[i].csn = csn;
    }
}

long kernel_publish(const struct kd_publish *p, long count)
{
    uint64_t last = 0;
    for (long k = 0; k < count; k++) {
        const struct view *v = &view[p[k].view];
        if (p[k].csn <= last || p[k].token != v->token) return -EINVAL;
        if (v->answered) return -ESRCH;
        last = p[k].csn;
        publish_pages(v, p[k].csn);
        helpers_each(h, v) publish_pages(&view[h], p[k].csn);
        answer(p[k].view, 0);
    }
    return 0;
}

void page_damage(uint64_t p)
{
    page[p].word[0] ^= 1;
    page_hit = p;
}

static long audit_pages(uint64_t first, uint64_t count, struct kd_damage *d)
{
    bool hit = page_hit - first < count;
    *d = (struct kd_damage){.page = hit ? page_hit : first + count, .regions = hit};
    return hit ? -EUCLEAN : 0;
}

/* A page whose copy was told and is not published is left alone (CW4). */
static long page_mended(uint64_t p, const void *bytes, uint64_t csn)
{
    if (csn != page[p].csn && csn != KD_CSN_ANY) return -ESTALE;
    for (const struct view *v = view; v < view + VIEWS; v++)
        if (v->token && !v->queued && !v->answered && p - v->first < v->count) return -EBUSY;
    if (mend_error) return mend_error;
    memcpy(page[p].word, bytes, sizeof(page[p].word));
    page_hit = ~0ull;
    return 0;
}

long kernel_homes(struct kd_page_io *io, long count)
{
    home_calls++;
    home_gated += server.gate_taken;
    home_most = (uint64_t)count > home_most ? (uint64_t)count : home_most;
    for (long i = 1; home_chunk && i < count; i++)
        home_crossed += io[i].page / home_chunk != io[0].page / home_chunk;
    for (long i = 0; i < count; i++) {
        if (io[i].csn && io[i].csn <= page[io[i].page].csn) {
            io[i].status = -EBUSY;
            continue;
        }
        if (io[i].page == page_hit) {
            io[i].status = -EUCLEAN;
            continue;
        }
        io[i].csn = page[io[i].page].csn;
        io[i].crc = crc32c(0, page[io[i].page].word, 4096);
        io[i].status = home_write(io[i].offset_bytes, page[io[i].page].word);
    }
    return 0;
}

long kernel_plain(long number, long a, long b, long c, long d)
{
    static int handles = 10;
    switch (number) {
    case KD_PORT_CREATE: return handles++;
    case KD_PORT_VOTES: return snapshot_waits;
    case KD_PORT_NOTIFY: notified |= (uint64_t)b; return 0;
    case KD_OBJECT_CREATE: return OBJECT;
    case KD_SPACE_RIGHTS: return KD_RIGHT_READ;
    case KD_OBJECT_INFO: memset((void *)d, 0, (size_t)c); return 0;
    case KD_OBJECT_ADVISE:
        for (long i = b; i < b + c && i < PAGES; i++) unwanted[i] |= d == KD_ADVISE_FREED;
        return 0;
    case KD_OBJECT_AUDIT: return audit_pages((uint64_t)b, (uint64_t)c, (void *)d);
    case KD_OBJECT_MEND: return page_mended((uint64_t)b, (void *)c, (uint64_t)d);
    case KD_OBJECT_READ:
        memcpy((void *)c, page[b].word, 4096);
        *(uint64_t *)d = page[b].csn;
        return 0;
    case KD_TXN_DIFF: return kernel_diff((void *)a);
    case KD_TXN_UNSPILL: return unspilled((uint64_t)a, (const uint64_t *)c);
    case KD_TXN_SPILLED: return spilled((uint64_t)a, (uint64_t)c, d);
    case KD_TXN_PUBLISH: settled_told = (uint64_t)c; return kernel_publish((void *)a, b);
    case KD_TXN_REFUSE: answer((uint64_t)a, -(int)c); return 0;
    case KD_KERNEL_LOG: snprintf(log_line, sizeof(log_line), "%.*s", (int)b, (char *)a); return 0;
    default: return 0;
    }
}
