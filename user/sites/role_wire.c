/* role_wire.c - messages of role.h as frames (role_wire.h). */
#include "role_wire.h"

#include <string.h>

static void epochs_put(struct fields_out *o, const struct store_epochs *e)
{
    put_u32(o, e->count);
    for (uint32_t i = 0; i < e->count && i < STORE_EPOCHS; i++) {
        put_u32(o, e->of[i].epoch);
        put_u64(o, e->of[i].first_lsn);
    }
}

static void epochs_take(struct fields_in *i, struct store_epochs *e)
{
    e->count = take_u32(i);
    if (e->count > STORE_EPOCHS) i->bad = true;
    for (uint32_t k = 0; k < e->count && !i->bad; k++) {
        e->of[k].epoch = take_u32(i);
        e->of[k].first_lsn = take_u64(i);
    }
}

static void record_put(struct fields_out *o, const struct role_record *r)
{
    put_u64(o, r->term);
    put_u32(o, r->home);
    put_u32(o, r->mate);
}

static struct role_record record_take(struct fields_in *i)
{
    struct role_record r = { .term = take_u64(i) };
    r.home = take_u32(i);
    r.mate = take_u32(i);
    return r;
}

static void mark_put(struct fields_out *o, const struct store_mark *m)
{
    put_u64(o, m->redo_lsn);
    put_u64(o, m->pages_lsn);
    put_u64(o, m->scan_lsn);
    put_u64(o, m->keep_lsn);
    put_u32(o, m->pages_crc);
    put_u32(o, m->scan_crc);
}

static void mark_take(struct fields_in *i, struct store_mark *m)
{
    m->redo_lsn = take_u64(i);
    m->pages_lsn = take_u64(i);
    m->scan_lsn = take_u64(i);
    m->keep_lsn = take_u64(i);
    m->pages_crc = take_u32(i);
    m->scan_crc = take_u32(i);
}

size_t role_put(const struct role_message *m, void *frame, size_t room)
{
    struct fields_out o = frame_begin(frame, room);
    put_u64(&o, m->term);
    switch (m->kind) {
    case ROLE_READ_RECORD:
    case ROLE_WANT_RECORD:
    case ROLE_VOUCHED:
    case ROLE_RECORD:
    case ROLE_GIVEN:
        put_u32(&o, m->site);
        record_put(&o, &m->record);
        break;
    case ROLE_JOIN:
        put_u64(&o, m->lsn);
        put_bytes(&o, m->uuid, sizeof(m->uuid));
        put_u64(&o, m->disk_bytes);
        put_u64(&o, m->log_bytes);
        epochs_put(&o, &m->epochs);
        break;
    case ROLE_CATCH_UP:
        put_u32(&o, (uint32_t)m->error);
        put_u64(&o, m->lsn);
        put_u64(&o, m->sure);
        put_u32(&o, m->crc);
        mark_put(&o, &m->mark);
        epochs_put(&o, &m->epochs);
        break;
    case ROLE_HAVE:
    case ROLE_HEARD:
    case ROLE_BEAT:
        put_u64(&o, m->lsn);
        put_u64(&o, m->stamp);
        break;
    case ROLE_GROUP:
        put_u64(&o, m->stamp);
        mark_put(&o, &m->mark);
        put_u32(&o, (uint32_t)m->used);
        put_bytes(&o, m->group, m->used);
        break;
    default: break;
    }
    return frame_end(&o, (uint16_t)(ROLE_FRAME + m->kind), m->number, 0);
}

/* A group is of whole blocks; zeros at its end have not travelled. */
static void group_take(struct fields_in *i, struct role_message *m, uint8_t *memory)
{
    m->used = take_u32(i);
    const uint8_t *used = take_bytes(i, m->used);
    m->bytes = (m->used + (size_t)STORE_PAGE_BYTES - 1) / STORE_PAGE_BYTES * STORE_PAGE_BYTES;
    m->group = m->used == m->bytes ? used : memory;
    if (!used || !m->group || m->bytes > ROLE_GROUP_MOST) {
        i->bad = true;
    } else if (m->group == memory) {
        memcpy(memory, used, m->used);
        memset(memory + m->used, 0, m->bytes - m->used);
    }
}

bool role_get(struct role_message *m, const struct frame *f, const void *frame, uint8_t *memory)
{
    struct fields_in i = frame_fields(f, frame);
    const uint8_t *uuid;
    if (f->kind < ROLE_FRAME || f->kind >= ROLE_FRAME + ROLE_KINDS) return false;
    *m = (struct role_message){ .kind = f->kind - ROLE_FRAME, .number = f->number };
    m->term = take_u64(&i);
    switch (m->kind) {
    case ROLE_READ_RECORD:
    case ROLE_WANT_RECORD:
    case ROLE_VOUCHED:
    case ROLE_RECORD:
    case ROLE_GIVEN:
        m->site = take_u32(&i);
        m->record = record_take(&i);
        break;
    case ROLE_JOIN:
        m->lsn = take_u64(&i);
        uuid = take_bytes(&i, sizeof(m->uuid));
        if (uuid) memcpy(m->uuid, uuid, sizeof(m->uuid));
        m->disk_bytes = take_u64(&i);
        m->log_bytes = take_u64(&i);
        epochs_take(&i, &m->epochs);
        break;
    case ROLE_CATCH_UP:
        m->error = (int)take_u32(&i);
        m->lsn = take_u64(&i);
        m->sure = take_u64(&i);
        m->crc = take_u32(&i);
        mark_take(&i, &m->mark);
        epochs_take(&i, &m->epochs);
        break;
    case ROLE_HAVE:
    case ROLE_HEARD:
    case ROLE_BEAT:
        m->lsn = take_u64(&i);
        m->stamp = take_u64(&i);
        break;
    case ROLE_GROUP:
        m->stamp = take_u64(&i);
        mark_take(&i, &m->mark);
        group_take(&i, m, memory);
        break;
    default: break;
    }
    return take_end(&i) && (m->kind != ROLE_GROUP || (m->group && m->bytes)) && m->error <= 0;
}
