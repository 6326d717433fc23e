/*
 * vdisk.c - see vdisk.h.
 */
#include "vdisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096u

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "vdisk: %s\n", what);
    abort();
}

void vdisk_open(struct vdisk *disk, uint64_t bytes)
{
    *disk = (struct vdisk){ .room = 1024, .bytes = bytes };
    disk->blocks = calloc(disk->room, sizeof *disk->blocks);
    require(disk->blocks, "out of memory");
}

void vdisk_close(struct vdisk *disk)
{
    for (uint64_t i = 0; i < disk->room; i++)
        free(disk->blocks[i].bytes);
    free(disk->blocks);
}

/* Where the block is, or would be. */
static struct vblock *place_of(const struct vdisk *disk, uint64_t number)
{
    uint64_t at = number * 0x9e3779b97f4a7c15ull;
    for (at ^= at >> 29;; at++) {
        struct vblock *block = &disk->blocks[at & (disk->room - 1)];
        if (!block->bytes || block->number == number)
            return block;
    }
}

static void enlarge(struct vdisk *disk)
{
    struct vdisk larger = *disk;
    larger.room *= 2;
    larger.blocks = calloc(larger.room, sizeof *larger.blocks);
    require(larger.blocks, "out of memory");
    for (uint64_t i = 0; i < disk->room; i++)
        if (disk->blocks[i].bytes)
            *place_of(&larger, disk->blocks[i].number) = disk->blocks[i];
    free(disk->blocks);
    *disk = larger;
}

static void range_require(const struct vdisk *disk, uint64_t offset, size_t bytes)
{
    require(offset % BLOCK == 0 && bytes % BLOCK == 0 && bytes > 0, "request is not whole blocks");
    require(offset < disk->bytes && bytes <= disk->bytes - offset, "request leaves the disk");
}

static int disk_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct vdisk *disk = context;
    range_require(disk, offset, bytes);
    disk->reads++;
    for (size_t at = 0; at < bytes; at += BLOCK) {
        const struct vblock *block = place_of(disk, (offset + at) / BLOCK);
        if (block->bytes)
            memcpy((uint8_t *)buffer + at, block->bytes, BLOCK);
        else
            memset((uint8_t *)buffer + at, 0, BLOCK);
    }
    return 0;
}

static int disk_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct vdisk *disk = context;
    range_require(disk, offset, bytes);
    disk->writes++;
    for (size_t at = 0; at < bytes; at += BLOCK) {
        struct vblock *block = place_of(disk, (offset + at) / BLOCK);
        if (!block->bytes) {
            block->number = (offset + at) / BLOCK;
            block->bytes = malloc(BLOCK);
            require(block->bytes, "out of memory");
            disk->count++;
        }
        memcpy(block->bytes, (const uint8_t *)buffer + at, BLOCK);
        if (disk->count * 2 > disk->room)
            enlarge(disk);
    }
    return 0;
}

static int disk_flush(void *context)
{
    (void)context;
    return 0;
}

struct disk_io vdisk_io(struct vdisk *disk)
{
    return (struct disk_io){ .context = disk, .bytes = disk->bytes, .read = disk_read,
                             .write = disk_write, .flush = disk_flush };
}

struct kcheck_io vdisk_kcheck_io(struct vdisk *disk)
{
    return (struct kcheck_io){ disk, disk->bytes, disk_read };
}
