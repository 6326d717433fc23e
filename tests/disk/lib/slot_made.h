/*
 * slot_made.h - objects that a test puts into slotted pages by hand (libpstore/slot.h).
 */
#ifndef TESTS_DISK_SLOT_MADE_H
#define TESTS_DISK_SLOT_MADE_H

#include <string.h>

#include "libpstore/slot.h"

static inline void object_add(uint8_t *page, unsigned start, unsigned units, uint32_t type,
                              const void *bytes, size_t size)
{
    struct slot_page head;
    memcpy(&head, page, sizeof head);
    struct slot_marked slot = {.slot = {(uint8_t)start, (uint8_t)units}};
    memcpy(slot.type, &type, sizeof type);
    memcpy(page + sizeof(struct slot_page_marked) + head.slots++ * sizeof slot, &slot, sizeof slot);
    memcpy(page, &head, sizeof head);
    memcpy(page + start * SLOT_UNIT_BYTES, bytes, size);
}

#endif
