/*
 * virtio.c - virtio 1.x over PCI: a device's features, and queues of buffers that it shares.
 *
 * Owns      the standard's layouts of registers and rings.
 * Not here  what is in a queue's buffers, and who waits for them (the drivers).
 *
 * Locks: none. Set-up runs at boot; a queue is guarded by its driver's lock.
 */
#include "virtio/virtio.h"

#include "memory/frame.h"

#include "arch.h"

struct virtio_available { uint16_t flags, index, heads[VIRTQ_SIZE_MAX]; };
struct virtio_used {
    uint16_t flags, index;
    struct { uint32_t head, bytes; } done[VIRTQ_SIZE_MAX];
};

struct virtio_common {
    uint32_t device_feature_select, device_feature, driver_feature_select, driver_feature;
    uint16_t msix_config, queue_count;
    uint8_t status, generation;
    uint16_t queue_select, queue_size, queue_msix, queue_enable, queue_notify_offset;
    uint32_t queue_descriptors[2], queue_available[2], queue_used[2];
};
_Static_assert(offsetof(struct virtio_common, queue_used) == 48, "virtio 1.0, 4.1.4.3");

enum { VENDOR = 0x1af4 };
enum { CONFIG_COMMON = 1, CONFIG_NOTIFY = 2, CONFIG_DEVICE = 4 };
enum { STATUS_ACKNOWLEDGE = 1, STATUS_DRIVER = 2, STATUS_DRIVER_OK = 4, STATUS_FEATURES_OK = 8,
       STATUS_FAILED = 128 };
enum { CONFIG_NO_VECTOR = 0xffff };

/* ---- set-up ---- */

struct kind { uint16_t id; const char *(*set_up)(const struct pci_device *p); };

static void found(const struct pci_device *p, void *arg)
{
    const struct kind *k = arg;
    const char *why = p->vendor == VENDOR && p->id == k->id ? k->set_up(p) : NULL;
    if (why)
        printk("virtio device at PCI %02x:%02x.%u is not used: %s", p->bus, p->slot, p->function,
               why);
}

void virtio_for(uint16_t id, const char *(*set_up)(const struct pci_device *p))
{
    struct kind k = {id, set_up};
    pci_for(found, &k);
}

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

static bool negotiate(struct virtio_device *v, uint64_t needed, uint64_t wanted)
{
    volatile struct virtio_common *c = v->common;
    c->status = 0;
    while (c->status != 0)
        arch_spin_hint(); /* the reset takes as long as it takes */
    c->status = STATUS_ACKNOWLEDGE;
    c->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
    c->device_feature_select = 0;
    uint64_t offered = c->device_feature;
    c->device_feature_select = 1;
    offered |= (uint64_t)c->device_feature << 32;
    v->features = offered & (needed | wanted);
    if ((v->features & needed) != needed)
        return false;
    c->driver_feature_select = 0;
    c->driver_feature = (uint32_t)v->features;
    c->driver_feature_select = 1;
    c->driver_feature = (uint32_t)(v->features >> 32);
    c->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
    return c->status & STATUS_FEATURES_OK;
}

const char *virtio_begin(struct virtio_device *v, const struct pci_device *p, uint32_t bytes,
                         uint64_t needed, uint64_t wanted, void (*handler)(void *), void *arg)
{
    unsigned common_at, registers_at, notify_at;
    pci_enable(p);
    v->common = map_part(p, CONFIG_COMMON, sizeof *v->common, &common_at);
    v->registers = map_part(p, CONFIG_DEVICE, bytes, &registers_at);
    v->notify = map_part(p, CONFIG_NOTIFY, sizeof(uint16_t), &notify_at);
    if (!v->common || !v->registers || !v->notify)
        return v->common ? virtio_failed(v, "no registers") : "no registers";
    v->notify_bytes = pci_read32(p, notify_at + 12);
    v->notify_factor = pci_read32(p, notify_at + 16);
    if (!negotiate(v, needed, wanted))
        return virtio_failed(v, "features are missing");
    v->common->msix_config = CONFIG_NO_VECTOR;
    return pci_msix(p, handler, arg) < 0 ? virtio_failed(v, "no MSI-X") : NULL;
}

void virtio_ready(struct virtio_device *v)
{
    v->common->status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
}

const char *virtio_failed(struct virtio_device *v, const char *why)
{
    v->common->status = STATUS_FAILED;
    return why;
}

uint8_t virtio_generation(const struct virtio_device *v) { return v->common->generation; }

/* ---- queues ---- */

void *virtio_memory(size_t bytes)
{
    size_t count = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    struct frame *f = frame_alloc_run(count);
    return f ? memset(frame_memory(f), 0, count * PAGE_BYTES) : NULL;
}

paddr_t virtio_address(const volatile void *memory)
{
    return (paddr_t)((const volatile char *)memory - (const char *)arch_phys(0));
}

static void write_address(volatile uint32_t at[2], const volatile void *memory)
{
    paddr_t address = virtio_address(memory);
    at[0] = (uint32_t)address;
    at[1] = (uint32_t)(address >> 32);
}

bool virtq_make(struct virtio_device *v, struct virtq *q, uint16_t number, uint16_t least,
                uint16_t most)
{
    volatile struct virtio_common *c = v->common;
    c->queue_select = number;
    q->number = number;
    q->size = MIN(c->queue_size, MIN(most, VIRTQ_SIZE_MAX));
    if (q->size < least || (q->size & (q->size - 1)) != 0)
        return false;
    c->queue_size = q->size;
    uint64_t place = (uint64_t)c->queue_notify_offset * v->notify_factor;
    if (place + sizeof(uint16_t) > v->notify_bytes)
        return false;
    q->notify = (volatile uint16_t *)(v->notify + place);
    size_t table = q->size * sizeof(struct virtio_descriptor);
    size_t rings = sizeof(struct virtio_available) + sizeof(struct virtio_used);
    char *memory = virtio_memory(table + rings);
    if (!memory)
        return false;
    q->descriptors = (void *)memory;
    q->used = (void *)(memory + table); /* it wants to lie at 4, the other at 2 */
    q->available = (void *)(memory + table + sizeof(struct virtio_used));
    write_address(c->queue_descriptors, q->descriptors);
    write_address(c->queue_available, q->available);
    write_address(c->queue_used, q->used);
    c->queue_msix = 0;
    if (c->queue_msix != 0)
        return false;
    c->queue_enable = 1;
    return true;
}

void virtq_offer(struct virtq *q, uint16_t head)
{
    q->available->heads[q->available_index % q->size] = head;
    __atomic_thread_fence(__ATOMIC_RELEASE); /* VQ3 */
    q->available->index = ++q->available_index;
}

uint16_t virtq_used(const struct virtq *q) { return (uint16_t)(q->used->index - q->used_seen); }

void virtq_take(struct virtq *q, uint32_t *head, uint32_t *bytes)
{
    unsigned at = q->used_seen++ % q->size;
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* VQ3 */
    *head = q->used->done[at].head;
    *bytes = q->used->done[at].bytes;
}
