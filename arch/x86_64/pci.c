/*
 * pci.c - PCI devices by configuration mechanism 1 (ports 0xcf8 and 0xcfc).
 *
 * Owns      the two ports. Not here: assigning addresses, which the firmware has done.
 *
 * Nothing that a device says is believed without a check: capability lists may loop, BARs may lie
 * anywhere in 64 bits, or nowhere.
 *
 * Locks: none. Runs at boot, in one CPU.
 */
#include "pci.h"
#include "interrupt.h"
#include "x86.h"

#define PORT_ADDRESS 0xcf8
#define PORT_DATA    0xcfc

enum {
    REGISTER_ID = 0x00, REGISTER_COMMAND = 0x04, REGISTER_STATUS = 0x06, REGISTER_CLASS = 0x0a,
    REGISTER_HEADER = 0x0e, REGISTER_BAR = 0x10, REGISTER_SECONDARY_BUS = 0x19,
    REGISTER_CAPABILITIES = 0x34,
};
enum { COMMAND_MEMORY = 2, COMMAND_MASTER = 4, COMMAND_NO_INTX = 0x400 };
enum { STATUS_CAPABILITIES = 0x10 };
enum { HEADER_KIND = 0x7f, HEADER_BRIDGE = 1, HEADER_MULTIFUNCTION = 0x80, CLASS_BRIDGE = 0x0604 };
enum { BUS_DEPTH_MAX = 8 };

/* ---- configuration space ---- */

static void select_register(const struct pci_device *d, unsigned offset)
{
    out32(PORT_ADDRESS, 1u << 31 | (uint32_t)d->bus << 16 | (uint32_t)d->slot << 11 |
                            (uint32_t)d->function << 8 | (offset & 0xfc));
}

uint32_t pci_read32(const struct pci_device *d, unsigned offset)
{
    select_register(d, offset);
    return in32(PORT_DATA);
}

static uint16_t read16(const struct pci_device *d, unsigned offset)
{
    return (uint16_t)(pci_read32(d, offset) >> (offset & 2) * 8);
}

uint8_t pci_read8(const struct pci_device *d, unsigned offset)
{
    return (uint8_t)(pci_read32(d, offset) >> (offset & 3) * 8);
}

static void write32(const struct pci_device *d, unsigned offset, uint32_t value)
{
    select_register(d, offset);
    out32(PORT_DATA, value);
}

static void write16(const struct pci_device *d, unsigned offset, uint16_t value)
{
    select_register(d, offset);
    out16(PORT_DATA + (offset & 2), value);
}

/* ---- finding devices ---- */

struct search {
    void (*fn)(const struct pci_device *d, void *arg);
    void *arg;
};

static void scan_bus(const struct search *s, uint8_t bus, unsigned depth);

/* scan_function tells fn of a device; true: there is one, and other functions may be beside it. */
static bool scan_function(const struct search *s, struct pci_device *d, unsigned depth)
{
    uint32_t id = pci_read32(d, REGISTER_ID);
    uint8_t secondary;
    if ((uint16_t)id == 0xffff)
        return false;
    d->vendor = (uint16_t)id;
    d->id = (uint16_t)(id >> 16);
    s->fn(d, s->arg);
    uint8_t header = pci_read8(d, REGISTER_HEADER);
    if ((header & HEADER_KIND) == HEADER_BRIDGE && read16(d, REGISTER_CLASS) == CLASS_BRIDGE) {
        secondary = pci_read8(d, REGISTER_SECONDARY_BUS);
        if (secondary > d->bus && depth < BUS_DEPTH_MAX)
            scan_bus(s, secondary, depth + 1);
    }
    return header & HEADER_MULTIFUNCTION;
}

static void scan_bus(const struct search *s, uint8_t bus, unsigned depth)
{
    for (uint8_t slot = 0; slot < 32; slot++) {
        struct pci_device d = {.bus = bus, .slot = slot};
        if (scan_function(s, &d, depth))
            for (d.function = 1; d.function < 8; d.function++)
                (void)scan_function(s, &d, depth);
    }
}

void pci_for(void (*fn)(const struct pci_device *d, void *arg), void *arg)
{
    struct search s = {fn, arg};
    scan_bus(&s, 0, 0);
}

unsigned pci_capability(const struct pci_device *d, uint8_t id, unsigned n)
{
    unsigned at = REGISTER_CAPABILITIES;
    if (!(read16(d, REGISTER_STATUS) & STATUS_CAPABILITIES))
        return 0;
    for (unsigned steps = 0; steps < 64; steps++, at++) {
        at = pci_read8(d, at) & 0xfcu;
        if (at < 0x40)
            break;
        if (pci_read8(d, at) == id && n-- == 0)
            return at;
    }
    return 0;
}

/* ---- memory and interrupts ---- */

void pci_enable(const struct pci_device *d)
{
    uint16_t command = read16(d, REGISTER_COMMAND);
    write16(d, REGISTER_COMMAND, command | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTX);
}

/* bar_word reads a word of a BAR; *mask: what can be changed of it. */
static uint32_t bar_word(const struct pci_device *d, unsigned at, uint32_t *mask)
{
    uint32_t value = pci_read32(d, at);
    write32(d, at, ~0u);
    *mask = pci_read32(d, at);
    write32(d, at, value);
    return value;
}

/* bar_range: where a memory BAR lies, and how long it is: the bits below its size stay zero when
 * ones are written. */
static paddr_t bar_range(const struct pci_device *d, unsigned bar, uint64_t *bytes)
{
    unsigned at = REGISTER_BAR + 4 * bar;
    uint16_t command = read16(d, REGISTER_COMMAND);
    uint32_t low_mask, high_mask = ~0u, high = 0;
    *bytes = 0;
    if (bar > 5 || (pci_read32(d, at) & 1)) /* an I/O BAR */
        return 0;
    write16(d, REGISTER_COMMAND, (uint16_t)(command & ~COMMAND_MEMORY)); /* it answers nowhere */
    uint32_t low = bar_word(d, at, &low_mask);
    if ((low & 6) == 4 && bar < 5)
        high = bar_word(d, at + 4, &high_mask);
    write16(d, REGISTER_COMMAND, command);
    *bytes = -((uint64_t)high_mask << 32 | (low_mask & ~0xfu));
    return (paddr_t)high << 32 | (low & ~0xfu);
}

void *pci_map_bar(const struct pci_device *d, unsigned bar, uint64_t offset, uint64_t bytes)
{
    uint64_t bar_bytes;
    paddr_t start = bar_range(d, bar, &bar_bytes);
    if (start == 0 || offset > bar_bytes || bytes > bar_bytes - offset)
        return NULL;
    return arch_map_device(start + offset, bytes);
}

struct msix_entry { uint32_t address_low, address_high, data, masked; };
#define MSI_ADDRESS 0xfee00000u /* and the number of the local APIC that gets the interrupt */
enum { MSIX_CONTROL = 2, MSIX_TABLE = 4, MSIX_ENABLE = 0x8000, MSIX_MASK_ALL = 0x4000 };

int pci_msix(const struct pci_device *d, void (*handler)(void *), void *arg)
{
    unsigned at = pci_capability(d, PCI_CAPABILITY_MSIX, 0);
    if (at == 0)
        return -ENODEV;
    uint32_t place = pci_read32(d, at + MSIX_TABLE);
    uint16_t control = read16(d, at + MSIX_CONTROL);
    volatile struct msix_entry *table = pci_map_bar(d, place & 7, place & ~7u,
                        ((control & 0x7ffu) + 1) * sizeof(struct msix_entry));
    if (table == NULL)
        return -ENXIO;
    int vector = arch_vector_alloc(handler, arg);
    if (vector < 0)
        return vector;
    write16(d, at + MSIX_CONTROL, control | MSIX_ENABLE | MSIX_MASK_ALL);
    table[0].address_low = MSI_ADDRESS | cpus[0].apic_id << 12;
    table[0].address_high = table[0].masked = 0;
    table[0].data = (uint32_t)vector;
    write16(d, at + MSIX_CONTROL, (uint16_t)((control | MSIX_ENABLE) & ~MSIX_MASK_ALL));
    return 0;
}
