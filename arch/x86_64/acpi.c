/*
 * acpi.c - finds the CPUs and the interrupt controller in the firmware's tables.
 *
 * What the tables say is input: lengths are checked, and a table with a wrong sum does not exist.
 * They do not lie in RAM (map.c's direct map), so they are mapped as devices, for ever.
 */
#include "base/boot.h"
#include "x86.h"

struct root {
    char signature[8];
    uint8_t sum;
    char maker[6];
    uint8_t revision;
    uint32_t rsdt, bytes;
    uint64_t xsdt;
} __attribute__((packed));

struct table {
    char signature[4];
    uint32_t bytes;
    uint8_t revision, sum;
    char maker[6], model[8];
    uint32_t version, creator, creator_version;
    uint8_t data[];
} __attribute__((packed));
_Static_assert(sizeof(struct table) == 36, "ACPI's table header");

enum { MADT_CPU = 0, MADT_IO_APIC = 1, MADT_OVERRIDE = 2 };
enum { CPU_ENABLED = 1, TABLE_BYTES_MAX = 1 << 20 };
enum { CONSOLE_ISA_INTERRUPT = 4, FADT_PM1A = 64, FADT_TIMER = 76, PM_SLEEP = 1 << 13 };

struct acpi_machine acpi_machine = {.cpu_count = 1, .console_interrupt = CONSOLE_ISA_INTERRUPT};
static const struct table *root_table;
static bool root_is_wide; /* entries of 8 bytes */

static bool sum_is_zero(const void *p, size_t n)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)p)[i]);
    return sum == 0;
}

static uint64_t get(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static const struct table *table_map(paddr_t pa)
{
    const struct table *t = pa ? arch_map_device(pa, sizeof *t) : NULL;
    if (!t || t->bytes < sizeof *t || t->bytes > TABLE_BYTES_MAX)
        return NULL;
    t = arch_map_device(pa, t->bytes);
    return t && sum_is_zero(t, t->bytes) ? t : NULL;
}

/* A table by its signature, mapped and verified, or NULL. */
static const struct table *acpi_find(const char *signature)
{
    unsigned width = root_is_wide ? 8 : 4;
    for (uint32_t at = 0; root_table && at + width <= root_table->bytes - sizeof *root_table;
         at += width) {
        const struct table *t = table_map(get(root_table->data + at, width));
        if (t && memcmp(t->signature, signature, 4) == 0)
            return t;
    }
    return NULL;
}

static void madt_entry(const uint8_t *e)
{
    if (e[0] == MADT_CPU && e[1] >= 8) {
        bool other = (get(e + 4, 4) & CPU_ENABLED) && e[3] != acpi_machine.apic_ids[0];
        if (other && acpi_machine.cpu_count < CPU_MAX)
            acpi_machine.apic_ids[acpi_machine.cpu_count++] = e[3];
    } else if (e[0] == MADT_IO_APIC && e[1] >= 12 && !acpi_machine.io_apic) {
        acpi_machine.io_apic = get(e + 4, 4);
        acpi_machine.io_apic_base = (uint32_t)get(e + 8, 4);
    } else if (e[0] == MADT_OVERRIDE && e[1] >= 10 && e[3] == CONSOLE_ISA_INTERRUPT) {
        acpi_machine.console_interrupt = (uint32_t)get(e + 4, 4);
        acpi_machine.console_flags = (uint16_t)get(e + 8, 2);
    }
}

void acpi_init(void)
{
    const struct root *root = NULL;
    acpi_machine.apic_ids[0] = (uint8_t)(cpuid(1).b >> 24);
    if (boot_info.rsdp)
        root = arch_map_device(boot_info.rsdp, sizeof *root);
    if (root && memcmp(root->signature, "RSD PTR ", 8) == 0) {
        root_is_wide = root->revision >= 2 && root->xsdt;
        root_table = table_map(root_is_wide ? root->xsdt : root->rsdt);
    }
    const struct table *madt = acpi_find("APIC");
    for (uint32_t at = 8; madt && at + 2 <= madt->bytes - sizeof *madt;) {
        const uint8_t *e = madt->data + at;
        if (e[1] < 2 || at + e[1] > madt->bytes - sizeof *madt)
            break;
        madt_entry(e);
        at += e[1];
    }
    if (!madt)
        printk("acpi: no table of CPUs: using one\n");
}

/* A port that the FADT names at this offset; 0: it has none. */
static uint16_t fixed_port(uint32_t offset)
{
    const struct table *fadt = acpi_find("FACP");
    return fadt && fadt->bytes >= offset + 4 ? (uint16_t)get((const uint8_t *)fadt + offset, 4) : 0;
}

uint16_t acpi_timer_port(void) { return fixed_port(FADT_TIMER); }

/* Sleep state 5 has type 0 in the machines that QEMU makes; a real one names it in its DSDT. */
void acpi_power_off(void)
{
    uint16_t port = fixed_port(FADT_PM1A);
    if (port)
        out16(port, PM_SLEEP);
}
