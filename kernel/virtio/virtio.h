/*
 * virtio.h - virtio 1.x over PCI: a device's features, and queues of buffers that it shares.
 *
 * VQ3  The available index moves after the descriptors are complete; the used ring is read after
 *      its index.
 * VQ4  Whatever is offered is notified, also when the device says that it looks by itself
 *      (VIRTQ_USED_F_NO_NOTIFY): to trust that word, the store of the available index has to be
 *      seen before it is read, and with one CPU QEMU's TCG drops the fences that would see to it,
 *      though its device runs in another thread. The word to the device is a fence by itself.
 */
#ifndef KERNEL_VIRTIO_H
#define KERNEL_VIRTIO_H

#include "base/kernel.h"
#include "pci.h"

enum { VIRTIO_BLOCK = 0x1042, VIRTIO_SERIAL = 0x1043 };
#define VIRTIO_INDIRECT  (1ull << 28)
#define VIRTIO_VERSION_1 (1ull << 32)

struct virtio_descriptor { uint64_t address; uint32_t bytes; uint16_t flags, next; };
enum { VIRTIO_NEXT = 1, VIRTIO_DEVICE_WRITES = 2, VIRTIO_IS_INDIRECT = 4 };

struct virtio_device {
    volatile struct virtio_common *common;
    volatile void *registers;          /* of its kind */
    volatile uint8_t *notify;
    uint32_t notify_bytes, notify_factor;
    uint64_t features;                 /* that both have */
};

enum { VIRTQ_SIZE_MAX = 256 };
struct virtq {
    uint16_t number, size, used_seen, available_index;
    struct virtio_descriptor *descriptors;
    volatile struct virtio_available *available;
    volatile struct virtio_used *used;
    volatile uint16_t *notify;
};

/* virtio_for has set_up() begin with each device of this kind: NULL, or what is wrong with it,
 * which the log tells. What the device knows of stays its own. */
void virtio_for(uint16_t id, const char *(*set_up)(const struct pci_device *p));
/* virtio_begin maps the registers, of which those of its kind have so many bytes, agrees upon
 * features, and lets the device call handler(arg) in CPU 0. NULL, or what is wrong. */
const char *virtio_begin(struct virtio_device *v, const struct pci_device *p, uint32_t bytes,
                         uint64_t needed, uint64_t wanted, void (*handler)(void *), void *arg);
/* virtq_make gives the device queue `number`, of as many entries as it offers, but not more than
 * `most`. False: it offers fewer than `least`, or there is no memory. */
must_check bool virtq_make(struct virtio_device *v, struct virtq *q, uint16_t number,
                           uint16_t least, uint16_t most);
void virtio_ready(struct virtio_device *v);  /* all queues are made: it may use them */
/* virtio_failed tells the device that it is not used, and returns `why`. */
const char *virtio_failed(struct virtio_device *v, const char *why);
/* virtio_memory takes memory in one piece, zeroed, for ever. NULL: there is none. */
void *virtio_memory(size_t bytes);
paddr_t virtio_address(const volatile void *memory); /* of such */
uint8_t virtio_generation(const struct virtio_device *v); /* changes with its registers */
/* virtq_offer gives descriptor `head` to the device; virtq_notify tells it so (VQ4), which is slow
 * in an emulator. */
void virtq_offer(struct virtq *q, uint16_t head);
static inline void virtq_notify(const struct virtq *q) { *q->notify = q->number; }
/* virtq_used: how many have come back; more than were offered: the device's index is wrong. */
uint16_t virtq_used(const struct virtq *q);
/* virtq_take takes the next of those, and what the device says of it, which is input. */
void virtq_take(struct virtq *q, uint32_t *head, uint32_t *bytes);

#endif
