/*
 * upgrade.c - a store of an older format becomes one of this format, as it is read (disk.md).
 *
 * A step turns the superblock and the metadata pages of one version, in memory, into those of the
 * next. Version 2 is the first that a store can have, and the newest: there is no step yet.
 * (test_upgrade makes one up.)
 */
#include "internal.h"

static const struct format_step none = { .from = 0 };

const struct format_step *format_steps = &none;
uint32_t format_step_count = 0;

static const struct format_step *step_from(uint32_t version)
{
    for (uint32_t i = 0; i < format_step_count; i++)
        if (format_steps[i].from == version)
            return &format_steps[i];
    return NULL;
}

bool store_upgradable(uint32_t version)
{
    while (version < FORMAT_VERSION && step_from(version))
        version++;
    return version == FORMAT_VERSION;
}

void upgrade_superblock(struct superblock_disk *block, uint32_t version)
{
    for (; version < FORMAT_VERSION; version++)
        step_from(version)->superblock(block);
    superblock_seal(block);
}

void upgrade_page(uint32_t version, uint32_t kind, uint8_t *bytes)
{
    for (; version < FORMAT_VERSION; version++)
        step_from(version)->page(kind, bytes);
}

bool upgrade_needs_empty_log(uint32_t version)
{
    bool differs = false;
    for (; version < FORMAT_VERSION; version++)
        differs |= step_from(version)->log_differs;
    return differs;
}
