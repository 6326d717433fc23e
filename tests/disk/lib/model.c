/*
 * model.c - what pages and containers hold, and digests of a model and of a store.
 *
 * The two digests are made by different code from different things: numbers here, bytes there.
 */
#include "world_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLAIMED 0xc1a1edull       /* in a digest, in place of a CRC */

uint64_t cell_next(uint64_t cell)
{
    return cell ? cell * 6364136223846793005ull + 1442695040888963407ull : 0;
}

void page_fill(const uint64_t cells[WORLD_CELLS], uint8_t *bytes)
{
    for (uint32_t c = 0; c < WORLD_CELLS; c++) {
        uint64_t x = cells[c];
        for (uint32_t i = 0; i < 512; i += 8) {
            memcpy(bytes + c * 512 + i, &x, 8);
            x = cell_next(x);
        }
    }
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x1234567) * 0xbf58476d1ce4e5b9ull ^
                 (c + 0x89abcdef) * 0x94d049bb133111ebull;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93ull;
    return h ^ h >> 32;
}

void name_make(uint32_t name, char *out)
{
    snprintf(out, STORE_NAME_BYTES, "container-%u", name);
}

static uint64_t text_digest(const char *text)
{
    return crc32c(1, text, strlen(text));
}

static uint64_t container_digest(uint64_t object, const char *name, uint32_t flags,
                                 uint32_t encoder_locking, uint32_t segments, const char *type,
                                 uint64_t version, uint64_t root)
{
    return mix(object, text_digest(name), flags) + mix(object, segments, text_digest(type)) +
           mix(object, version, root + 77) + mix(object, encoder_locking, 55);
}

uint64_t page_digest(uint64_t object, uint32_t page, const uint8_t *bytes, uint64_t lsn)
{
    return mix(object, page, crc32c(0, bytes, STORE_PAGE_BYTES)) + lsn * 3;
}

void layout_make(uint64_t layout, struct store_layout *out, uint64_t *root)
{
    memset(out, 0, sizeof *out);
    if (layout)
        snprintf(out->type, sizeof out->type, "type-%u", (unsigned)(layout % 97));
    out->version = (uint32_t)(layout >> 8);
    out->bytes = (uint32_t)(layout >> 40);
    *root = layout >> 3;
}

bool model_unlogged(const struct model_container *c)
{
    return c->durability >= STORE_DURABILITY_VOLATILE;
}

/* A container's form; of its durability LOST is REBUILD once more. */
static uint32_t choices(uint32_t encoder, uint32_t locking, uint32_t protection,
                        uint32_t durability)
{
    bool lost = durability == STORE_DURABILITY_LOST;
    return encoder + 16 * locking + 64 * protection +
           1024 * (lost ? STORE_DURABILITY_REBUILD : durability);
}

uint64_t model_digest(const struct model *model)
{
    uint64_t sum = model_doubts_digest(model);
    uint8_t bytes[STORE_PAGE_BYTES];
    char name[STORE_NAME_BYTES];
    for (uint32_t i = 0; i < WORLD_CONTAINERS; i++) {
        const struct model_container *c = &model->containers[i];
        struct store_layout layout;
        uint64_t root;
        if (!c->object)
            continue;
        name_make(c->name, name);
        layout_make(c->layout, &layout, &root);
        if (model_unlogged(c) || c->rootless)
            root = 0;
        sum += container_digest(c->object, name, c->flags,
                                choices(c->encoder, c->locking, c->protection, c->durability),
                                c->segments, layout.type,
                                layout.version + ((uint64_t)layout.bytes << 32), root);
        if (model_unlogged(c))
            continue;
        for (uint32_t n = 0; n < WORLD_NAMES; n++) {
            snprintf(name, sizeof name, "name-%u", n);
            if (c->names[n])
                sum += mix(c->object ^ text_digest(name), c->names[n], c->names[n] >> 5);
        }
        for (uint32_t p = 0; p < WORLD_PAGES; p++)
            if (c->pages[p].claimed)
                sum += mix(c->object, p, CLAIMED);
            else if (c->pages[p].present) {
                page_fill(c->pages[p].cells, bytes);
                sum += page_digest(c->object, p, bytes, c->pages[p].lsn);
            }
    }
    return sum;
}

int store_digest_wide(struct store *store, uint32_t stride, uint64_t *digest)
{
    struct store_container c = { .object = 0 };
    uint8_t bytes[STORE_PAGE_BYTES];
    uint64_t sum = doubts_digest(store), pages = 0;
    while (store_container_next(store, c.object, &c) == 0) {
        struct store_name name;
        uint32_t cursor = 0;
        bool kept = c.durability >= STORE_DURABILITY_REBUILD;   /* perhaps (UL3) */
        sum +=
            container_digest(c.object, c.name, c.flags,
                             choices(c.encoder, c.locking, c.protection, c.durability),
                             c.segment_count, c.layout.type,
                             c.layout.version + ((uint64_t)c.layout.bytes << 32),
                             kept ? 0 : c.root);
        while (!kept && store_name_next(store, c.object, &cursor, &name) == 0)
            sum += mix(c.object ^ text_digest(name.name), name.address, name.bytes);
        for (uint32_t p = 0; p < WORLD_PAGES; p++) {
            struct store_page page;
            int error = store_page_find(store, c.object, (uint64_t)p * stride, &page);
            if (!error && page.present)
                error = store_page_read(store, c.object, (uint64_t)p * stride, bytes);
            if (error)
                return error;
            if (page.claimed && !kept)
                sum += mix(c.object, p, CLAIMED);
            pages += page.present;
            if (page.present && !kept)
                sum += page_digest(c.object, p, bytes, page.lsn);
        }
    }
    struct store_stats stats;
    store_stats(store, &stats);
    *digest = sum;
    return pages == stats.pages_present ? 0 : -EUCLEAN;
}

int store_digest(struct store *store, uint64_t *digest)
{
    return store_digest_wide(store, 1, digest);
}
