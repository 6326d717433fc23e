/*
 * virtio_blk.c - virtio 1.x block devices over PCI (1af4:1042).
 *
 * Owns      each disk's one queue: rings, slots, interrupts.
 * Not here  what is in flight and who waits (kernel/block/block.c).
 *
 * Invariants
 *   VQ1  A slot's request is non-NULL exactly from its offer to the device until its completion.
 *   VQ2  What the device writes is input: an index that jumps, a slot that has no request, a length
 *       that does not fit and a status byte that was never written (it starts as 0xff) end in -EIO
 *       or are ignored, with a line in the log.
 *   A word to the device (VQ4, virtio.h) that got lost all the same is repeated by the poll, a
 *   second later.
 *
 * Lock: the block device's (RANK_BLOCK).
 */
#include "block/block.h"

#include "virtio/virtio.h"

enum { SLOT_COUNT = 64, BROKEN_LINES_MAX = 8 };

/* ---- the standard's layouts ---- */
struct disk_registers {
    uint32_t sectors[2], size_max, segments_max;
    uint16_t cylinders;
    uint8_t heads, track_sectors;
    uint32_t sector_bytes;
    uint8_t topology[8];
    uint8_t write_back;
};
_Static_assert(offsetof(struct disk_registers, write_back) == 32, "virtio 1.0, 5.2.4");

#define FEATURE_SEGMENTS_MAX (1ull << 2)
#define FEATURE_READ_ONLY    (1ull << 5)
#define FEATURE_SECTOR_BYTES (1ull << 6)
#define FEATURE_FLUSH        (1ull << 9)
#define FEATURE_CONFIG_WCE   (1ull << 11)
#define FEATURES_NEEDED      (VIRTIO_VERSION_1 | VIRTIO_INDIRECT)
#define FEATURES_WANTED                                                                           \
    (FEATURE_SEGMENTS_MAX | FEATURE_READ_ONLY | FEATURE_SECTOR_BYTES | FEATURE_FLUSH |            \
     FEATURE_CONFIG_WCE)

enum { TYPE_IN = 0, TYPE_OUT = 1, TYPE_FLUSH = 4, TYPE_GET_ID = 8 };
enum { RESULT_OK = 0, RESULT_NONE = 0xff };
#define VIRTIO_SECTOR_BYTES 512u
#define ID_BYTES 20u

/* ---- our own ---- */
struct slot_memory {           /* what the device reads and writes beside the segments */
    uint32_t type, reserved;
    uint64_t sector;
    uint8_t result;
    uint8_t padding[15];
};
enum { TABLE_ENTRIES = BLOCK_SEGMENTS_MAX + 2 };
_Static_assert(TABLE_ENTRIES * sizeof(struct virtio_descriptor) == PAGE_BYTES, "a table is a page");
_Static_assert(SLOT_COUNT == 64, "free_slots has a bit for each");

struct disk {
    struct block_device device;
    struct virtio_device virtio;
    struct virtq queue;
    bool notify_due;                   /* atomic: it does not know yet what is offered */
    uint64_t free_slots;               /* a bit for each */
    unsigned broken_lines;
    struct slot_memory *memory;
    struct virtio_descriptor (*tables)[TABLE_ENTRIES];
    struct block_request *requests[SLOT_COUNT]; /* VQ1: by slot */
    struct list pending;            /* requests without a slot */
};

static struct disk *disk_of(struct block_device *d) { return container_of(d, struct disk, device); }

/* ---- requests ---- */

static const struct { uint32_t type; const char *name; bool device_writes; } operations[] = {
    [BLOCK_READ] = {TYPE_IN, "read", true}, [BLOCK_WRITE] = {TYPE_OUT, "write", false},
    [BLOCK_FLUSH] = {TYPE_FLUSH, "flush", false}, [BLOCK_IDENTIFY] = {TYPE_GET_ID, "serial", true},
};

/* build fills a slot's table of descriptors in and returns the number of entries. */
static unsigned build(struct virtio_descriptor *d, struct slot_memory *m,
                      const struct block_request *r)
{
    uint16_t flags = VIRTIO_NEXT |
                     (operations[r->operation].device_writes ? VIRTIO_DEVICE_WRITES : 0);
    unsigned n = 0;
    m->type = operations[r->operation].type;
    m->sector = r->offset_bytes / VIRTIO_SECTOR_BYTES;
    m->result = RESULT_NONE;
    d[n++] = (struct virtio_descriptor){virtio_address(m), 16, VIRTIO_NEXT, 1};
    for (unsigned i = 0; i < r->segment_count; i++, n++)
        d[n] = (struct virtio_descriptor){r->segments[i].address, r->segments[i].bytes, flags,
                                          (uint16_t)(n + 1)};
    d[n++] = (struct virtio_descriptor){virtio_address(&m->result), 1, VIRTIO_DEVICE_WRITES, 0};
    return n;
}

static void offer(struct disk *disk, struct block_request *r)
{
    unsigned number = (unsigned)__builtin_ctzll(disk->free_slots);
    disk->free_slots &= disk->free_slots - 1;
    assert(disk->requests[number] == NULL); /* VQ1 */
    disk->requests[number] = r;
    disk->queue.descriptors[number].bytes = build(disk->tables[number], &disk->memory[number], r) *
                                            (uint32_t)sizeof(struct virtio_descriptor);
    virtq_offer(&disk->queue, (uint16_t)number);
    __atomic_store_n(&disk->notify_due, true, __ATOMIC_RELAXED); /* VQ4 */
}

void block_driver_notify(struct block_device *d)
{
    struct disk *disk = disk_of(d);
    bool due = __atomic_exchange_n(&disk->notify_due, false, __ATOMIC_ACQ_REL);
    if (due)
        virtq_notify(&disk->queue);
}

void block_driver_submit(struct block_request *r)
{
    struct disk *disk = disk_of(r->device);
    if (r->operation == BLOCK_FLUSH && !(disk->virtio.features & FEATURE_FLUSH))
        block_complete(r, 0); /* no write cache: what is complete is durable */
    else if (!disk->free_slots)
        list_push_back(&disk->pending, &r->driver_link);
    else
        offer(disk, r);
}

/* ---- completions ---- */

static void complain(struct disk *disk, const char *what, uint32_t value)
{
    if (disk->broken_lines++ < BROKEN_LINES_MAX)
        printk("disk %s: the device's answer is wrong: %s %u", disk->device.name, what, value);
}

static void finish(struct disk *disk, uint32_t number, uint32_t bytes)
{
    uint8_t result;
    if (number >= SLOT_COUNT || disk->requests[number] == NULL) {
        complain(disk, "no such request:", number);
        return;
    }
    struct block_request *r = disk->requests[number];
    uint64_t expected = 1 + (operations[r->operation].device_writes ? r->bytes : 0);
    result = *(volatile uint8_t *)&disk->memory[number].result;
    if (result == RESULT_OK && bytes != expected) {
        complain(disk, "bytes written:", bytes);
        result = RESULT_NONE;
    } else if (result != RESULT_OK) {
        printk("disk %s: %s of sector %lu failed, result %u", disk->device.name,
               operations[r->operation].name, disk->memory[number].sector, result);
    }
    assert(r->device == &disk->device); /* VQ1 */
    disk->requests[number] = NULL;
    disk->free_slots |= 1ull << number;
    block_complete(r, result == RESULT_OK ? 0 : -EIO);
}

static void collect(struct disk *disk)
{
    uint16_t used;
    struct list *next;
    while ((used = virtq_used(&disk->queue)) != 0) {
        uint32_t number, bytes;
        if (used > SLOT_COUNT) {
            complain(disk, "index, ahead by", used);
            return;
        }
        virtq_take(&disk->queue, &number, &bytes);
        finish(disk, number, bytes);
    }
    while (disk->free_slots && (next = list_pop(&disk->pending)) != NULL)
        offer(disk, container_of(next, struct block_request, driver_link));
}

static void interrupt(void *arg)
{
    struct disk *disk = arg;
    lock_acquire(&disk->device.lock);
    collect(disk);
    lock_release(&disk->device.lock);
    block_driver_notify(&disk->device);
}

void block_driver_poll(struct block_device *d)
{
    struct disk *disk = disk_of(d);
    collect(disk);
    if (d->in_flight > 0)
        __atomic_store_n(&disk->notify_due, true, __ATOMIC_RELAXED); /* VQ4 */
}

/* ---- set-up ---- */

static void read_geometry(struct disk *disk)
{
    volatile struct disk_registers *r = disk->virtio.registers;
    struct block_device *d = &disk->device;
    uint64_t features = disk->virtio.features;
    uint8_t generation;
    uint64_t sectors;
    do { /* the size is two words: both of one generation */
        generation = virtio_generation(&disk->virtio);
        sectors = r->sectors[0] | (uint64_t)r->sectors[1] << 32;
    } while (generation != virtio_generation(&disk->virtio));
    d->bytes = MIN(sectors, UINT64_MAX / VIRTIO_SECTOR_BYTES) * VIRTIO_SECTOR_BYTES;
    d->sector_bytes = features & FEATURE_SECTOR_BYTES ? r->sector_bytes : VIRTIO_SECTOR_BYTES;
    if (d->sector_bytes < VIRTIO_SECTOR_BYTES || d->sector_bytes > PAGE_BYTES ||
        (d->sector_bytes & (d->sector_bytes - 1)) != 0)
        d->sector_bytes = VIRTIO_SECTOR_BYTES;
    d->read_only = features & FEATURE_READ_ONLY;
    d->segments_max = features & FEATURE_SEGMENTS_MAX ? r->segments_max : 1;
    d->segments_max = MIN(d->segments_max, MIN(BLOCK_SEGMENTS_MAX, disk->queue.size - 2u));
}

static bool make_slots(struct disk *disk)
{
    disk->tables = virtio_memory(SLOT_COUNT * PAGE_BYTES);
    disk->memory = virtio_memory(PAGE_BYTES);
    if (disk->tables == NULL || disk->memory == NULL)
        return false;
    disk->free_slots = ~0ull;
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        disk->queue.descriptors[i].address = virtio_address(disk->tables[i]);
        disk->queue.descriptors[i].flags = VIRTIO_IS_INDIRECT;
    }
    return true;
}

/* read_name gives the disk its serial as name; a disk without a serial is called "diskN". */
static void read_name(struct disk *disk, unsigned number)
{
    char *id = (char *)&disk->memory[SLOT_COUNT]; /* the rest of that page is unused */
    struct block_segment segment = {virtio_address(id), ID_BYTES};
    struct block_request r;
    _Static_assert((SLOT_COUNT + 1) * sizeof(struct slot_memory) <= PAGE_BYTES, "room for the id");
    block_prepare(&r, &disk->device, BLOCK_IDENTIFY, 0, &segment, 1);
    if (block_run(&r) == 0)
        memcpy(disk->device.name, id, ID_BYTES);
    if (disk->device.name[0] == 0)
        snprintk(disk->device.name, sizeof disk->device.name, "disk%u", number);
}

static bool caches_writes(const struct disk *disk)
{
    if (!(disk->virtio.features & FEATURE_CONFIG_WCE))
        return disk->virtio.features & FEATURE_FLUSH;
    return ((volatile struct disk_registers *)disk->virtio.registers)->write_back != 0;
}

static const char *set_up(const struct pci_device *p)
{
    static unsigned number;
    struct disk *disk = kalloc(sizeof *disk);
    if (disk == NULL)
        panic("no memory for a disk");
    lock_init(&disk->device.lock, RANK_BLOCK, "disk");
    list_init(&disk->device.active);
    list_init(&disk->pending);
    const char *failure = virtio_begin(&disk->virtio, p, sizeof(struct disk_registers),
                                       FEATURES_NEEDED, FEATURES_WANTED, interrupt, disk);
    if (failure)
        return failure;
    if (!virtq_make(&disk->virtio, &disk->queue, 0, SLOT_COUNT, VIRTQ_SIZE_MAX) ||
        !make_slots(disk))
        return virtio_failed(&disk->virtio, "no queue");
    read_geometry(disk);
    if (disk->device.segments_max < BLOCK_SEGMENTS_MIN)
        return virtio_failed(&disk->virtio, "too few segments in a request");
    virtio_ready(&disk->virtio);
    read_name(disk, number++);
    block_register(&disk->device);
    printk("disk %s: virtio, %u segments a request, write cache %s", disk->device.name,
           disk->device.segments_max, caches_writes(disk) ? "on" : "off");
    return NULL;
}

void virtio_blk_init(void) { virtio_for(VIRTIO_BLOCK, set_up); }
