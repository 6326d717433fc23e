/*
 * directory.c - containers and named objects: which entries are valid, and whether all of them
 * together are (DR1 to DR3: ids, names and addresses occur once, named objects have a container).
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>


bool kname_valid(const char name[STORE_NAME_BYTES])
{
    return name[0] && memchr(name, 0, STORE_NAME_BYTES);
}

bool kname_equal(const char a[STORE_NAME_BYTES], const char b[STORE_NAME_BYTES])
{
    return strncmp(a, b, STORE_NAME_BYTES) == 0;
}

uint64_t kcontainer_pages(const struct container_disk *container)
{
    uint64_t pages = 0;
    uint32_t count = le32_get(container->segment_count);
    for (uint32_t i = 0; i < count && i < STORE_SEGMENT_MAX; i++)
        pages += le32_get(container->segments[i].gib) * (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
    return pages;
}

bool ksegment_valid(uint32_t zone, uint32_t first_gib, uint32_t gib)
{
    return gib && (uint64_t)first_gib + gib <= store_zone_bytes(zone) / STORE_SEGMENT_UNIT;
}

bool kcontainer_valid(uint32_t zone, const struct container_disk *container)
{
    uint32_t count = le32_get(container->segment_count);
    if (!kname_valid(container->name) || count < 1 || count > STORE_SEGMENT_MAX ||
        le16_get(container->encoder) >= STORE_ENCODER_COUNT ||
        le16_get(container->locking) >= STORE_LOCKING_COUNT ||
        le16_get(container->durability) >= STORE_DURABILITY_COUNT ||
        le16_get(container->protection) >= STORE_PROTECTION_COUNT)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!ksegment_valid(zone, le32_get(container->segments[i].first_gib),
                            le32_get(container->segments[i].gib)))
            return false;
    return !container->layout.type[0] || kname_valid(container->layout.type);
}

/* ---- all entries together: sorted, so that what must be unique is next to its double */

struct range { uint32_t from, to; };

static int range_order(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static int name_order(const void *a, const void *b)
{
    return strncmp(*(const char *const *)a, *(const char *const *)b, STORE_NAME_BYTES);
}

static int id_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void addresses_check(struct kview *view, const struct kmodel *model)
{
    size_t count = 0;
    struct range *ranges = malloc((model->container_count * STORE_SEGMENT_MAX + 1) *
                                  sizeof *ranges);
    for (uint32_t i = 0; ranges && i < model->container_count; i++) {
        const struct container_disk *c = &model->containers[i].disk;
        for (uint32_t s = 0; s < le32_get(c->segment_count); s++) {
            uint32_t first = le32_get(c->segments[s].first_gib);
            ranges[count++] = (struct range){ first, first + le32_get(c->segments[s].gib) };
        }
    }
    if (ranges)
        qsort(ranges, count, sizeof *ranges, range_order);
    for (size_t i = 1; ranges && i < count; i++)
        if (ranges[i].from < ranges[i - 1].to)
            kview_find(view, KCHECK_DAMAGE, "DR2", "two segments share the GiB %u of the zone",
                       ranges[i].from);
    free(ranges);
}

static void containers_check(struct kview *view, const struct kmodel *model)
{
    uint32_t count = model->container_count;
    const char **names = malloc((count + 1) * sizeof *names);
    uint64_t *ids = malloc((count + 1) * sizeof *ids);
    for (uint32_t i = 0; names && ids && i < count; i++) {
        names[i] = model->containers[i].disk.name;
        ids[i] = model->containers[i].object;
    }
    if (names && ids) {
        qsort(names, count, sizeof *names, name_order);
        qsort(ids, count, sizeof *ids, id_order);
    }
    for (uint32_t i = 1; names && ids && i < count; i++) {
        if (kname_equal(names[i], names[i - 1]))
            kview_find(view, KCHECK_DAMAGE, "DR1", "two containers are called %.63s", names[i]);
        if (ids[i] == ids[i - 1])
            kview_find(view, KCHECK_DAMAGE, "DR1", "two containers have the id %llu",
                       (unsigned long long)ids[i]);
    }
    free(names);
    free(ids);
}

static int named_order(const void *a, const void *b)
{
    const struct kname *x = *(const struct kname *const *)a, *y = *(const struct kname *const *)b;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return strncmp(x->value.name, y->value.name, STORE_NAME_BYTES);
}

static void names_check(struct kview *view, const struct kmodel *model)
{
    uint32_t count = model->name_count;
    const struct kname **list = malloc((count + 1) * sizeof *list);
    for (uint32_t i = 0; list && i < count; i++)
        list[i] = &model->names[i];
    if (list)
        qsort(list, count, sizeof *list, named_order);
    for (uint32_t i = 0; list && i < count; i++) {
        const struct kname *name = list[i];
        if (!kmodel_container((struct kmodel *)model, name->object))
            kview_find(view, KCHECK_DAMAGE, "DR3", "the named object %.63s is in container %llu, "
                       "which does not exist", name->value.name, (unsigned long long)name->object);
        if (i && named_order(&list[i - 1], &list[i]) == 0)
            kview_find(view, KCHECK_DAMAGE, "DR3", "the name %.63s occurs twice in container %llu",
                       name->value.name, (unsigned long long)name->object);
    }
    free(list);
}

void kdirectory_check(struct kview *view, const struct kmodel *model)
{
    addresses_check(view, model);
    containers_check(view, model);
    names_check(view, model);
}
