/*
 * batch.c - the operations that a client sends with its commit, checked before any is believed.
 *
 * The bytes are the kernel's copy, so they do not change while they are read; they may say
 * anything. Two passes: the first checks sizes and counts, the second contents.
 */
#include "path.h"

#include <stdlib.h>
#include <string.h>

#include "index_format.h"

/* op_at returns the operation at `offset`, or NULL if no whole, well-formed one lies there. */
static const struct wire_op *op_at(const uint8_t *bytes, uint64_t count, uint64_t offset)
{
    const struct wire_op *op = (const void *)(bytes + offset);
    if (count - offset < sizeof(*op)) return NULL;
    if (op->op_bytes < sizeof(*op) || op->op_bytes % 8 || op->op_bytes > count - offset)
        return NULL;
    return op;
}

/* count_ops adds to *ops how many there are. */
static int count_ops(const uint8_t *bytes, uint64_t count, unsigned *ops)
{
    for (uint64_t offset = 0; offset < count; ++*ops) {
        const struct wire_op *op = op_at(bytes, count, offset);
        if (!op) return -EINVAL;
        offset += op->op_bytes;
    }
    return 0;
}

static const char *op_name(const struct wire_op *op)
{
    size_t room = op->op_bytes - sizeof(*op), length = 0;
    size_t most = room < STORE_NAME_BYTES ? room : STORE_NAME_BYTES;
    while (length < most && op->name[length]) length++; /* they are short */
    return length > 0 && length < most ? op->name : NULL;
}

static int parse_name(struct batch *b, const struct wire_op *op, const struct container *c)
{
    struct store_op *to = &b->ops[b->op_count];
    uint64_t page;
    *to = (struct store_op){.object = op->container, .name = op_name(op)};
    if (!to->name || directory_name_reserved(to->name) || *to->name == WIRE_NOTES) return -EINVAL;
    if (op->kind == WIRE_NAME_UNSET) {
        to->type = STORE_OP_NAME_UNSET;
    } else {
        if (!container_page(c, op->address, &page)) return -EINVAL;
        to->type = STORE_OP_NAME_SET;
        to->address = op->address;
        to->bytes = op->value;
    }
    b->op_count++;
    return 0;
}

/* BATCH_PAGES_MAX: each page is looked at under the lock: nobody is to stop others for long. */
#define BATCH_PAGES_MAX (1ull << 22)

/* parse_pages reads the pages that a FREE or CLAIM names, all in one container. */
static int parse_pages(struct batch *b, const struct wire_op *op, const struct container *c,
                       uint64_t *first)
{
    uint64_t last, pages = op->value;
    if (op->address % PAGE_BYTES || pages == 0 || pages > (KD_STORE_END / PAGE_BYTES))
        return -EINVAL;
    if (!container_page(c, op->address, first)
        || !container_page(c, op->address + (pages - 1) * PAGE_BYTES, &last)
        || last - *first != pages - 1)
        return -EINVAL;
    b->pages += pages;
    return b->pages > BATCH_PAGES_MAX ? -E2BIG : 0;
}

static int parse_free(struct batch *b, const struct wire_op *op, const struct container *c)
{
    uint64_t first;
    int r = parse_pages(b, op, c, &first);
    if (r < 0) return r;
    b->ops[b->op_count++] = (struct store_op){
        .type = STORE_OP_PAGE_FREE, .object = op->container, .page = first, .count = op->value};
    b->freed[b->freed_count++] = (struct free_range){op->container, first, op->value};
    return 0;
}

/* parse_claim takes leased pages only: not another client's, nor those still in memory. */
static int parse_claim(struct batch *b, uint64_t process, const struct wire_op *op,
                       const struct container *c)
{
    uint64_t first;
    int r = parse_pages(b, op, c, &first);
    if (r < 0) return r;
    if (!space_leased(c, process, first, op->value)) return -EACCES;
    b->ops[b->op_count++] = (struct store_op){
        .type = STORE_OP_PAGE_CLAIM, .object = op->container, .page = first, .count = op->value};
    return 0;
}

static int parse_room(struct batch *b, const struct wire_op *op, const struct container *c)
{
    uint64_t page;
    if (!container_page(c, op->address, &page)) return -EINVAL;
    b->rooms[b->room_count].container = op->container;
    b->rooms[b->room_count].page = page;
    b->rooms[b->room_count++].bytes = op->value;
    return 0;
}

/* parse_layout takes one layout at most: the group has room for one. */
static int parse_layout(struct batch *b, const struct wire_op *op)
{
    const char *type = op_name(op);
    if (!type || op->value >> 32 == 0 || b->layout.type[0] || index_kind(type) >= 0)
        return -EINVAL;
    memcpy(b->layout.type, type, strlen(type));
    b->layout.version = (uint32_t)op->value;
    b->layout.bytes = (uint32_t)(op->value >> 32);
    b->ops[b->op_count++] = (struct store_op){
        .type = STORE_OP_LAYOUT, .object = op->container, .layout = &b->layout};
    return 0;
}

static int parse_note(struct batch *b, const struct wire_op *op)
{
    const char *name = op_name(op);
    if (!name || *name != WIRE_NOTES || b->note.name || b->vote) return -EINVAL;
    b->note = (struct store_op){.type = STORE_OP_NAME_SET, .object = op->container, .name = name,
                                .address = op->address, .bytes = op->value};
    return 0;
}

/* parse_change reads an index's change; a string's key has its NUL behind it, none within. */
static int parse_change(struct batch *b, uint64_t process, const struct wire_op *op,
                        struct container *c)
{
    uint64_t room = op->op_bytes - sizeof(*op), length = op->address;
    int r = container_allows_index(c, process);
    if (r < 0) return r;
    if (length >= room || !index_key_ok(c, op->name, length) || op->name[length])
        return -EINVAL;
    if (b->change_count == INDEX_OPS_MAX) return -E2BIG;
    b->changes[b->change_count++] = (struct index_op){ .container = c,
                                                       .set = op->kind == WIRE_INDEX_SET,
                                                       .length = (uint32_t)length,
                                                       .value = op->value,
                                                       .key = (const uint8_t *)op->name };
    return 0;
}

/* parse_outcome: a vote or decision comes first of all, of a transaction of several stores. */
static int parse_outcome(struct batch *b, const struct wire_op *op)
{
    size_t bytes = op->op_bytes - sizeof(*op), one = sizeof(struct wire_participant);
    if (b->op_count + b->change_count || b->vote || b->decision) return -EINVAL;
    if (op->kind == WIRE_VOTE) {
        b->vote = (const void *)op->name;
        return bytes == sizeof(*b->vote) ? 0 : -EINVAL;
    }
    b->decision = (const void *)op->name;
    b->participants = (unsigned)((bytes - sizeof(*b->decision)) / one);
    return bytes >= sizeof(*b->decision) && (bytes - sizeof(*b->decision)) % one == 0 &&
           b->participants <= WIRE_PARTICIPANTS_MAX ? 0 : -EINVAL;
}

static int parse_op(struct batch *b, uint64_t process, const struct wire_op *op)
{
    if (op->kind == WIRE_VOTE || op->kind == WIRE_DECISION) return parse_outcome(b, op);
    struct container *c = container_by_id(op->container);
    if (!c) return -ENOENT;
    if (op->kind == WIRE_INDEX_SET || op->kind == WIRE_INDEX_UNSET)
        return parse_change(b, process, op, c);
    int r = container_allows(c, process, KD_RIGHT_WRITE);
    if (r < 0) return r;
    switch (op->kind) {
    case WIRE_NAME_SET:
    case WIRE_NAME_UNSET: return parse_name(b, op, c);
    case WIRE_PAGE_FREE: return parse_free(b, op, c);
    case WIRE_PAGE_CLAIM: return parse_claim(b, process, op, c);
    case WIRE_ROOM: return parse_room(b, op, c);
    case WIRE_LAYOUT: return parse_layout(b, op);
    case WIRE_NOTE: return parse_note(b, op);
    default: return -EINVAL;
    }
}

static int parse_part(struct batch *b, uint64_t process, const uint8_t *bytes, uint64_t count)
{
    int r = 0;
    for (uint64_t offset = 0; r == 0 && offset < count;) {
        const struct wire_op *op = op_at(bytes, count, offset);
        r = parse_op(b, process, op);
        offset += op->op_bytes;
    }
    return r;
}

/* `parts`: who said so many of a batch's bytes: a client, then those that helped its commit. */
static struct { uint64_t process, bytes; } parts[KD_VIEW_MAX + 1];
static unsigned part_count;

static void part_add(uint64_t process, uint64_t bytes)
{
    parts[part_count].process = process;
    parts[part_count++].bytes = bytes;
}

bool batch_fetch(struct kd_message *m, uint64_t most)
{
    part_count = 0;
    part_add(m->process, m->data_bytes);
    for (unsigned h = 0; m->word[6] && h < KD_VIEW_MAX; h++) {
        struct kd_diff d = {.view = h, .token = m->token, .flags = KD_DIFF_BATCH,
                            .buffer = (uint8_t *)m->buffer + m->data_bytes,
                            .buffer_bytes = most - m->data_bytes};
        if (!(m->word[4 + h / 64] >> h % 64 & 1)) continue;
        int r = (int)kd_txn_diff(&d);
        if (r < 0) {
            kd_txn_refuse(m->word[0], m->token, -r);
            return false;
        }
        part_add(d.pages, d.buffer_bytes);
        m->data_bytes += d.buffer_bytes;
    }
    return true;
}

/* `few` is memory for few operations, as most batches have. By the committer. */
static _Alignas(16) uint8_t few[1024];
static bool few_taken;

static void *ops_memory(size_t bytes)
{
    bool fits = bytes <= sizeof few && !few_taken;
    few_taken |= fits;
    return fits ? few : malloc(bytes);
}

static int parse_all(struct batch *b, const uint8_t *bytes)
{
    unsigned ops = 0;
    uint64_t at = 0;
    int r = 0;
    for (unsigned i = 0; r == 0 && i < part_count; at += parts[i++].bytes)
        r = count_ops(bytes + at, parts[i].bytes, &ops);
    if (r < 0 || ops == 0) return r;
    b->memory = ops_memory(ops * (sizeof(*b->ops) + sizeof(*b->freed) + sizeof(*b->rooms) +
                                  sizeof(*b->changes)));
    if (!b->memory) return -ENOMEM;
    b->ops = b->memory;
    b->freed = (void *)(b->ops + ops);
    b->rooms = (void *)(b->freed + ops);
    b->changes = (void *)(b->rooms + ops);
    for (unsigned i = 0; r == 0 && i < part_count; bytes += parts[i++].bytes)
        r = parse_part(b, parts[i].process, bytes, parts[i].bytes);
    return r;
}

int batch_parse(struct batch *b, const uint8_t *bytes)
{
    *b = (struct batch){0};
    int r = parse_all(b, bytes) ?: part_batch(b);
    if (r < 0) batch_release(b);
    return r;
}

bool batch_frees(const struct batch *b, uint64_t container, uint64_t page)
{
    for (unsigned i = 0; i < b->freed_count; i++)
        if (b->freed[i].container == container && page - b->freed[i].first < b->freed[i].count)
            return true;
    return false;
}

void batch_release(struct batch *b)
{
    if (b->memory == few)
        few_taken = false;
    else
        free(b->memory);
    *b = (struct batch){0};
}
