/*
 * power.h - disks whose power is cut at the moment: of what was not flushed some is there, some is
 * torn. For tests whose machines live on after that, where enumerate.h makes every such state.
 */
#ifndef TESTS_DISK_POWER_H
#define TESTS_DISK_POWER_H

#include "device.h"

struct power {
    struct device device;
    uint8_t *before;            /* its image when the record began */
};

void power_on(struct power *p);
bool write_durable(const struct device *device, uint32_t write);
/* power_off: slot_b_offset, if not 0: of a superblock whose newest slot is lost, too. */
void power_off(struct power *p, uint64_t *random, uint64_t slot_b_offset);

#endif
