/*
 * parsers.c - the parsers of the kernel and of init on the host, under gcc's or clang's sanitizers.
 *
 * What the kernel takes apart that others wrote: programs (ELF), names of files, the command line,
 * what boot loaders hand over (multiboot2's tags, PVH's start info), the firmware's tables, what
 * PCI devices say of themselves. And what init does: archives (ustar), and the names in them. Their
 * files are included as they are; what they need of the machine is replaced below, by something
 * that checks what it is asked for: no mapping outside a program's part of memory, none writable
 * and executable, no byte read that is not in the file. Memory comes from malloc, in exact sizes,
 * so that one byte too far is seen.
 *
 * parse() is one input: its first byte says which parser (and by MEND that checksums are made right
 * first, or hardly any change would be looked at), the others are its input. libFuzzer calls it
 * (make fuzz), and so does tests/host/test_parsers.c, which changes good inputs byte by byte.
 */
#include "tests/host/kernel_names.h"
#define fd_set kernel_fd_set
#define pause kernel_pause
#include "kernel/base/string.c"
#undef NO_LIBRARY_CALLS
#include "kernel/base/format.c"
#include "kernel/base/boot.c"
#undef BLOCK
#include "kernel/linux/elf.c"
#include "kernel/file/file_tree.c"
#define root acpi_root
#include "arch/x86_64/acpi.c"
#undef root
#include "arch/x86_64/loader.c"
#define in32 device_in32
#define out32 device_out32
#define out16 device_out16
static uint32_t in32(uint16_t port);
static void out32(uint16_t port, uint32_t value);
static void out16(uint16_t port, uint16_t value);
#include "arch/x86_64/pci.c"
#undef in32
#undef out32
#undef out16
#include "tests/host/kernel_names.h"
#undef fd_set
#undef pause
#include "user/init/ustar.c"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum parser { PARSE_ELF, PARSE_USTAR, PARSE_LINE, PARSE_TAGS, PARSE_ACPI, PARSE_PATH, PARSE_PVH,
              PARSE_PCI, PARSERS };
enum { TABLES_AT = 0x10000, MEND = 0x80 };

static uint8_t *input;                  /* the bytes being parsed, alone in their block */
static bool mend;
static size_t input_bytes;
static struct cpu this_cpu;
static long seen;                       /* mappings, nodes, words: what the parser made of it */

/* ---- the machine ---- */

#define MUST(e) ((e) ? (void)0 : panic("%s, %s:%d", #e, __FILE__, __LINE__))

static jmp_buf refused;
/* a boot that cannot go on */
static const char refusal[] = "the start info has magic %x, version %u";

void panic(const char *format, ...)
{
    va_list arguments;
    if (!strcmp(format, refusal))
        longjmp(refused, 1);
    va_start(arguments, format);
    fprintf(stderr, "panic: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    abort();
}

void printk(const char *format, ...)
{
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintk(line, sizeof line, format, arguments);
    va_end(arguments);
    MUST(n >= 0 && strlen(line) < sizeof line);
}

void lock_acquire(struct lock *l) { MUST(!l->taken++); }
void lock_release(struct lock *l) { MUST(!--l->taken); }
void *kalloc(size_t bytes) { return bytes < 1 << 24 ? calloc(1, bytes) : NULL; }
void kfree(void *p) { free(p); }
void random_bytes(void *to, size_t bytes) { memset(to, 7, bytes); }

/* ---- programs ---- */

long node_read(struct node *n, void *to, size_t bytes, uint64_t at)
{
    (void)n;
    bytes = at < input_bytes ? MIN(bytes, input_bytes - at) : 0;
    memcpy(to, input + at, bytes);
    return (long)bytes;
}

long vm_map(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection, unsigned flags,
            const struct vm_source *source)
{
    (void)p, (void)flags;
    MUST(at % PAGE_BYTES == 0 && at >= VM_START && bytes && bytes <= VM_END &&
         at <= VM_END - bytes);
    MUST((protection & (VM_WRITE | VM_EXECUTE)) != (VM_WRITE | VM_EXECUTE));
    if (source && source->node)
        MUST(source->file_bytes <= input_bytes &&
             source->offset_bytes <= input_bytes - source->file_bytes &&
             source->file_bytes <= bytes && source->offset_bytes % PAGE_BYTES == 0);
    seen++;
    return (long)at;
}

int vm_copy_to(struct process *p, vaddr_t at, const void *from, size_t bytes)
{
    (void)p;
    MUST(at < VM_END && bytes <= VM_END - at);
    void *copy = malloc(bytes);
    memcpy(copy, from, bytes); /* all of it is there to be read */
    free(copy);
    return 0;
}

static void parse_elf(void)
{
    const char *argv[] = {"program", "with", "words", NULL}, *envp[] = {"A=B", NULL};
    struct process p = {0};
    struct node file = {.kind = NODE_PLACE, .mode = 0755, .bytes = input_bytes};
    vaddr_t entry = 0, stack = 0;
    int error = elf_load(&p, &file, "/bin/program", argv, envp, &entry, &stack);
    MUST(error <= 0);
    if (!error)
        MUST(entry >= VM_START && entry < VM_IMAGE_END && stack < VM_END &&
             p.brk.start > VM_START && p.brk.start <= VM_IMAGE_END);
    seen = error ? 0 : seen;
}

/* ---- archives and names ---- */

void memory_free(struct node *n) { (void)n; }

static void tree_empty(struct node *folder)
{
    while (!list_empty(&folder->children)) {
        struct node *n = list_first(&folder->children, struct node, link);
        if (n->kind == NODE_FOLDER)
            tree_empty(n);
        child_unlink(n);
        node_put(n);
    }
}

static int archive_read(struct ustar_source *s, uint64_t offset, uint8_t *block)
{
    MUST(offset <= s->bytes && BLOCK <= s->bytes - offset);
    memcpy(block, input + offset, BLOCK);
    return 0;
}

static int archive_add(struct ustar_source *s, const char *path, bool folder, uint64_t offset,
                       uint64_t bytes)
{
    const struct node whole = {.kind = NODE_DISK, .bytes = s->bytes};
    MUST(folder || (offset <= s->bytes && bytes <= s->bytes - offset));
    return node_part(node_root(), path, folder ? NULL : &whole, offset, bytes);
}

static void archive_say(const char *text) { MUST(strlen(text) < 256); }

/* Every file's bytes lie in the archive, every name is one. */
static void tree_check(struct node *folder, unsigned depth)
{
    MUST(depth <= FILE_DEPTH_MAX);
    list_for (l, &folder->children) {
        const struct node *n = container_of(l, struct node, link);
        MUST(n->parent == folder && n->name[0] && !strchr(n->name, '/') && strcmp(n->name, ".") &&
             strcmp(n->name, ".."));
        if (n->kind == NODE_DISK)
            MUST(n->start <= input_bytes && n->bytes <= input_bytes - n->start);
        if (n->kind == NODE_FOLDER)
            tree_check(container_of(l, struct node, link), depth + 1);
        seen++;
    }
}

static void ustar_mend(uint8_t *block)
{
    struct ustar_header *h = (void *)block;
    unsigned sum = 0;
    memset(h->checksum, ' ', sizeof h->checksum);
    for (size_t i = 0; i < BLOCK; i++)
        sum += block[i];
    snprintf(h->checksum, sizeof h->checksum, "%06o", sum);
}

static void parse_ustar(void)
{
    for (size_t at = 0; mend && at + BLOCK <= input_bytes; at += BLOCK)
        if (!memcmp(input + at + offsetof(struct ustar_header, magic), "ustar", 5))
            ustar_mend(input + at);
    struct ustar_source s = {
        .read = archive_read, .add = archive_add, .say = archive_say, .bytes = input_bytes,
        .folder = "", .name = "archive"
    };
    ustar_add(&s);
    tree_check(node_root(), 0);
}

/* Names, one after the other: made, found, moved, removed. */
static void parse_path(void)
{
    char path[2][FILE_PATH_MAX];
    size_t at = 0;
    for (unsigned turn = 0; at < input_bytes; turn++) {
        char *to = path[turn % 2];
        size_t n = 0;
        unsigned what = input[at++];
        while (at < input_bytes && input[at] && n < FILE_PATH_MAX - 1)
            to[n++] = (char)input[at++];
        to[n] = 0;
        at++;
        struct node *found = NULL;
        int error =
            what % 4 == 0   ? node_find(node_root(), to, &found)
            : what % 4 == 1 ? node_make(node_root(), to, what & 4 ? NODE_FOLDER : NODE_MEMORY, 0755,
                                        false, &found)
            : what % 4 == 2
                ? node_remove(node_root(), to, what & 4)
                : node_rename(node_root(), path[(turn + 1) % 2], node_root(), to, (what >> 2) % 3);
        char text[FILE_PATH_MAX + 1] = "";
        if (error || !found)
            continue;
        MUST(node_path(found, text, sizeof text - 1) != 0);
        node_put(found);
    }
    tree_check(node_root(), 0);
}

/* ---- what the machine says of itself ---- */

static void parse_line(void)
{
    char *text = calloc(1, input_bytes + 1);
    memcpy(text, input, input_bytes);
    boot_set_line(text);
    MUST(strnlen(boot_info.line, BOOT_LINE_BYTES) < BOOT_LINE_BYTES);
    static const char *const names[] = {"log", "seed", "epoch", "check_ms", "a", ""};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *value = kernel_option(names[i]);
        MUST(!value ||
             (value > boot_info.words &&
              value + strlen(value) < boot_info.words + BOOT_LINE_BYTES));
        seen += value != NULL;
    }
    free(text);
}

static bool pvh; /* its addresses may be any: each is made one in the input */

void *arch_phys(paddr_t pa)
{
    MUST(pvh || pa <= input_bytes);
    return input + (pvh ? pa % (input_bytes + 1) / 8 * 8 : pa);
}

static void boot_info_check(void)
{
    for (unsigned i = 0; i < boot_info.memory_count; i++)
        MUST(boot_info.memory[i].start < boot_info.memory[i].end);
    const struct boot_module *m = &boot_info.module;
    MUST(!m->bytes || (m->start < 1ull << 32 && m->bytes <= (1ull << 32) - m->start));
    seen = boot_info.memory_count + (m->bytes != 0);
}

static void parse_tags(void)
{
    if (input_bytes < 8)
        return;
    *(uint32_t *)input = (uint32_t)input_bytes; /* the loader is believed in this */
    multiboot_read(0);
    boot_info_check();
}

/* Entries of a list that lie in the input, of `count`; no more than boot_info has room for. */
static uint32_t inside(paddr_t list, uint32_t count, size_t each)
{
    size_t room = (size_t)(input + input_bytes - (uint8_t *)arch_phys(list)) / each;
    return (uint32_t)MIN(MIN(count, room), BOOT_RANGES_MAX - 1);
}

static void parse_pvh(void)
{
    struct pvh_info *info = (void *)input;
    if (input_bytes < sizeof *info)
        return;
    pvh = true; /* the loader is believed in where its lists lie, and how long they are */
    info->memory_count = inside(info->memory, info->memory_count, sizeof(struct memory_entry));
    info->module_count = inside(info->modules, info->module_count, sizeof(struct pvh_module));
    if (!setjmp(refused)) {
        pvh_read(info);
        boot_info_check();
    }
    pvh = false;
}

void *arch_map_device(paddr_t pa, size_t bytes)
{
    pa -= TABLES_AT;
    return pa <= input_bytes && bytes <= input_bytes - pa ? input + pa : NULL;
}

static void table_mend(uint8_t *from, size_t bytes, size_t sum_at)
{
    uint8_t sum = 0;
    from[sum_at] = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = (uint8_t)(sum + from[i]);
    from[sum_at] = (uint8_t)-sum;
}

static void parse_acpi(void)
{
    for (size_t at = 0; mend && at + sizeof(struct table) <= input_bytes; at += 16) {
        struct table *t = (void *)(input + at);
        if (!memcmp(t, "RSD PTR ", 8))
            table_mend(input + at, 20, 8);
        else if (t->signature[0] >= 'A' && t->bytes <= input_bytes - at && t->bytes >= sizeof *t)
            table_mend(input + at, t->bytes, offsetof(struct table, sum));
    }
    root_table = NULL;
    acpi_machine = (struct acpi_machine){.cpu_count = 1};
    boot_info.rsdp = TABLES_AT;
    acpi_init();
    (void)acpi_find("FACP");
    MUST(acpi_machine.cpu_count >= 1 && acpi_machine.cpu_count <= CPU_MAX);
    seen = acpi_machine.cpu_count;
}

/* ---- PCI: 256 bytes of each device, which keeps all that is written ---- */

static uint32_t device_selected;

static uint8_t *device_register(unsigned bytes)
{
    size_t at = (device_selected >> 11 & 0x1fff) * 256 + (device_selected & 0xfc);
    return (device_selected >> 8 & 7) == 0 && at + bytes <= input_bytes ? input + at : NULL;
}
static uint32_t device_in32(uint16_t port)
{
    uint32_t value = ~0u;
    MUST(port == PORT_DATA);
    if (device_register(4))
        memcpy(&value, device_register(4), 4);
    return value;
}
static void device_out32(uint16_t port, uint32_t value)
{
    if (port == PORT_ADDRESS)
        device_selected = value;
    else if (device_register(4))
        memcpy(device_register(4), &value, 4);
}
static void device_out16(uint16_t port, uint16_t value)
{
    MUST(port == PORT_DATA || port == PORT_DATA + 2);
    if (device_register(4))
        memcpy(device_register(4) + port % 4, &value, 2);
}

int arch_vector_alloc(void (*handler)(void *), void *arg)
{
    return handler || arg ? -ENOSPC : 0x40;
}
struct cpu cpus[1];

static void device_take(const struct pci_device *d, void *arg)
{
    (void)arg;
    unsigned at, n = 0;
    for (; (at = pci_capability(d, PCI_CAPABILITY_VENDOR, n)) != 0; n++)
        MUST(at >= 0x40 && at <= 0xfc && n < 64); /* also if the list loops */
    for (unsigned bar = 0; bar < 6; bar++)
        (void)!pci_map_bar(d, bar, 0, 16);
    seen += 1 + (pci_msix(d, NULL, NULL) == 0);
}

static void parse_pci(void) { pci_for(device_take, NULL); }

char kernel_end[1];
void cpu_init_first(void) { abort(); }
bool cpu_prepare(unsigned id) { return id > 0; }
void serial_init(void) { abort(); }
void serial_input_init(void) { abort(); }
void map_init(void) { abort(); }
void smp_reserve(void) { abort(); }
void interrupt_init(void) { abort(); }
void time_init(void) { abort(); }
void kmain(void) { abort(); }

/* ---- one input ---- */

static void parsers_init(void)
{
    this_cpu.self = &this_cpu;
    clock_scale = 1;
    if (syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, &this_cpu))
        abort();
    static uint8_t nothing[8];
    input = nothing; /* where the module would lie, of which there is none */
    file_tree_init();
    tree_empty(node_root());
    node_root()->read_only = false; /* names that are tried are made there */
}

uint64_t clock_scale;

/* What it made of the input: 0, it was refused or empty. */
static long parse(const uint8_t *bytes, size_t count)
{
    static void (*const parsers[PARSERS])(void) = {
        parse_elf, parse_ustar, parse_line, parse_tags, parse_acpi, parse_path, parse_pvh, parse_pci
    };
    if (!count)
        return 0;
    if (!this_cpu.self)
        parsers_init();
    enum parser parser = (bytes[0] & ~MEND) % PARSERS;
    size_t room = count - 1; /* a loader's last string may end behind its list: */
    room += parser == PARSE_TAGS || parser == PARSE_PVH;
    uint8_t *copy = calloc(1, room ? room : 1);
    memcpy(copy, bytes + 1, count - 1);
    input = copy;
    input_bytes = count - 1;
    memset(&boot_info, 0, sizeof boot_info);
    seen = 0;
    mend = bytes[0] & MEND;
    parsers[parser]();
    tree_empty(node_root());
    free(copy);
    return seen;
}

#ifdef FUZZ_PARSERS
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    parse(bytes, count);
    return 0;
}
#endif
