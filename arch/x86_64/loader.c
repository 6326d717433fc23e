/*
 * loader.c - the first C code: turns what PVH or multiboot2 hands over into boot_info.
 *
 * All of it lies below 4 GiB, which the tables of start.S map. What is needed later is copied or
 * reserved; nothing is allocated before the whole map has been read.
 */
#include "x86.h"
#include "base/boot.h"
#include "interrupt.h"
#include "serial.h"

enum { MULTIBOOT2_LOADER = 0x36d76289, PVH_MAGIC = 0x336ec578, MEMORY_USABLE = 1 };

#define LOW_BYTES (1ull << 32)
struct memory_entry { uint64_t start, bytes; uint32_t type, reserved; };

static void memory_add(const struct memory_entry *e)
{
    if (e->type == MEMORY_USABLE && e->start + e->bytes > e->start)
        boot_add_memory(e->start, e->start + e->bytes);
}

static void module_add(paddr_t start, uint64_t bytes, const char *name)
{
    if (boot_info.module.bytes || start >= LOW_BYTES || bytes - 1 >= LOW_BYTES - start)
        return;
    struct boot_module *m = &boot_info.module;
    *m = (struct boot_module){.start = start, .bytes = bytes};
    strlcpy(m->name, name, sizeof m->name);
    /* The table's last page may be the RAM's last, which need not be a whole page. */
    boot_add_memory(start, page_up(start + bytes));
    boot_reserve(start, start + bytes);
}

/* ---- PVH: Xen's hvm_start_info ---- */

struct pvh_info {
    uint32_t magic, version, flags, module_count;
    uint64_t modules, line, rsdp, memory;
    uint32_t memory_count, reserved; /* of memory: since version 1 */
};
struct pvh_module { uint64_t start, bytes, line, reserved; };

static void pvh_read(const struct pvh_info *info)
{
    if (info->magic != PVH_MAGIC || info->version < 1)
        panic("the start info has magic %x, version %u", info->magic, info->version);
    boot_info.loader = "PVH";
    boot_info.rsdp = info->rsdp;
    const struct memory_entry *e = arch_phys(info->memory);
    for (uint32_t i = 0; i < info->memory_count; i++)
        memory_add(&e[i]);
    const struct pvh_module *m = arch_phys(info->modules);
    for (uint32_t i = 0; i < info->module_count; i++)
        module_add(m[i].start, m[i].bytes, m[i].line ? arch_phys(m[i].line) : "");
    if (info->line)
        boot_set_line(arch_phys(info->line));
}

/* ---- multiboot2: a list of tags ---- */

struct tag { uint32_t type, bytes; uint8_t data[]; };
enum { TAG_END = 0, TAG_LINE = 1, TAG_MODULE = 3, TAG_MEMORY = 6, TAG_RSDP1 = 14, TAG_RSDP2 = 15 };
struct tag_module { uint32_t start, end; char line[]; };
struct tag_memory { uint32_t entry_bytes, version; uint8_t entries[]; };

static void tag_read(const struct tag *t)
{
    const struct tag_module *module = (const void *)t->data;
    const struct tag_memory *memory = (const void *)t->data;
    switch (t->type) {
    case TAG_LINE: boot_set_line((const char *)t->data); break;
    case TAG_MODULE:
        if (t->bytes >= sizeof *t + sizeof *module && module->start < module->end)
            module_add(module->start, module->end - module->start, module->line);
        break;
    case TAG_MEMORY: /* GRUB makes it of UEFI's map, too */
        if (t->bytes >= sizeof *t + sizeof *memory && memory->entry_bytes % 8 == 0)
            for (uint32_t at = 16, n = memory->entry_bytes;
                 n >= sizeof(struct memory_entry) && n <= t->bytes - at; at += n)
                memory_add((const void *)((const uint8_t *)t + at));
        break;
    case TAG_RSDP1:
    case TAG_RSDP2: /* a copy of the structure; 2 comes later and is better */
        boot_info.rsdp = (paddr_t)t->data - DIRECT_BASE;
        break;
    }
}

static void multiboot_read(paddr_t info)
{
    uint32_t bytes = *(uint32_t *)arch_phys(info);
    boot_info.loader = "multiboot2";
    for (uint32_t at = 8; at + sizeof(struct tag) <= bytes;) {
        const struct tag *t = arch_phys(info + at);
        if (t->type == TAG_END || t->bytes < sizeof *t || t->bytes > bytes - at)
            break;
        tag_read(t);
        at += (t->bytes + 7) & ~7u;
    }
    boot_reserve(info, info + bytes); /* for the copy of ACPI's pointer */
}

_Noreturn void arch_boot(uint32_t magic, paddr_t info);
_Noreturn void arch_boot(uint32_t magic, paddr_t info)
{
    cpu_init_first();                 /* from here on a trap is reported */
    serial_init();
    boot_reserve(1 << 20, (paddr_t)kernel_end - KERNEL_BASE);
    if (magic == MULTIBOOT2_LOADER)
        multiboot_read(info);
    else
        pvh_read(arch_phys(info));
    smp_reserve();
    map_init();                       /* the kernel's own page tables */
    kmain();
}

void arch_init(void)
{
    if (!cpu_prepare(0))
        panic("no memory for a stack");
    acpi_init();
    interrupt_init();
    time_init();
}
