/* message.c - messages between a client and its home, put into frames and taken out (message.h). */
#include "message.h"

#include <string.h>

#include "katydid/abi.h"

static void segments_put(struct fields_out *o, const struct site_message *m)
{
    put_u32(o, m->count);
    for (uint32_t i = 0; i < m->count; i++) {
        put_u64(o, m->segment[i].container);
        put_u64(o, m->segment[i].base);
        put_u64(o, m->segment[i].pages);
    }
}

static void data_put(struct fields_out *o, const void *data, size_t bytes)
{
    put_u32(o, (uint32_t)bytes);
    put_bytes(o, data, bytes);
}

struct fields_out message_commit(void *frame, size_t room, uint32_t flags, const void *batch,
                                 size_t bytes)
{
    struct fields_out o = frame_begin(frame, room);
    put_u32(&o, flags);
    data_put(&o, batch, bytes);
    return o;
}

void run_put(struct fields_out *o, const struct site_run *r)
{
    put_u64(o, r->page);
    put_u64(o, r->serial);
    put_u16(o, r->offset);
    put_u16(o, r->bytes);
    put_bytes(o, r->data, r->bytes);
}

static void page_put(struct fields_out *o, uint64_t page, uint64_t serial, uint8_t right)
{
    put_u64(o, page);
    put_u64(o, serial);
    put_u8(o, right);
}

struct fields_out message_grant(void *frame, size_t room, const struct site_message *get,
                                uint64_t serial)
{
    struct fields_out o = frame_begin(frame, room);
    page_put(&o, get->page, serial, get->right);
    return o;
}

size_t message_put(const struct site_message *m, void *frame, size_t room)
{
    struct fields_out o = frame_begin(frame, room);
    if (m->kind == SITE_COMMIT) {
        o = message_commit(frame, room, m->request, m->data, m->bytes);
        put_bytes(&o, m->runs, m->runs_bytes);
        return frame_end(&o, m->kind, m->number, m->answer_to);
    }
    switch (m->kind) {
    case SITE_ASK:
    case SITE_TOLD:
        put_u32(&o, m->kind == SITE_ASK ? m->request : (uint32_t)m->error);
        for (unsigned i = 0; i < SITE_WORDS; i++) put_u64(&o, m->word[i]);
        if (m->kind == SITE_TOLD) segments_put(&o, m);
        data_put(&o, m->data, m->bytes);
        break;
    case SITE_GET:
        put_u64(&o, m->page);
        put_u8(&o, m->right);
        put_u8(&o, m->wants);
        put_u64(&o, m->serial);
        put_u8(&o, (uint8_t)m->count);
        break;
    case SITE_CANCEL: put_u64(&o, m->page); break;
    case SITE_GRANT:
        page_put(&o, m->page, m->serial, m->right);
        put_bytes(&o, m->data, m->bytes);
        break;
    case SITE_CALL:
    case SITE_GONE:
    case SITE_PROBE: page_put(&o, m->page, m->serial, m->right); break;
    case SITE_DENIED: put_u64(&o, m->page); /* fall through */
    case SITE_VOTED:
    case SITE_APPLIED:
    case SITE_REFUSED: put_u32(&o, (uint32_t)m->error); break;
    case SITE_DECIDE:
        put_u64(&o, m->word[0]);
        put_u64(&o, m->word[1]);
        put_u8(&o, m->right);
        break;
    case SITE_SNAP: put_u8(&o, m->right); break;
    case SITE_STOOD:
    case SITE_SNAPPED: put_u32(&o, (uint32_t)m->error); break;
    case SITE_GET_OLD: put_u64(&o, m->page); /* fall through */
    case SITE_SNAP_END:
    case SITE_STILL:
    case SITE_DONE: put_u64(&o, m->serial); break;
    case SITE_OLD:
        put_u64(&o, m->page);
        put_u32(&o, (uint32_t)m->error);
        if (!m->error) put_bytes(&o, m->data, SITE_PAGE_BYTES);
        break;
    case SITE_PROBED:
        put_u64(&o, m->page);
        put_u32(&o, m->count);
        for (uint32_t i = 0; i < m->count; i++) {
            put_u64(&o, m->waits[i].number);
            put_u64(&o, m->waits[i].ticket);
        }
        break;
    default: return 0;
    }
    return frame_end(&o, m->kind, m->number, m->answer_to);
}

static bool page_ok(uint64_t page)
{
    return page >= KD_STORE_BASE && page < KD_STORE_END && page % SITE_PAGE_BYTES == 0;
}

static bool errno_ok(int32_t error) { return error > 0 && error < 4096; }

static bool page_take(struct site_message *m, struct fields_in *i)
{
    m->page = take_u64(i);
    m->serial = take_u64(i);
    m->right = take_u8(i);
    return page_ok(m->page) && m->right <= SITE_EXCLUSIVE;
}

static bool segments_take(struct site_message *m, struct fields_in *i)
{
    m->count = take_u32(i);
    if (m->count > SITE_SEGMENTS_MAX) return false;
    for (uint32_t n = 0; n < m->count; n++) {
        struct site_segment *s = &m->segment[n];
        s->container = take_u64(i);
        s->base = take_u64(i);
        s->pages = take_u64(i);
        if (!page_ok(s->base) || s->pages == 0 ||
            s->pages > (KD_STORE_END - s->base) / SITE_PAGE_BYTES)
            return false;
    }
    return true;
}

static bool data_take(struct site_message *m, struct fields_in *i)
{
    m->bytes = take_u32(i);
    m->data = take_bytes(i, m->bytes);
    return !i->bad;
}

static bool words_take(struct site_message *m, struct fields_in *i)
{
    if (m->kind == SITE_ASK)
        m->request = take_u32(i);
    else
        m->error = (int32_t)take_u32(i);
    for (unsigned n = 0; n < SITE_WORDS; n++) m->word[n] = take_u64(i);
    if (m->kind == SITE_TOLD && (m->error > 0 || m->error <= -4096 || !segments_take(m, i)))
        return false;
    return data_take(m, i);
}

static bool numbers_take(struct site_message *m, struct fields_in *i)
{
    m->page = take_u64(i);
    m->count = take_u32(i);
    if (m->count > SITE_PROBED_MAX || !page_ok(m->page)) return false;
    for (uint32_t n = 0; n < m->count; n++) {
        m->waits[n].number = take_u64(i);
        m->waits[n].ticket = take_u64(i);
    }
    return true;
}

bool run_next(struct fields_in *i, struct site_run *r)
{
    if (i->at == i->end || i->bad) return false;
    const uint8_t *head = take_bytes(i, SITE_RUN_HEAD); /* looked at once: each run is, thrice */
    if (!head) return false;
    memcpy(&r->page, head, 8);
    memcpy(&r->serial, head + 8, 8);
    memcpy(&r->offset, head + 16, 2);
    memcpy(&r->bytes, head + 18, 2);
    r->data = take_bytes(i, r->bytes);
    return !i->bad;
}

struct fields_in message_runs(const struct site_message *m)
{
    return (struct fields_in){.at = m->runs,
                              .end = m->runs ? (const uint8_t *)m->runs + m->runs_bytes : NULL};
}

static bool commit_take(struct site_message *m, struct fields_in *i)
{
    struct site_run r;
    m->request = take_u32(i);
    if (!data_take(m, i)) return false;
    m->runs = i->at;
    m->runs_bytes = (size_t)(i->end - i->at);
    while (run_next(i, &r))
        if (!page_ok(r.page) || r.bytes == 0 || r.offset + r.bytes > (int)SITE_PAGE_BYTES)
            return false;
    return true;
}

/* More than one are to be read, no more. */
static bool pages_ok(const struct site_message *m)
{
    return m->count >= 1 && m->count <= SITE_GRANT_MAX &&
           m->count <= (KD_STORE_END - m->page) / SITE_PAGE_BYTES &&
           (m->count == 1 || m->right == SITE_SHARED);
}

static bool contents_take(struct site_message *m, struct fields_in *i)
{
    if (!page_take(m, i) || m->right == SITE_NO) return false;
    m->bytes = (size_t)(i->end - i->at);
    m->count = m->bytes ? (uint32_t)(m->bytes / SITE_PAGE_BYTES) : 1;
    m->data = m->bytes ? take_bytes(i, m->bytes) : NULL;
    return m->bytes % SITE_PAGE_BYTES == 0 && pages_ok(m);
}

static bool get_take(struct site_message *m, struct fields_in *i)
{
    m->page = take_u64(i);
    m->right = take_u8(i);
    m->wants = take_u8(i);
    m->serial = take_u64(i);
    m->count = take_u8(i);
    return page_ok(m->page) && m->wants <= 1 && pages_ok(m) && (m->wants || m->count == 1) &&
           (m->right == SITE_SHARED || m->right == SITE_EXCLUSIVE);
}

static bool error_take(struct site_message *m, struct fields_in *i)
{
    m->page = m->kind == SITE_DENIED ? take_u64(i) : 0;
    m->error = (int32_t)take_u32(i);
    return errno_ok(m->error) && (m->kind == SITE_REFUSED || page_ok(m->page));
}

/* SNAP and what follows of it. */
static bool snapshot_take(struct site_message *m, struct fields_in *i)
{
    bool page = m->kind == SITE_GET_OLD || m->kind == SITE_OLD;
    if (page) m->page = take_u64(i);
    bool names = m->kind == SITE_GET_OLD || m->kind == SITE_SNAP_END || m->kind == SITE_STILL;
    if (m->kind == SITE_SNAP) m->right = take_u8(i);
    else if (names) m->serial = take_u64(i);
    else m->error = (int32_t)take_u32(i);
    if (m->kind == SITE_OLD && !m->error) {
        m->bytes = SITE_PAGE_BYTES;
        m->data = take_bytes(i, m->bytes);
    }
    return (!page || page_ok(m->page)) && (!m->error || errno_ok(m->error)) && m->right <= 1;
}

static bool fields_take(struct site_message *m, struct fields_in *i)
{
    switch (m->kind) {
    case SITE_ASK:
    case SITE_TOLD: return words_take(m, i);
    case SITE_GET: return get_take(m, i);
    case SITE_CANCEL: m->page = take_u64(i); return page_ok(m->page);
    case SITE_GRANT: return contents_take(m, i);
    case SITE_CALL:
    case SITE_GONE:
    case SITE_PROBE: return page_take(m, i) && m->right != SITE_EXCLUSIVE;
    case SITE_DENIED:
    case SITE_REFUSED: return error_take(m, i);
    case SITE_VOTED:
    case SITE_APPLIED: m->error = (int32_t)take_u32(i); return m->error == 0 || errno_ok(m->error);
    case SITE_DECIDE:
        m->word[0] = take_u64(i);
        m->word[1] = take_u64(i);
        m->right = take_u8(i);
        return m->right <= 1;
    case SITE_COMMIT: return commit_take(m, i);
    case SITE_DONE: m->serial = take_u64(i); return true;
    case SITE_PROBED: return numbers_take(m, i);
    case SITE_SNAP:
    case SITE_SNAPPED:
    case SITE_SNAP_END:
    case SITE_STILL:
    case SITE_STOOD:
    case SITE_GET_OLD:
    case SITE_OLD: return snapshot_take(m, i);
    default: return false;
    }
}

bool message_take(struct site_message *m, const struct frame *f, const void *frame)
{
    struct fields_in i = frame_fields(f, frame);
    SITE_SHORT(m, f->kind);
    m->number = f->number;
    m->answer_to = f->answer_to;
    return fields_take(m, &i) && take_end(&i);
}
