/*
 * upgrade.c - a store of an older format becomes one of this format, as it is read (disk.md).
 *
 * A step turns the superblock and the metadata pages of one version, in memory, into those of the
 * next. Version 2 is the first that a store can have. (test_upgrade makes one up that was before.)
 *
 *   2 to 3  Two words of a container's slot, which nobody looked at, are its durability and its
 *           protection; 0 is what was there before them. Commit records may have a time and an id;
 *           those that have none say 0. So groups of version 2 are replayed as they are.
 *   3 to 4  What lies in a store of version 3 means the same in version 4. What came to version 3
 *           one by one, records and fields that were 0, is a version of its own (format.md).
 */
#include "internal.h"

static void same_superblock(struct superblock_disk *block)
{
    (void)block;
}

static void same_page(uint32_t kind, uint8_t *bytes)
{
    (void)kind;
    (void)bytes;
}

static void properties_none(uint32_t kind, uint8_t *bytes)
{
    struct container_disk *container = (void *)bytes;
    for (uint32_t i = 0; kind == META_DIRECTORY && i < CONTAINERS_PER_PAGE; i++)
        container[i].durability = container[i].protection = le16_of(0);
}

static const struct format_step steps[] = {
    { .from = 2, .superblock = same_superblock, .page = properties_none },
    { .from = 3, .superblock = same_superblock, .page = same_page },
};

const struct format_step *format_steps = steps;
uint32_t format_step_count = sizeof steps / sizeof *steps;

const uint32_t store_format_version = FORMAT_VERSION;

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
