/*
 * device.c - see device.h.
 */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "device: %s\n", what);
        abort();
    }
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return random_next(state) % limit;
}

void device_open(struct device *device, uint64_t bytes)
{
    memset(device, 0, sizeof *device);
    device->bytes = bytes;
    device->image = calloc(1, bytes);
    require(device->image, "out of memory");
}

static void events_forget(struct device *device)
{
    for (uint32_t i = 0; i < device->event_count; i++)
        free(device->events[i].data);
    device->event_count = 0;
}

void device_close(struct device *device)
{
    events_forget(device);
    free(device->events);
    free(device->undos);
    free(device->undo_data);
    free(device->image);
    memset(device, 0, sizeof *device);
}

static uint32_t event_add(struct device *device, struct event event)
{
    if (device->event_count == device->event_room) {
        device->event_room = device->event_room ? 2 * device->event_room : 256;
        device->events = realloc(device->events, device->event_room * sizeof *device->events);
        require(device->events, "out of memory");
    }
    device->events[device->event_count] = event;
    return device->event_count++;
}

void device_record(struct device *device, bool on)
{
    if (on) {
        events_forget(device);
        device->open_count = 0;
    }
    device->recording = on;
}

void device_mark(struct device *device, uint64_t acked, uint64_t submitted)
{
    device->acked = acked;
    if (device->recording)
        event_add(device, (struct event){ .kind = MARK, .acked = acked, .submitted = submitted,
                                          .proven = device->proven });
}

void undo_begin(struct device *device)
{
    device->undoing = true;
    device->undo_count = 0;
    device->undo_used = 0;
}

void undo_save(struct device *device, uint64_t offset, size_t bytes)
{
    if (device->undo_count == device->undo_room) {
        device->undo_room = device->undo_room ? 2 * device->undo_room : 256;
        device->undos = realloc(device->undos, device->undo_room * sizeof *device->undos);
    }
    while (device->undo_used + bytes > device->undo_size) {
        device->undo_size = device->undo_size ? 2 * device->undo_size : 1 << 20;
        device->undo_data = realloc(device->undo_data, device->undo_size);
    }
    require(device->undos && device->undo_data, "out of memory");
    memcpy(device->undo_data + device->undo_used, device->image + offset, bytes);
    device->undos[device->undo_count++] = (struct undo){ offset, bytes, device->undo_used };
    device->undo_used += bytes;
}

void undo_to(struct device *device, uint32_t mark)
{
    while (device->undo_count > mark) {
        const struct undo *undo = &device->undos[--device->undo_count];
        memcpy(device->image + undo->offset, device->undo_data + undo->at, undo->bytes);
        device->undo_used = undo->at;
    }
}

static bool fails(struct device *device, uint32_t kind)
{
    if (!(device->fail_kinds & kind) || !device->fail_at)
        return false;
    device->requests++;
    bool hit = device->requests == device->fail_at ||
               (device->fail_sticky && device->requests > device->fail_at);
    if (hit && !device->fired++) {
        device->acked_at_failure = device->acked;
        device->failed_in_flush = device->flushing;
    }
    return hit;
}

static void range_require(const struct device *device, uint64_t offset, size_t bytes)
{
    require(offset % 4096 == 0 && bytes % 4096 == 0 && bytes > 0, "request is not whole blocks");
    require(offset < device->bytes && bytes <= device->bytes - offset, "request leaves the disk");
}

static int device_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct device *device = context;
    range_require(device, offset, bytes);
    device->reads++;
    if (fails(device, FAIL_READ))
        return -EIO;
    if (offset < device->bad_at + device->bad_bytes && device->bad_at < offset + bytes) {
        device->bad_met++;
        return -EIO;
    }
    if (device->read_map)
        memset(device->read_map + offset / 4096, 1, bytes / 4096);
    memcpy(buffer, device->image + offset, bytes);
    return 0;
}

static void overlap_require(const struct device *device, uint64_t offset, size_t bytes)
{
    for (uint32_t i = 0; i < device->open_count; i++) {
        const struct event *e = &device->events[device->open[i]];
        require(e->offset + e->bytes <= offset || offset + bytes <= e->offset,
                "two writes in flight overlap");
    }
    require(device->open_count < DEVICE_OPEN_MAX, "too many writes in flight");
}

uint32_t device_write_begin(struct device *device, uint64_t offset, const void *buffer,
                            size_t bytes)
{
    uint32_t issue = 0;
    range_require(device, offset, bytes);
    device->writes++;
    if (device->recording) {
        overlap_require(device, offset, bytes);
        uint8_t *copy = malloc(bytes);
        require(copy, "out of memory");
        memcpy(copy, buffer, bytes);
        issue = event_add(device, (struct event){ .kind = WRITE_ISSUE, .offset = offset,
                                                  .bytes = bytes, .data = copy });
        device->open[device->open_count++] = issue;
    }
    if (device->undoing)
        undo_save(device, offset, bytes);
    memcpy(device->image + offset, buffer, bytes);
    if (offset <= device->bad_at && device->bad_at + device->bad_bytes <= offset + bytes)
        device->bad_bytes = 0;
    return issue;
}

void device_write_end(struct device *device, uint32_t issue)
{
    uint32_t i = 0;
    if (!device->recording)
        return;
    while (i < device->open_count && device->open[i] != issue)
        i++;
    require(i < device->open_count, "a write ends that was not issued");
    device->open[i] = device->open[--device->open_count];
    event_add(device, (struct event){ .kind = WRITE_COMPLETE, .write = issue });
}

uint32_t device_flush_begin(struct device *device)
{
    device->flushes++;
    return device->recording ? event_add(device, (struct event){ .kind = FLUSH_ISSUE }) : 0;
}

void device_flush_end(struct device *device, uint32_t issue)
{
    if (device->recording)
        event_add(device, (struct event){ .kind = FLUSH_COMPLETE, .write = issue });
}

static int device_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    struct device *device = context;
    if (fails(device, FAIL_WRITE)) {
        device->writes++;
        return -EIO;
    }
    device_write_end(device, device_write_begin(device, offset, buffer, bytes));
    return 0;
}

static int device_flush(void *context)
{
    struct device *device = context;
    if (fails(device, FAIL_FLUSH)) {
        device->flushes++;
        return -EIO;
    }
    uint32_t issue = device_flush_begin(device);
    if (device->in_flush) {
        void (*in_flush)(void *) = device->in_flush;
        device->in_flush = NULL;
        device->flushing = true;
        in_flush(device->in_flush_context);
        device->flushing = false;
    }
    device_flush_end(device, issue);
    return 0;
}

struct disk_io device_io(struct device *device)
{
    return (struct disk_io){ .context = device, .bytes = device->bytes, .read = device_read,
                             .write = device_write, .flush = device_flush };
}

uint32_t memory_count, memory_fail_at, memory_fired;
int64_t memory_live;
uint8_t memory_fill = 0x5a;

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    if (++memory_count == memory_fail_at) {
        memory_fired++;
        return NULL;
    }
    void *memory = malloc(bytes);
    if (memory) {
        memory_live += (int64_t)bytes;
        memset(memory, memory_fill, bytes);
    }
    return memory;
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (memory)
        memory_live -= (int64_t)bytes;
    free(memory);
}

const struct disk_memory test_memory = { .alloc = memory_alloc, .free = memory_free };

int txn_diff(struct store_group *group, uint64_t object, uint64_t page, store_lsn_t base_lsn,
             const struct diff_run *runs, uint32_t run_count, const void *data)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < run_count && bytes <= 2 * STORE_PAGE_BYTES; i++)
        bytes += 4u + runs[i].length;
    void *space;
    int error = store_txn_diff_space(group, bytes, &space);
    if (error)
        return error;
    uint8_t *to = space;
    const uint8_t *from = data;
    for (uint32_t i = 0; i < run_count; i++) {
        uint8_t head[4] = { (uint8_t)runs[i].offset, (uint8_t)(runs[i].offset >> 8),
                            (uint8_t)runs[i].length, (uint8_t)(runs[i].length >> 8) };
        memcpy(to, head, 4);
        memcpy(to + 4, from, runs[i].length);
        to += 4 + runs[i].length;
        from += runs[i].length;
    }
    return store_txn_diff_done(group, object, page, base_lsn, bytes);
}
