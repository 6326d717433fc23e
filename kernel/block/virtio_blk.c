/*
 * virtio_blk.c - virtio 1.x block devices over PCI (1af4:1042).
 *
 * Owns      each disk's one queue: rings, slots, interrupts.
 * Not here  what is in flight and who waits (kernel/block/block.c).
 *
 * Invariants
 *   VQ1  slot->request is non-NULL exactly from its offer to the device until its completion.
 *   VQ2  What the device writes is input: an index that jumps, a slot that has no request, a length
 *       that does not fit and a status byte that was never written (it starts as 0xff) end in -EIO
 *       or are ignored, with a line in the log.
 *   VQ3  The available index moves after the descriptors are complete; the used ring is read after
 *       its index.
 *   VQ4  Whatever is offered is notified, also when the device says that it looks by itself
 *       (VIRTQ_USED_F_NO_NOTIFY): to trust that word, the store of the available index has to be
 *       seen before it is read, and with one CPU QEMU's TCG drops the fences that would see to it,
 *       though its device runs in another thread. The word to the device is a fence by itself. One
 *       that got lost all the same is repeated by the poll, a second later.
 *
 * Lock: the block device's (RANK_BLOCK).
 */
#include "block/block.h"
#include "pci.h"

#include "arch.h"

enum { SLOT_COUNT = 64, QUEUE_SIZE_MAX = 256, BROKEN_LINES_MAX = 8 };

/* ---- the standard's layouts ---- */
struct descriptor { uint64_t address; uint32_t bytes; uint16_t flags, next; };
enum { DESCRIPTOR_NEXT = 1, DESCRIPTOR_DEVICE_WRITES = 2, DESCRIPTOR_INDIRECT = 4 };

struct available_ring { uint16_t flags, index, slots[QUEUE_SIZE_MAX]; };
struct used_ring {
    uint16_t flags, index;
    struct { uint32_t slot, bytes; } done[QUEUE_SIZE_MAX];
};

struct common_registers {
    uint32_t device_feature_select, device_feature, driver_feature_select, driver_feature;
    uint16_t msix_config, queue_count;
    uint8_t status, generation;
    uint16_t queue_select, queue_size, queue_msix, queue_enable, queue_notify_offset;
    uint32_t queue_descriptors[2], queue_available[2], queue_used[2];
};
_Static_assert(offsetof(struct common_registers, queue_used) == 48, "virtio 1.0, 4.1.4.3");

struct disk_registers {
    uint32_t sectors[2], size_max, segments_max;
    uint16_t cylinders;
    uint8_t heads, track_sectors;
    uint32_t sector_bytes;
    uint8_t topology[8];
    uint8_t write_back;
};
_Static_assert(offsetof(struct disk_registers, write_back) == 32, "virtio 1.0, 5.2.4");

enum { CONFIG_COMMON = 1, CONFIG_NOTIFY = 2, CONFIG_DEVICE = 4 };
enum { STATUS_ACKNOWLEDGE = 1, STATUS_DRIVER = 2, STATUS_DRIVER_OK = 4, STATUS_FEATURES_OK = 8,
       STATUS_FAILED = 128 };
#define FEATURE_SEGMENTS_MAX (1ull << 2)
#define FEATURE_READ_ONLY    (1ull << 5)
#define FEATURE_SECTOR_BYTES (1ull << 6)
#define FEATURE_FLUSH        (1ull << 9)
#define FEATURE_CONFIG_WCE   (1ull << 11)
#define FEATURE_INDIRECT     (1ull << 28)
#define FEATURE_VERSION_1    (1ull << 32)
#define FEATURES_NEEDED      (FEATURE_VERSION_1 | FEATURE_INDIRECT)
#define FEATURES_WANTED                                                                           \
    (FEATURES_NEEDED | FEATURE_SEGMENTS_MAX | FEATURE_READ_ONLY | FEATURE_SECTOR_BYTES |          \
     FEATURE_FLUSH | FEATURE_CONFIG_WCE)

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
struct slot {
    struct block_request *request;  /* VQ1 */
    struct descriptor *table;
    uint32_t device_writes;         /* bytes that a good answer has */
    uint16_t next_free;
};
enum { TABLE_ENTRIES = BLOCK_SEGMENTS_MAX + 2 };
_Static_assert(TABLE_ENTRIES * sizeof(struct descriptor) == PAGE_BYTES, "a table is a page");
_Static_assert(SLOT_COUNT * sizeof(struct slot_memory) <= PAGE_BYTES, "their memory is a page");

struct disk {
    struct block_device device;
    volatile struct common_registers *common;
    volatile struct disk_registers *registers;
    volatile uint16_t *notify;
    bool notify_due;                   /* atomic: it does not know yet what is offered */
    uint64_t features;
    uint16_t queue_size, used_seen, available_index, free_slot; /* free_slot: SLOT_COUNT: none */
    unsigned broken_lines;
    struct descriptor *descriptors;
    volatile struct available_ring *available;
    volatile struct used_ring *used;
    struct slot_memory *memory;
    struct slot slots[SLOT_COUNT];
    struct list pending;            /* requests without a slot */
};

static struct disk *disk_of(struct block_device *d) { return container_of(d, struct disk, device); }

static paddr_t physical(const void *p)
{
    return (paddr_t)((const char *)p - (const char *)arch_phys(0));
}

/* ---- requests ---- */

static const struct { uint32_t type; const char *name; } operations[] = {
    [BLOCK_READ] = {TYPE_IN, "read"}, [BLOCK_WRITE] = {TYPE_OUT, "write"},
    [BLOCK_FLUSH] = {TYPE_FLUSH, "flush"}, [BLOCK_IDENTIFY] = {TYPE_GET_ID, "serial"},
};

/* build fills the slot's table of descriptors in and returns the number of entries. */
static unsigned build(struct slot *s, struct slot_memory *m, const struct block_request *r)
{
    bool writes = r->operation == BLOCK_READ || r->operation == BLOCK_IDENTIFY;
    struct descriptor *d = s->table;
    uint16_t flags = DESCRIPTOR_NEXT | (writes ? DESCRIPTOR_DEVICE_WRITES : 0);
    unsigned n = 0;
    m->type = operations[r->operation].type;
    m->sector = r->offset_bytes / VIRTIO_SECTOR_BYTES;
    m->result = RESULT_NONE;
    s->device_writes = 1;
    d[n++] = (struct descriptor){physical(m), 16, DESCRIPTOR_NEXT, 1};
    for (unsigned i = 0; i < r->segment_count; i++, n++) {
        d[n] = (struct descriptor){r->segments[i].address, r->segments[i].bytes, flags,
                                   (uint16_t)(n + 1)};
        if (writes)
            s->device_writes += r->segments[i].bytes;
    }
    d[n++] = (struct descriptor){physical(&m->result), 1, DESCRIPTOR_DEVICE_WRITES, 0};
    return n;
}

static void offer(struct disk *disk, struct block_request *r)
{
    uint16_t number = disk->free_slot;
    struct slot *s = &disk->slots[number];
    disk->free_slot = s->next_free;
    assert(number < SLOT_COUNT && s->request == NULL); /* VQ1 */
    s->request = r;
    disk->descriptors[number].bytes =
        build(s, &disk->memory[number], r) * (uint32_t)sizeof(struct descriptor);
    disk->available->slots[disk->available_index % disk->queue_size] = number;
    __atomic_thread_fence(__ATOMIC_RELEASE); /* VQ3 */
    disk->available->index = ++disk->available_index;
    __atomic_store_n(&disk->notify_due, true, __ATOMIC_RELAXED); /* VQ4 */
}

void block_driver_notify(struct block_device *d)
{
    struct disk *disk = disk_of(d);
    bool due = __atomic_exchange_n(&disk->notify_due, false, __ATOMIC_ACQ_REL);
    if (due)
        *disk->notify = 0;
}

void block_driver_submit(struct block_request *r)
{
    struct disk *disk = disk_of(r->device);
    if (r->operation == BLOCK_FLUSH && !(disk->features & FEATURE_FLUSH))
        block_complete(r, 0); /* no write cache: what is complete is durable */
    else if (disk->free_slot == SLOT_COUNT)
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
    if (number >= SLOT_COUNT || disk->slots[number].request == NULL) {
        complain(disk, "no such request:", number);
        return;
    }
    struct slot *s = &disk->slots[number];
    struct block_request *r = s->request;
    result = *(volatile uint8_t *)&disk->memory[number].result;
    if (result == RESULT_OK && bytes != s->device_writes) {
        complain(disk, "bytes written:", bytes);
        result = RESULT_NONE;
    } else if (result != RESULT_OK) {
        printk("disk %s: %s of sector %lu failed, result %u", disk->device.name,
               operations[r->operation].name, disk->memory[number].sector, result);
    }
    assert(r->device == &disk->device); /* VQ1 */
    s->request = NULL;
    s->next_free = disk->free_slot;
    disk->free_slot = (uint16_t)number;
    block_complete(r, result == RESULT_OK ? 0 : -EIO);
}

static void collect(struct disk *disk)
{
    uint16_t index = disk->used->index;
    struct list *next;
    if ((uint16_t)(index - disk->used_seen) > SLOT_COUNT) {
        complain(disk, "index", index);
        return;
    }
    while (disk->used_seen != index) {
        unsigned at = disk->used_seen++ % disk->queue_size;
        __atomic_thread_fence(__ATOMIC_ACQUIRE); /* VQ3 */
        finish(disk, disk->used->done[at].slot, disk->used->done[at].bytes);
        index = disk->used->index;
    }
    while (disk->free_slot != SLOT_COUNT && (next = list_pop(&disk->pending)) != NULL)
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

/* map_part maps those registers that the vendor capability of this kind describes; NULL: there is
 * none. */
static volatile void *map_part(const struct pci_device *p, uint8_t kind, uint32_t bytes,
                               unsigned *capability)
{
    unsigned at;
    for (unsigned n = 0; (at = pci_capability(p, PCI_CAPABILITY_VENDOR, n)) != 0; n++) {
        if (pci_read8(p, at + 3) != kind || pci_read32(p, at + 12) < bytes)
            continue;
        *capability = at;
        return pci_map_bar(p, pci_read8(p, at + 4), pci_read32(p, at + 8), pci_read32(p, at + 12));
    }
    return NULL;
}

static bool negotiate(struct disk *disk)
{
    volatile struct common_registers *c = disk->common;
    c->status = 0;
    while (c->status != 0)
        arch_spin_hint(); /* the reset takes as long as it takes */
    c->status = STATUS_ACKNOWLEDGE;
    c->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
    c->device_feature_select = 0;
    uint64_t offered = c->device_feature;
    c->device_feature_select = 1;
    offered |= (uint64_t)c->device_feature << 32;
    disk->features = offered & FEATURES_WANTED;
    if ((disk->features & FEATURES_NEEDED) != FEATURES_NEEDED)
        return false;
    c->driver_feature_select = 0;
    c->driver_feature = (uint32_t)disk->features;
    c->driver_feature_select = 1;
    c->driver_feature = (uint32_t)(disk->features >> 32);
    c->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    return c->status & STATUS_FEATURES_OK;
}

static void read_geometry(struct disk *disk)
{
    volatile struct disk_registers *r = disk->registers;
    struct block_device *d = &disk->device;
    uint8_t generation;
    uint64_t sectors;
    do { /* the size is two words: both of one generation */
        generation = disk->common->generation;
        sectors = r->sectors[0] | (uint64_t)r->sectors[1] << 32;
    } while (generation != disk->common->generation);
    d->bytes = MIN(sectors, UINT64_MAX / VIRTIO_SECTOR_BYTES) * VIRTIO_SECTOR_BYTES;
    d->sector_bytes = disk->features & FEATURE_SECTOR_BYTES ? r->sector_bytes : VIRTIO_SECTOR_BYTES;
    if (d->sector_bytes < VIRTIO_SECTOR_BYTES || d->sector_bytes > PAGE_BYTES ||
        (d->sector_bytes & (d->sector_bytes - 1)) != 0)
        d->sector_bytes = VIRTIO_SECTOR_BYTES;
    d->read_only = disk->features & FEATURE_READ_ONLY;
    d->segments_max = disk->features & FEATURE_SEGMENTS_MAX ? r->segments_max : 1;
    d->segments_max = MIN(d->segments_max, MIN(BLOCK_SEGMENTS_MAX, disk->queue_size - 2u));
}

static void *memory_for_device(size_t bytes)
{
    size_t count = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    struct frame *f = frame_alloc_run(count);
    if (f == NULL)
        return NULL;
    return memset(frame_memory(f), 0, count * PAGE_BYTES);
}

static bool make_slots(struct disk *disk)
{
    struct descriptor *tables = memory_for_device(SLOT_COUNT * PAGE_BYTES);
    disk->memory = memory_for_device(PAGE_BYTES);
    if (tables == NULL || disk->memory == NULL)
        return false;
    for (uint16_t i = 0; i < SLOT_COUNT; i++) {
        disk->slots[i].table = tables + (size_t)i * TABLE_ENTRIES;
        disk->slots[i].next_free = i + 1;
        disk->descriptors[i].address = physical(disk->slots[i].table);
        disk->descriptors[i].flags = DESCRIPTOR_INDIRECT;
    }
    return true;
}

static void write_address(volatile uint32_t at[2], const volatile void *p)
{
    paddr_t address = physical((const void *)p);
    at[0] = (uint32_t)address;
    at[1] = (uint32_t)(address >> 32);
}

static bool make_queue(struct disk *disk, volatile uint8_t *notify_base, uint32_t notify_bytes,
                       uint32_t notify_factor)
{
    volatile struct common_registers *c = disk->common;
    c->queue_select = 0;
    disk->queue_size = MIN(c->queue_size, QUEUE_SIZE_MAX);
    if (disk->queue_size < SLOT_COUNT || (disk->queue_size & (disk->queue_size - 1)) != 0)
        return false;
    c->queue_size = disk->queue_size;
    disk->descriptors = memory_for_device(disk->queue_size * sizeof(struct descriptor));
    disk->available = memory_for_device(sizeof(struct available_ring));
    disk->used = memory_for_device(sizeof(struct used_ring));
    if (!disk->descriptors || !disk->available || !disk->used || !make_slots(disk))
        return false;
    write_address(c->queue_descriptors, disk->descriptors);
    write_address(c->queue_available, disk->available);
    write_address(c->queue_used, disk->used);
    uint64_t place = (uint64_t)c->queue_notify_offset * notify_factor;
    if (place + sizeof(uint16_t) > notify_bytes)
        return false;
    disk->notify = (volatile uint16_t *)(notify_base + place);
    c->msix_config = 0xffff;
    c->queue_msix = 0;
    if (c->queue_msix != 0)
        return false;
    c->queue_enable = 1;
    return true;
}

/* read_name gives the disk its serial as name; a disk without a serial is called "diskN". */
static void read_name(struct disk *disk, unsigned number)
{
    char *id = (char *)&disk->memory[SLOT_COUNT]; /* the rest of that page is unused */
    struct block_segment segment = {physical(id), ID_BYTES};
    struct block_request r;
    _Static_assert((SLOT_COUNT + 1) * sizeof(struct slot_memory) <= PAGE_BYTES, "room for the id");
    block_prepare(&r, &disk->device, BLOCK_IDENTIFY, 0, &segment, 1);
    if (block_run(&r) == 0)
        memcpy(disk->device.name, id, ID_BYTES);
    if (disk->device.name[0] == 0)
        snprintk(disk->device.name, sizeof disk->device.name, "disk%u", number);
}

static const char *set_up(struct disk *disk, const struct pci_device *p, unsigned number)
{
    unsigned common_at, disk_at, notify_at;
    pci_enable(p);
    disk->common = map_part(p, CONFIG_COMMON, sizeof *disk->common, &common_at);
    disk->registers = map_part(p, CONFIG_DEVICE, sizeof *disk->registers, &disk_at);
    volatile uint8_t *notify = map_part(p, CONFIG_NOTIFY, sizeof(uint16_t), &notify_at);
    if (disk->common == NULL || disk->registers == NULL || notify == NULL)
        return "no registers";
    if (!negotiate(disk))
        return "features are missing";
    if (pci_msix(p, interrupt, disk) < 0)
        return "no MSI-X";
    if (!make_queue(disk, notify, pci_read32(p, notify_at + 12), pci_read32(p, notify_at + 16)))
        return "no queue";
    read_geometry(disk);
    if (disk->device.segments_max < BLOCK_SEGMENTS_MIN)
        return "too few segments in a request";
    disk->common->status =
        STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
    read_name(disk, number);
    return NULL;
}

static bool caches_writes(const struct disk *disk)
{
    if (!(disk->features & FEATURE_CONFIG_WCE))
        return disk->features & FEATURE_FLUSH;
    return disk->registers->write_back != 0;
}

static void found(const struct pci_device *p, void *arg)
{
    unsigned *number = arg;
    struct disk *disk;
    if (p->vendor != 0x1af4 || p->id != 0x1042)
        return;
    disk = kalloc(sizeof *disk);
    if (disk == NULL)
        panic("no memory for a disk");
    lock_init(&disk->device.lock, RANK_BLOCK, "disk");
    list_init(&disk->device.active);
    list_init(&disk->pending);
    const char *failure = set_up(disk, p, (*number)++);
    if (failure != NULL) { /* its memory stays: the device may know of it */
        printk("virtio disk at PCI %02x:%02x.%u is not used: %s", p->bus, p->slot, p->function,
               failure);
        if (disk->common != NULL)
            disk->common->status = STATUS_FAILED;
        return;
    }
    block_register(&disk->device);
    printk("disk %s: virtio, %u segments a request, write cache %s", disk->device.name,
           disk->device.segments_max, caches_writes(disk) ? "on" : "off");
}

void virtio_blk_init(void)
{
    unsigned number = 0;
    pci_for(found, &number);
}
