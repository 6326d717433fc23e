/*
 * device.c - what the disk library is handed: the disk, memory, and a clock.
 *
 * The kernel's block calls return when the device has completed the request; a write is durable
 * after the next flush. A failed write or flush is not tried again: the library fences the store.
 */
#include "server.h"

#include <stdlib.h>
#include <time.h>

#define READ_TRIES 3

static int device_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    (void)context;
    long r = -EIO;
    for (int i = 0; i < READ_TRIES && r < 0; i++)
        r = KD4(KD_BLOCK_READ, server.disk, offset, buffer, bytes);
    return r < 0 ? (int)r : 0;
}

static int device_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    (void)context;
    long r = KD4(KD_BLOCK_WRITE, server.disk, offset, buffer, bytes);
    return r < 0 ? (int)r : 0;
}

static int device_flush(void *context)
{
    (void)context;
    long r = KD1(KD_BLOCK_FLUSH, server.disk);
    return r < 0 ? (int)r : 0;
}

void disk_io_init(struct disk_io *io, uint64_t bytes)
{
    *io = (struct disk_io){
        .bytes = bytes, .read = device_read, .write = device_write, .flush = device_flush};
}

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    (void)bytes;
    free(memory);
}

static uint64_t clock_microseconds(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

const struct disk_memory disk_memory = {.alloc = memory_alloc, .free = memory_free};
const struct disk_clock disk_clock = {.microseconds = clock_microseconds};
