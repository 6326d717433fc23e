/*
 * kept_setting.c - which program serves a container (ps_manager), as the store's directory has it.
 *
 * The setting is names of the container, which no program can make, list or take away: kept_head
 * with the length of the text, and pieces of the text. So it is logged, recovered, copied and
 * deleted like all names, and its look-up reads no disk.
 *
 * Locks: server.lock, held by the caller.
 */
#include <string.h>

#include "server.h"

enum { PIECE_BYTES = 60, PIECES_MAX = WIRE_MANAGER_BYTES / PIECE_BYTES };
static const char kept_head[] = "\3manager";

bool kept_name(const char *name) { return name[0] == kept_head[0]; }

/* -ENOENT; text that is not whole counts as none, for nobody but us writes it. */
int kept_text(uint64_t id, char text[WIRE_MANAGER_BYTES])
{
    struct store_name found;
    uint32_t cursor = 0;
    uint64_t bytes = 0, got = 0;
    if (store_name_find(server.store, id, kept_head, &found) < 0) return -ENOENT;
    bytes = found.bytes;
    while (bytes <= WIRE_MANAGER_BYTES && store_name_next(server.store, id, &cursor, &found) == 0) {
        unsigned piece = (unsigned char)found.name[1] - 'A';
        size_t length = strlen(found.name);
        if (!kept_name(found.name) || piece >= PIECES_MAX) continue;
        if (length < 3 || length - 2 > PIECE_BYTES) continue;
        memcpy(text + piece * PIECE_BYTES, found.name + 2, length - 2);
        got += length - 2;
    }
    for (uint64_t i = 0; i < got; i++)
        if (text[i] == '\n') text[i] = 0;
    return got == bytes && bytes && !text[bytes - 1] ? (int)bytes : -ENOENT;
}

bool kept_is(uint64_t id)
{
    struct store_name found;
    return store_name_find(server.store, id, kept_head, &found) == 0;
}

static struct store_op *name_add(struct kept_names *n, enum store_op_type type, uint64_t id)
{
    struct store_op *op = &n->ops[n->count];
    *op = (struct store_op){.type = type, .object = id, .name = n->name[n->count]};
    memset(n->name[n->count++], 0, STORE_NAME_BYTES);
    return op;
}

/* The pieces' bytes are those of the text, with a line's end for each NUL. */
static void pieces_set(struct kept_names *n, uint64_t id, const char *text, size_t bytes)
{
    struct store_op *head = name_add(n, STORE_OP_NAME_SET, id);
    memcpy(n->name[n->count - 1], kept_head, sizeof(kept_head));
    head->bytes = bytes;
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        char *name = n->name[n->count];
        (void)name_add(n, STORE_OP_NAME_SET, id);
        name[0] = kept_head[0];
        name[1] = (char)('A' + at / PIECE_BYTES);
        for (size_t i = 0; i < part; i++) name[2 + i] = text[at + i] ? text[at + i] : '\n';
    }
}

void kept_names_make(struct kept_names *n, uint64_t id, const char *text, size_t bytes)
{
    struct store_name found;
    uint32_t cursor = 0;
    n->count = 0;
    if (bytes) pieces_set(n, id, text, bytes);
    unsigned made = n->count;
    while (n->count < KEPT_OPS && store_name_next(server.store, id, &cursor, &found) == 0) {
        bool stays = !kept_name(found.name);
        for (unsigned i = 0; i < made && !stays; i++) stays = strcmp(found.name, n->name[i]) == 0;
        if (stays) continue;
        (void)name_add(n, STORE_OP_NAME_UNSET, id);
        memcpy(n->name[n->count - 1], found.name, STORE_NAME_BYTES);
    }
}
