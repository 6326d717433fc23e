/*
 * kstore.c - makes and examines store images on the host.
 *
 *     kstore create [--size MIB] [--log KIB] [--extent KIB] [--zone N] [--uuid HEX] [--force] FILE
 *     kstore info FILE        what the store holds, as recovery would leave it
 *     kstore check FILE       walks the disk by itself and compares with recovery's verdict
 *     kstore log FILE         groups and records since the checkpoint
 *
 * Nothing but `create` writes. Exit status: 0 good, 1 damaged, 2 wrong use, 3 cannot read or write,
 * 4 blank or not a store.
 *
 * `check` shares the format's declarations and crc32c() with the store, and no other code: it finds
 * slots, map, pages, leaves and groups in its own way.
 */
#include "errno_numbers.h"
#include "format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GOOD, DAMAGED, WRONG_USE, CANNOT, NO_STORE };

/* ---- the image as a disk */

struct file { int descriptor; };

static int file_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct file *file = context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(file->descriptor, (char *)buffer + done, bytes - done,
                          (off_t)(offset + done));
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int file_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    const struct file *file = context;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file->descriptor, (const char *)buffer + done, bytes - done,
                           (off_t)(offset + done));
        if (n <= 0)
            return -EIO;
        done += (size_t)n;
    }
    return 0;
}

static int file_flush(void *context)
{
    return fsync(((const struct file *)context)->descriptor) ? -EIO : 0;
}

static int file_open(struct file *file, struct disk_io *io, const char *path, int flags)
{
    struct stat status;
    file->descriptor = open(path, flags | O_CLOEXEC, 0644);
    if (file->descriptor < 0 || fstat(file->descriptor, &status)) {
        fprintf(stderr, "kstore: %s: %s\n", path, strerror(errno));
        return CANNOT;
    }
    *io = (struct disk_io){ file, (uint64_t)status.st_size / BLOCK_BYTES * BLOCK_BYTES, file_read,
                            file_write, file_flush };
    return GOOD;
}

static void *memory_alloc(void *context, size_t bytes) { (void)context; return malloc(bytes); }
static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context, (void)bytes;
    free(memory);
}
static const struct disk_memory memory = { NULL, memory_alloc, memory_free, NULL };

static uint64_t clock_us(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
static const struct disk_clock host_clock = { NULL, clock_us };

static int status_of(int error)
{
    return error == 0 ? GOOD : error == -EUCLEAN ? DAMAGED
         : error == -ENODATA || error == -EMEDIUMTYPE || error == -EPROTONOSUPPORT ? NO_STORE
                                                                                  : CANNOT;
}

/* ---- create */

static int number_parse(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 0);
    return *text && !*end ? GOOD : WRONG_USE;
}

static int uuid_make(uint8_t uuid[16], const char *text)
{
    if (!text) {
        int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        bool filled = random >= 0 && read(random, uuid, 16) == 16;
        if (random >= 0)
            close(random);
        return filled ? GOOD : CANNOT;
    }
    if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return WRONG_USE;
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        uuid[i] = (uint8_t)byte;
    }
    return GOOD;
}

/* Is there something that --force should be needed for? */
static bool occupied(const struct disk_io *io)
{
    uint8_t block[BLOCK_BYTES];
    for (uint64_t at = 0; at < 4 * BLOCK_BYTES && at + BLOCK_BYTES <= io->bytes; at += BLOCK_BYTES) {
        if (io->read(io->context, at, block, sizeof block))
            return true;
        for (uint32_t i = 0; i < sizeof block; i++)
            if (block[i])
                return true;
    }
    return false;
}

static int create(const char *path, uint64_t mib, const struct store_options *options, bool force)
{
    struct file file;
    struct disk_io io;
    int status = file_open(&file, &io, path, O_RDWR | O_CREAT);
    if (status)
        return status;
    if (!force && occupied(&io)) {
        fprintf(stderr, "kstore: %s is not empty; --force overwrites it\n", path);
        return CANNOT;
    }
    if (mib && ftruncate(file.descriptor, (off_t)(mib << 20))) {
        fprintf(stderr, "kstore: %s: %s\n", path, strerror(errno));
        return CANNOT;
    }
    io.bytes = mib ? mib << 20 : io.bytes;
    int error = store_format(&io, &memory, options);
    if (error)
        fprintf(stderr, "kstore: %s: cannot create a store: %s\n", path, strerror(-error));
    close(file.descriptor);
    return error ? CANNOT : GOOD;
}

static int create_main(int count, char **words)
{
    struct store_options options = { .log_bytes = 0 };
    uint64_t mib = 0, log = 0, extent = 0, zone = 0;
    const char *path = NULL, *uuid = NULL;
    bool force = false, wrong = false;
    for (int i = 0; i < count; i++) {
        uint64_t *number = !strcmp(words[i], "--size") ? &mib : !strcmp(words[i], "--log") ? &log
                         : !strcmp(words[i], "--extent") ? &extent
                         : !strcmp(words[i], "--zone") ? &zone : NULL;
        if (number)
            wrong |= ++i == count || number_parse(words[i], number);
        else if (!strcmp(words[i], "--uuid"))
            uuid = ++i < count ? words[i] : "";
        else if (!strcmp(words[i], "--force"))
            force = true;
        else if (words[i][0] == '-' || path)
            wrong = true;
        else
            path = words[i];
    }
    options.log_bytes = log << 10;
    options.extent_bytes = (uint32_t)(extent << 10);
    options.zone = (uint32_t)zone;
    if (wrong || !path || uuid_make(options.uuid, uuid))
        return WRONG_USE;
    return create(path, mib, &options, force);
}

/* ---- info: the store's own view */

static void container_print(struct store *store, const struct store_container *c)
{
    struct store_name name;
    uint32_t cursor = 0;
    printf("container %-24s id %llu at %#llx, %llu pages of %llu", c->name,
           (unsigned long long)c->object, (unsigned long long)c->base,
           (unsigned long long)c->pages_present, (unsigned long long)c->pages);
    if (c->layout.type[0])
        printf(", root %#llx %s version %u (%u bytes)", (unsigned long long)c->root,
               c->layout.type, c->layout.version, c->layout.bytes);
    printf("\n");
    while (store_name_next(store, c->object, &cursor, &name) == 0)
        printf("    %-24s %#llx, %llu bytes\n", name.name, (unsigned long long)name.address,
               (unsigned long long)name.bytes);
}

static int store_view(const struct disk_io *io, struct store **store, struct store_report *report)
{
    struct store_open_options options = { .flags = STORE_READ_ONLY, .clock = &host_clock };
    int error = store_open(io, &memory, &options, store, report);
    if (error || report->damage_lsn)
        printf("store: %s\n", report->message ? report->message : strerror(-error));
    return error;
}

static int info(const struct disk_io *io)
{
    struct store *store;
    struct store_report report;
    struct store_stats stats;
    struct store_container container = { .object = 0 };
    int error = store_view(io, &store, &report);
    if (error)
        return status_of(error);
    store_stats(store, &stats);
    printf("version %u, generation %llu, epoch %u, zone %u, %s\n", report.version,
           (unsigned long long)stats.generation, stats.epoch, stats.zone,
           report.was_clean ? "closed properly" : "not closed");
    printf("disk %llu MiB, log %llu KiB, extents %llu of %llu bytes, %llu free\n",
           (unsigned long long)stats.disk_bytes >> 20, (unsigned long long)stats.log_bytes >> 10,
           (unsigned long long)stats.extents, (unsigned long long)stats.extent_bytes,
           (unsigned long long)stats.free_extents);
    printf("log from LSN %llu to %llu: %llu groups, %llu transactions to replay%s\n",
           (unsigned long long)report.redo_lsn, (unsigned long long)report.end_lsn,
           (unsigned long long)report.groups, (unsigned long long)report.transactions,
           report.torn_tail ? ", then a torn group" : "");
    while (store_container_next(store, container.object, &container) == 0)
        container_print(store, &container);
    store_abandon(store);
    return report.damage_lsn ? DAMAGED : GOOD;
}

/* ---- an own reading of the disk, for check and log */

struct view {
    const struct disk_io *io;
    struct superblock_disk super;
    bool     slot_good[2];
    uint64_t problems;
    uint8_t *map, *pages;
    uint32_t page_count;
    uint64_t *touched;          /* object, first page, end: what records of the log change */
    uint64_t touched_count, touched_room, pages_seen;
    bool     print;
};

static void __attribute__((format(printf, 2, 3))) problem(struct view *view, const char *text, ...)
{
    va_list values;
    va_start(values, text);
    printf("problem: ");
    vprintf(text, values);
    printf("\n");
    va_end(values);
    view->problems++;
}

static uint32_t seed_of(const struct view *view, uint32_t kind, uint64_t address, uint32_t epoch)
{
    uint8_t bytes[32];
    le32 k = le32_of(kind), e = le32_of(epoch);
    le64 a = le64_of(address);
    memcpy(bytes, view->super.uuid, 16);
    memcpy(bytes + 16, &k, 4);
    memcpy(bytes + 20, &e, 4);
    memcpy(bytes + 24, &a, 8);
    return crc32c(0, bytes, sizeof bytes);
}

static bool slot_read(struct view *view, uint64_t offset, struct superblock_disk *slot)
{
    struct view seed = { .io = view->io };
    if (offset + BLOCK_BYTES > view->io->bytes ||
        view->io->read(view->io->context, offset, slot, BLOCK_BYTES) ||
        le64_get(slot->magic) != SUPERBLOCK_MAGIC || le32_get(slot->version) != FORMAT_VERSION)
        return false;
    seed.super = *slot;
    return crc32c(seed_of(&seed, CRC_SUPERBLOCK, le32_get(slot->slot), 0),
                  (const uint8_t *)slot + 12, BLOCK_BYTES - 12) == le32_get(slot->crc);
}

static bool slots_find(struct view *view)
{
    static struct superblock_disk slot[2];
    view->slot_good[0] = slot_read(view, 0, &slot[0]);
    uint64_t middle = view->slot_good[0] ? le64_get(slot[0].slot_b_offset)
                                         : view->io->bytes / 2 / BLOCK_BYTES * BLOCK_BYTES;
    view->slot_good[1] = slot_read(view, middle, &slot[1]);
    if (!view->slot_good[0] && !view->slot_good[1])
        return false;
    bool second = !view->slot_good[0] || (view->slot_good[1] &&
                  le64_get(slot[1].generation) > le64_get(slot[0].generation));
    view->super = slot[second];
    if (view->slot_good[0] && view->slot_good[1] &&
        llabs((long long)(le64_get(slot[0].generation) - le64_get(slot[1].generation))) != 1)
        problem(view, "the superblocks' generations do not follow each other (I17)");
    for (int i = 0; i < 2; i++)
        if (!view->slot_good[i])
            printf("note: superblock slot %c is not valid; the next checkpoint repairs it\n",
                   'A' + i);
    return true;
}

static uint64_t map_bytes(uint32_t pages)
{
    return ((uint64_t)pages * 16 + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

static void area_check(struct view *view)
{
    uint32_t index = le32_get(view->super.checkpoint_index) & 1;
    const struct checkpoint_disk *c = &view->super.checkpoints[index];
    uint64_t start = le64_get(view->super.area_start[index]);
    uint32_t capacity = le32_get(view->super.area_pages);
    view->page_count = le32_get(c->pages);
    uint64_t bytes = map_bytes(view->page_count);
    uint64_t body = start + map_bytes(capacity);
    if (view->page_count > capacity || start > view->io->bytes ||
        body + (uint64_t)view->page_count * BLOCK_BYTES > view->io->bytes) {
        problem(view, "the checkpoint lies outside the disk");
        view->page_count = 0;
        return;
    }
    view->map = malloc(bytes);
    view->pages = malloc((size_t)view->page_count * BLOCK_BYTES);
    if (view->io->read(view->io->context, start, view->map, bytes) ||
        crc32c(seed_of(view, CRC_MAP, le64_get(c->redo_lsn), 0), view->map, bytes) !=
            le32_get(c->root_crc)) {
        problem(view, "the checkpoint's map is damaged (I18)");
        view->page_count = 0;
        return;
    }
    for (uint32_t i = 0; i < view->page_count; i++) {
        const struct map_entry_disk *entry = (void *)(view->map + 16 * i);
        uint8_t *page = view->pages + (size_t)i * BLOCK_BYTES;
        if (le16_get(entry->kind) == META_FREE)
            continue;
        if (view->io->read(view->io->context, body + (uint64_t)i * BLOCK_BYTES, page, BLOCK_BYTES) ||
            crc32c(seed_of(view, CRC_META, i, 0), page, BLOCK_BYTES) != le32_get(entry->crc))
            problem(view, "metadata page %u is damaged", i);
    }
}

static void record_print(const struct record_disk *r)
{
    static const char *const names[] = { "?", "page", "difference", "free", "create", "delete",
        "rename", "grow", "layout", "name", "unname", "commit", "no-op", "spill" };
    unsigned type = le16_get(r->type);
    printf("    %-10s object %llu page %llu", names[type < 14 ? type : 0],
           (unsigned long long)le64_get(r->object), (unsigned long long)le64_get(r->page));
    if (type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF)
        printf(" extent %llu base %llu, %u bytes", (unsigned long long)le64_get(r->physical),
               (unsigned long long)le64_get(r->base), le32_get(r->data_bytes));
    printf("\n");
}

static void touch(struct view *view, const struct record_disk *r)
{
    if (view->touched_count == view->touched_room) {
        view->touched_room = view->touched_room ? 2 * view->touched_room : 1024;
        view->touched = realloc(view->touched, view->touched_room * 24);
        if (!view->touched)
            abort();
    }
    uint64_t *to = view->touched + 3 * view->touched_count++;
    unsigned type = le16_get(r->type);
    to[0] = le64_get(r->object);
    to[1] = type == RECORD_DELETE ? 0 : le64_get(r->page);
    to[2] = type == RECORD_DELETE ? UINT64_MAX
          : to[1] + (type == RECORD_PAGE_FREE ? le64_get(r->base) : 1);
}

static void group_walk(struct view *view, const uint8_t *group, uint64_t bytes)
{
    uint64_t at = sizeof(struct group_disk);
    uint32_t left = le32_get(((const struct group_disk *)group)->records);
    for (; left; left--) {
        const struct record_disk *r = (const void *)(group + at);
        if (at + sizeof *r > bytes || le32_get(r->length) < sizeof *r ||
            le32_get(r->length) > bytes - at) {
            problem(view, "a record leaves its group");
            return;
        }
        if (view->print)
            record_print(r);
        unsigned type = le16_get(r->type);
        if (type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF || type == RECORD_PAGE_FREE ||
            type == RECORD_DELETE)
            touch(view, r);
        at += le32_get(r->length);
    }
}

static uint32_t epoch_for(const struct view *view, uint64_t lsn)
{
    uint32_t epoch = 0;
    for (uint32_t i = 0; i < le32_get(view->super.epoch_count) && i < EPOCH_MAX; i++)
        if (le64_get(view->super.epochs[i].first_lsn) <= lsn)
            epoch = le32_get(view->super.epochs[i].epoch);
    return epoch;
}

/* A valid group at lsn, read into buffer (half a log); its bytes, or 0. */
static uint64_t group_read(struct view *view, uint64_t lsn, uint32_t prev, uint8_t *buffer)
{
    uint64_t log = le64_get(view->super.log_bytes), place = lsn % log;
    uint64_t offset = le64_get(view->super.log_start) + place;
    const struct group_disk *h = (const void *)buffer;
    if (view->io->read(view->io->context, offset, buffer, BLOCK_BYTES) ||
        le64_get(h->magic) != GROUP_MAGIC || le64_get(h->lsn) != lsn ||
        memcmp(&h->uuid_low, view->super.uuid, 4) || le32_get(h->epoch) != epoch_for(view, lsn) ||
        le32_get(h->prev_crc) != prev)
        return 0;
    uint64_t bytes = (uint64_t)le32_get(h->blocks) * BLOCK_BYTES;
    if (!bytes || bytes > log / 2 || bytes > log - place ||
        view->io->read(view->io->context, offset, buffer, bytes))
        return 0;
    uint32_t crc = crc32c(seed_of(view, CRC_GROUP, lsn, le32_get(h->epoch)), buffer, 60);
    return crc32c(crc, buffer + 64, bytes - 64) == le32_get(h->crc) ? bytes : 0;
}

static uint64_t log_walk(struct view *view)
{
    uint32_t index = le32_get(view->super.checkpoint_index) & 1;
    uint64_t lsn = le64_get(view->super.checkpoints[index].redo_lsn);
    uint64_t log = le64_get(view->super.log_bytes), groups = 0, first = lsn;
    uint32_t prev = le32_get(view->super.checkpoints[index].prev_crc);
    uint8_t *buffer = malloc(log);
    if (!buffer || log < BLOCK_BYTES || log > view->io->bytes) {
        problem(view, "the log lies outside the disk");
        free(buffer);
        return lsn;
    }
    for (; lsn - first < log; groups++) {
        uint64_t start = lsn - lsn % log + log, bytes = group_read(view, lsn, prev, buffer);
        if (!bytes && lsn % log && (bytes = group_read(view, start, prev, buffer)))
            lsn = start;
        if (!bytes)
            break;
        const struct group_disk *h = (const void *)buffer;
        if (view->print)
            printf("group at %llu: epoch %u, %llu bytes, durable to %llu\n", (unsigned long long)lsn,
                   le32_get(h->epoch), (unsigned long long)bytes,
                   (unsigned long long)le64_get(h->durable_lsn));
        group_walk(view, buffer, bytes);
        prev = le32_get(h->crc);
        lsn += bytes;
    }
    free(buffer);
    printf("log: %llu groups from %llu to %llu\n", (unsigned long long)groups,
           (unsigned long long)first, (unsigned long long)lsn);
    return lsn;
}

/* Has the log a newer record of this page (or freed it)? Its home copy then proves nothing. */
static bool is_touched(const struct view *view, uint64_t object, uint64_t page)
{
    for (const uint64_t *t = view->touched; t < view->touched + 3 * view->touched_count; t += 3)
        if (t[0] == object && t[1] <= page && page < t[2])
            return true;
    return false;
}

static void leaf_walk(struct view *view, const uint8_t *leaf, uint8_t *used)
{
    const struct leaf_disk *l = (const void *)leaf;
    uint64_t extent = le64_get(l->physical), n = le32_get(view->super.extent_bytes) / BLOCK_BYTES;
    uint64_t extents = le64_get(view->super.extents);
    uint8_t page[BLOCK_BYTES];
    if (extent >= extents || used[extent]) {
        problem(view, "extent %llu is out of range or used twice (I21)", (unsigned long long)extent);
        return;
    }
    used[extent] = 1;
    for (uint64_t p = 0; p < n; p++) {
        uint64_t number = le64_get(l->index) * n + p;
        if (!(le32_get(l->mask) >> p & 1) || is_touched(view, le64_get(l->object), number))
            continue;
        const le32 *crc = (const void *)(leaf + sizeof *l + 4 * p);
        uint64_t offset = le64_get(view->super.data_start) + (extent * n + p) * BLOCK_BYTES;
        view->pages_seen++;
        if (view->io->read(view->io->context, offset, page, sizeof page) ||
            crc32c(0, page, sizeof page) != le32_get(*crc))
            problem(view, "object %llu page %llu: its bytes do not match their CRC (I28)",
                    (unsigned long long)le64_get(l->object), (unsigned long long)number);
    }
}

static void leaves_check(struct view *view)
{
    uint32_t leaf_bytes = 40 + 12 * (le32_get(view->super.extent_bytes) / BLOCK_BYTES);
    uint8_t *used = calloc(1, le64_get(view->super.extents) + 1);
    uint64_t leaves = 0;
    for (uint32_t i = 0; used && i < view->page_count && !view->problems; i++) {
        const struct map_entry_disk *entry = (void *)(view->map + 16 * i);
        const uint8_t *page = view->pages + (size_t)i * BLOCK_BYTES;
        uint32_t count = le32_get(((const struct bucket_disk *)page)->count);
        if (le16_get(entry->kind) != META_BUCKET)
            continue;
        if (count > (BLOCK_BYTES - 16) / leaf_bytes) {
            problem(view, "bucket page %u counts too many leaves", i);
            continue;
        }
        for (uint32_t l = 0; l < count; l++, leaves++)
            leaf_walk(view, page + 16 + l * leaf_bytes, used);
    }
    if (view->page_count && !view->problems &&
        leaves != le64_get(((const struct meta_header_disk *)view->pages)->leaves))
        problem(view, "the count of leaves is wrong (I23)");
    free(used);
    printf("checkpoint: %u metadata pages, %llu extents mapped; %llu data pages verified\n",
           view->page_count, (unsigned long long)leaves, (unsigned long long)view->pages_seen);
}

static void view_free(struct view *view)
{
    free(view->map);
    free(view->pages);
    free(view->touched);
}

static int check(const struct disk_io *io)
{
    static struct view view;
    struct store *store;
    struct store_report report;
    const char *why = NULL;
    view.io = io;
    int error = store_view(io, &store, &report);
    if (slots_find(&view)) {
        area_check(&view);
        uint64_t end = log_walk(&view);
        leaves_check(&view);
        if (!error && !report.older_checkpoint && end != report.end_lsn)
            problem(&view, "check and recovery disagree about the end of the log");
    } else if (status_of(error) == NO_STORE)
        return NO_STORE;
    else
        problem(&view, "no valid superblock");
    if (!error) {
        if (store_check(store, &why))
            problem(&view, "%s", why);
        store_abandon(store);
    }
    view_free(&view);
    bool bad = view.problems || error || report.damage_lsn;
    printf("%s: %llu problems\n", bad ? "DAMAGED" : "clean", (unsigned long long)view.problems);
    return bad ? DAMAGED : GOOD;
}

static int log_print(const struct disk_io *io)
{
    static struct view view;
    view.io = io;
    view.print = true;
    if (!slots_find(&view)) {
        printf("no valid superblock\n");
        return NO_STORE;
    }
    log_walk(&view);
    view_free(&view);
    return view.problems ? DAMAGED : GOOD;
}

static const char usage[] =
    "usage: kstore create [--size MIB] [--log KIB] [--extent KIB] [--zone N] [--uuid HEX] [--force] FILE\n"
    "       kstore info|check|log FILE\n"
    "exit:  0 good, 1 damaged, 2 wrong use, 3 cannot read or write, 4 blank or not a store\n";

int main(int count, char **words)
{
    struct file file;
    struct disk_io io;
    int status = WRONG_USE;
    if (count > 1 && (!strcmp(words[1], "--help") || !strcmp(words[1], "-h"))) {
        fputs(usage, stdout);
        return GOOD;
    }
    if (count > 2 && !strcmp(words[1], "create"))
        status = create_main(count - 2, words + 2);
    else if (count == 3 && (!strcmp(words[1], "info") || !strcmp(words[1], "check") ||
                            !strcmp(words[1], "log"))) {
        status = file_open(&file, &io, words[2], O_RDONLY);
        if (!status) {
            status = words[1][0] == 'i' ? info(&io) : words[1][0] == 'c' ? check(&io) : log_print(&io);
            close(file.descriptor);
        }
        return status;
    }
    if (status == WRONG_USE)
        fputs(usage, stderr);
    return status;
}
