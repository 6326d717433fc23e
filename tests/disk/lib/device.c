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
    if (!(device->fail_kinds & kind) || !device->fail_at ||
        (device->fail_disk && device->fail_disk != device->asked))
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
    if (device->bad_bytes && offset < device->bad_at + device->bad_bytes &&
        device->bad_at < offset + bytes) {
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

static uint32_t part_flush_begin(struct device *device, const struct device_disk *part)
{
    uint32_t issue = device_flush_begin(device);
    if (part && device->recording) {
        device->events[issue].offset = part->start;
        device->events[issue].bytes = part->bytes;
    }
    return issue;
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
    if (device->written)
        device->written();
    return 0;
}

static int part_flush(struct device *device, const struct device_disk *part)
{
    if (fails(device, FAIL_FLUSH)) {
        device->flushes++;
        return -EIO;
    }
    uint32_t issue = part_flush_begin(device, part);
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

static int device_flush(void *context)
{
    return part_flush(context, NULL);
}

/* ---- several disks */

static void part_require(const struct device_disk *disk, uint64_t offset, size_t bytes)
{
    require(offset < disk->bytes && bytes <= disk->bytes - offset, "request leaves its disk");
}

static uint32_t disk_number(const struct device_disk *disk)
{
    return (uint32_t)(disk - disk->device->disks) + 1;
}

static int part_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct device_disk *disk = context;
    part_require(disk, offset, bytes);
    disk->device->asked = disk_number(disk);
    return device_read(disk->device, disk->start + offset, buffer, bytes);
}

static int part_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    const struct device_disk *disk = context;
    part_require(disk, offset, bytes);
    disk->device->asked = disk_number(disk);
    return device_write(disk->device, disk->start + offset, buffer, bytes);
}

static int part_flush_call(void *context)
{
    const struct device_disk *disk = context;
    disk->device->asked = disk_number(disk);
    return part_flush(disk->device, disk);
}

void device_open_disks(struct device *device, const uint64_t *bytes, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        total += bytes[i];
    device_open(device, total);
    device->disk_count = count;
    for (uint32_t i = 0, at = 0; i < count; at += (uint32_t)bytes[i++])
        device->disks[i] = (struct device_disk){ device, at, bytes[i] };
}

struct disk_io device_disk_io(struct device *device, uint32_t disk)
{
    return (struct disk_io){ .context = &device->disks[disk], .bytes = device->disks[disk].bytes,
                             .read = part_read, .write = part_write, .flush = part_flush_call };
}

static void disks_io(struct device *device, struct disk_io io[SPAN_DISKS_MAX])
{
    for (uint32_t i = 0; i < device->disk_count; i++)
        io[i] = device_disk_io(device, i);
}

int device_start(struct device *device, struct disk_io *io, struct span_report *report)
{
    struct disk_io disks[SPAN_DISKS_MAX];
    int error = 0;
    *report = (struct span_report){ .given = SPAN_MISSING };
    disks_io(device, disks);
    if (device->disk_count)
        error = span_open(disks, device->disk_count, &device->span, &device->span_io, report);
    *io = error ? (struct disk_io){ .context = NULL } : device_io(device);
    return error;
}

int device_format(struct device *device, const struct store_options *options, uint64_t unit_bytes)
{
    struct disk_io disks[SPAN_DISKS_MAX], io = device_io(device);
    if (!device->disk_count)
        return store_format(&io, &test_memory, options);
    disks_io(device, disks);
    int error = span_format(disks, device->disk_count, &test_memory, options, unit_bytes,
                            &device->span);
    if (!error)
        device->span_io = span_io(&device->span);
    return error;
}

uint64_t device_place(const struct device *device, uint64_t offset)
{
    uint32_t disk;
    uint64_t at;
    if (!device->disk_count)
        return offset;
    span_place(&device->span, offset, &disk, &at);
    return device->disks[disk].start + at;
}

struct disk_io device_io(struct device *device)
{
    if (device->disk_count)
        return device->span_io;
    return (struct disk_io){ .context = device, .bytes = device->bytes, .read = device_read,
                             .write = device_write, .flush = device_flush };
}

uint32_t memory_count, memory_fail_at, memory_fired;
int64_t memory_live;
uint8_t memory_fill = 0x5a;
static const uint8_t guard[16] = "behind memory";

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    if (++memory_count == memory_fail_at) {
        memory_fired++;
        return NULL;
    }
    uint8_t *memory = malloc(bytes + sizeof guard);
    if (memory) {
        memory_live += (int64_t)bytes;
        memset(memory, memory_fill, bytes);
        memcpy(memory + bytes, guard, sizeof guard);
    }
    return memory;
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (!memory)
        return;
    memory_live -= (int64_t)bytes;
    require(memcmp((uint8_t *)memory + bytes, guard, sizeof guard) == 0,
            "something was written behind memory");
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
