/*
 * power.c - see power.h.
 */
#include "power.h"

#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "internal.h"

void power_on(struct power *p)
{
    p->before = p->before ? p->before : malloc(p->device.bytes);
    require(p->before);
    memcpy(p->before, p->device.image, p->device.bytes);
    device_record(&p->device, true);
}

bool write_durable(const struct device *device, uint32_t write)
{
    uint32_t complete = write, flush;
    while (complete < device->event_count && (device->events[complete].kind != WRITE_COMPLETE ||
                                              device->events[complete].write != write))
        complete++;
    for (flush = complete; flush < device->event_count; flush++)
        if (device->events[flush].kind == FLUSH_COMPLETE && device->events[flush].write > complete)
            return true;
    return false;
}

void power_off(struct power *p, uint64_t *random, uint64_t slot_b_offset)
{
    p->device.recording = false;
    memcpy(p->device.image, p->before, p->device.bytes);
    for (uint32_t i = 0; i < p->device.event_count; i++) {
        const struct event *e = &p->device.events[i];
        if (e->kind != WRITE_ISSUE)
            continue;
        size_t bytes = e->bytes;
        if (!write_durable(&p->device, i))
            bytes = random_below(random, 3)
                        ? random_below(random, 2) * bytes
                        : random_below(random, bytes / SECTOR_BYTES) * SECTOR_BYTES;
        memcpy(p->device.image + e->offset, e->data, bytes);
    }
    struct superblock_disk *slots[2] = { (void *)p->device.image,
                                         (void *)(p->device.image + slot_b_offset) };
    if (slot_b_offset)
        memset(slots[le64_get(slots[0]->generation) < le64_get(slots[1]->generation)], 0x55,
               BLOCK_BYTES);
}
