/*
 * place.c - which page of a container lies at an address, and in which object of the kernel's.
 *
 * A container's pages count through its segments, an object's are those of one segment. The objects
 * are of containers that were opened (container.c); the lock is held.
 */
#include "server.h"

_Static_assert(STORE_SEGMENT_MAX <= 16, "cookie_of keeps 4 bits for the segment");

bool container_page(const struct container *c, uint64_t address, uint64_t *page)
{
    for (unsigned i = 0; i < c->segment_count; i++) {
        uint64_t offset = address - c->segment[i].base;
        if (offset >= c->segment[i].pages * PAGE_BYTES) continue;
        *page = c->segment[i].first + offset / PAGE_BYTES;
        return true;
    }
    return false;
}

static int segment_of(const struct container *c, uint64_t page)
{
    for (unsigned i = 0; i < c->segment_count; i++)
        if (page - c->segment[i].first < c->segment[i].pages) return (int)i;
    return -ENOENT;
}

uint64_t container_left(const struct container *c, uint64_t page)
{
    int i = segment_of(c, page);
    return i < 0 ? 1 : c->segment[i].first + c->segment[i].pages - page;
}

uint64_t container_address(const struct container *c, uint64_t page)
{
    int i = segment_of(c, page);
    return i < 0 ? 0 : c->segment[i].base + (page - c->segment[i].first) * PAGE_BYTES;
}

int container_object(uint64_t id, uint64_t page, int *object, uint64_t *object_page)
{
    struct container *c = container_by_id(id);
    int i = c ? segment_of(c, page) : -ENOENT;
    if (i < 0) return i;
    *object = c->segment[i].object;
    *object_page = page - c->segment[i].first;
    return 0;
}

int cookie_page(uint64_t cookie, uint64_t object_page, uint64_t *id, uint64_t *page)
{
    unsigned i = cookie & 15;
    *id = cookie >> 4;
    *page = object_page;
    if (i == 0) return 0; /* the first segment's pages begin at 0 */
    struct container *c = container_by_id(*id);
    if (!c || i >= c->segment_count) return -ENOENT;
    *page += c->segment[i].first;
    return 0;
}
