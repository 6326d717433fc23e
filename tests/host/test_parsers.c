/*
 * test_parsers.c - what the kernel and init take apart that others wrote, changed in every byte.
 *
 * Aim     whatever a program file, an archive, a command line, the boot loader's or the firmware's
 *         tables say, the parser stays inside them and asks for nothing that it must not.
 * Method  tests/fuzz/parsers.c, built with gcc's sanitizers. A good input of each kind is taken
 *         apart as it should be; then each of its bytes gets each value, it is cut at each length,
 *         and many bytes at random are changed at once, from a seed. What is wrong ends the
 *         program.
 */
#include "tests/fuzz/parsers.c"

/* with all others of them: 2 million, in the long tier */
enum { PROGRAMS_AT_RANDOM = 1900000 };

static unsigned number, failed;
static unsigned long runs;
static uint8_t good[1 + 8192], changed[sizeof good];
static size_t good_bytes;
static uint64_t seed = 1;

static void result(int ok, const char *what)
{
    number++;
    failed += !ok;
    printf("%s %u - %s\n", ok ? "ok" : "not ok", number, what);
}

static uint64_t dice(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

static long try(const uint8_t *bytes, size_t count)
{
    runs++;
    return parse(bytes, count);
}

static void at_random(unsigned long count)
{
    static const uint8_t special[] = {0, 1, 0x7f, 0x80, 0xff, '/', '.', ' ', '7', '='};
    for (unsigned long i = 0; i < count; i++) {
        size_t bytes = dice() % 8 ? good_bytes : 1 + dice() % good_bytes;
        memcpy(changed, good, good_bytes);
        for (uint64_t n = 1 + dice() % 8; n > 0; n--) {
            size_t at = 1 + dice() % (good_bytes - 1), run = 1 + dice() % 8;
            uint8_t value = dice() % 2 ? special[dice() % sizeof special] : (uint8_t)dice();
            for (; run > 0 && at < good_bytes; run--)
                changed[at++] = dice() % 4 ? value : (uint8_t)dice();
        }
        try(changed, bytes);
    }
}

static const char *corpus;  /* instead of attacks: the good ones go there, for libFuzzer */

static int corpus_write(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", corpus, name);
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(good, 1, good_bytes, f) == good_bytes;
    return f && !fclose(f) && ok ? 0 : 1;
}

/* `wanted`: what the parser makes of the good one; `every`: so many bytes get every value. */
static void attack(const char *name, enum parser parser, long wanted, size_t every,
                   unsigned long randoms)
{
    char what[100];
    good[0] = (uint8_t)(parser | MEND);
    if (corpus) {
        failed += (unsigned)corpus_write(name);
        return;
    }
    long made = try(good, good_bytes);
    if (made != wanted)
        printf("# %s: %ld made, %ld wanted\n", name, made, wanted);
    snprintf(what, sizeof what, "%s: a good one", name);
    result(made == wanted, what);
    for (int mended = 0; mended < 2; mended++) {
        good[0] = (uint8_t)(parser | (mended ? MEND : 0));
        for (size_t at = 1; at < 1 + every; at++)
            for (unsigned value = 0; value < 256; value++) {
                memcpy(changed, good, good_bytes);
                changed[at] = (uint8_t)value;
                try(changed, good_bytes);
            }
        for (size_t bytes = 1; bytes < good_bytes; bytes += bytes < 1024 ? 1 : 7)
            try(good, bytes);
        at_random(randoms / 2);
    }
    snprintf(what, sizeof what, "%s: every byte of %zu, cut at each length, %lu at random", name,
             every, randoms);
    result(1, what);
}

static void add(const void *bytes, size_t count)
{
    if (bytes)
        memcpy(good + good_bytes, bytes, count);
    else
        memset(good + good_bytes, 0, count);
    good_bytes += count;
}

static void elf_good(void)
{
    struct elf_header h = { .ident = { 0x7f, 'E', 'L', 'F', 2, 1, 1 },
                            .type = TYPE_EXEC, .machine = MACHINE_X86_64, .version = 1,
                            .entry = 0x401000, .segments_offset = sizeof h,
                            .header_bytes = sizeof h,
                            .segment_bytes = sizeof(struct elf_segment),
                            .segment_count = 3 };
    struct elf_segment s[3] = { { .type = SEGMENT_LOAD, .flags = SEGMENT_R, .address = 0x400000,
                                  .file_bytes = 232,
                                  .memory_bytes = 232 },
                                { .type = SEGMENT_LOAD, .flags = SEGMENT_R | SEGMENT_X, .offset = 0,
                                  .address = 0x401000, .file_bytes = 64,
                                  .memory_bytes = 64 },
                                { .type = SEGMENT_LOAD, .flags = SEGMENT_R | SEGMENT_W,
                                  .offset = 0x100, .address = 0x402100, .file_bytes = 0x40,
                                  .memory_bytes = 0x3000 } };
    good_bytes = 1;
    add(&h, sizeof h);
    add(s, sizeof s);
    add(NULL, 0x200 - sizeof h - sizeof s);
}

static void member(const char *prefix, const char *name, char type, const char *bytes)
{
    struct ustar_header h = {.magic = "ustar", .version = "00", .type = type, .mode = "0000644"};
    memcpy(h.name, name, strlen(name));
    memcpy(h.prefix, prefix, strlen(prefix));
    snprintf(h.size, sizeof h.size, "%011o", (unsigned)strlen(bytes));
    add(&h, sizeof h);
    add(bytes, strlen(bytes));
    add(NULL, -strlen(bytes) % BLOCK);
}

static void ustar_good(void)
{
    good_bytes = 1;
    member("", "folder/", '5', "");
    member("folder/deep", "file", '0', "some text");
    member("", "./a//b/./c", '0', "");
    add(NULL, 2 * BLOCK);
}

static void tag(uint32_t type, const void *bytes, uint32_t count)
{
    struct tag t = {type, count + 8};
    add(&t, 8);
    add(bytes, count);
    add(NULL, -count & 7);
}

static void tags_good(void)
{
    struct { uint32_t entry_bytes, version; struct memory_entry e[2]; } memory = {
        24, 0, {{0, 0x9f000, 1, 0}, {0x100000, 0xff00000, 1, 0}}};
    struct { uint32_t start, end; char line[8]; } module = {0x200000, 0x300000, "initrd"};
    good_bytes = 1;
    add(NULL, 8);
    tag(TAG_LINE, "log=com2 seed=1", 16);
    tag(TAG_MEMORY, &memory, sizeof memory);
    tag(TAG_MODULE, &module, sizeof module);
    tag(TAG_END, "", 0);
}

/* The start info, its lists and texts at places of a multiple of 8. */
static void pvh_good(void)
{
    enum { MEMORY = sizeof(struct pvh_info), MODULES = MEMORY + 2 * sizeof(struct memory_entry),
           LINE = MODULES + sizeof(struct pvh_module), NAME = LINE + 16 };
    struct pvh_info info = { .magic = PVH_MAGIC, .version = 1, .module_count = 1,
                             .modules = MODULES, .line = LINE, .rsdp = 0xf0000, .memory = MEMORY,
                             .memory_count = 2 };
    struct memory_entry memory[2] = {{0, 0x9f000, 1, 0}, {0x100000, 0xff00000, 1, 0}};
    struct pvh_module module = {0x200000, 0x100000, NAME, 0};
    good_bytes = 1;
    add(&info, sizeof info);
    add(memory, sizeof memory);
    add(&module, sizeof module);
    add("log=com2 seed=1", 16);
    add("initrd", 7);
}

/* A device with a list of capabilities, MSI-X among them, and a bridge. */
static void pci_good(void)
{
    uint8_t device[256] = {0xf4, 0x1a, 0x42, 0x10, [REGISTER_STATUS] = STATUS_CAPABILITIES,
                           [REGISTER_BAR] = 0, 0, TABLES_AT >> 16, [REGISTER_CAPABILITIES] = 0x40,
                           [0x40] = PCI_CAPABILITY_VENDOR, 0x60, [0x60] = PCI_CAPABILITY_MSIX, 0x80,
                           [0x80] = PCI_CAPABILITY_VENDOR, 0};
    uint8_t bridge[256] = { 0x36, 0x1b, 1, 0, [REGISTER_CLASS] = 4, 6,
                            [REGISTER_HEADER] = HEADER_BRIDGE, [REGISTER_SECONDARY_BUS] = 1 };
    good_bytes = 1;
    add(device, sizeof device);
    add(bridge, sizeof bridge);
}

static void table(const char *signature, const void *bytes, uint32_t count)
{
    struct table t = {.bytes = (uint32_t)sizeof t + count, .revision = 1};
    memcpy(t.signature, signature, 4);
    add(&t, sizeof t);
    add(bytes, count);
    add(NULL, -(sizeof t + count) & 15);
}

static void acpi_good(void)
{
    struct acpi_root r = {.rsdt = TABLES_AT + 48};
    uint32_t tables[2] = {TABLES_AT + 96, TABLES_AT + 96 + 64};
    static const uint8_t madt[] = { 0, 0, 0xe0, 0xfe, 0,  0, 0, 0, /* local APIC, flags */
                                    0, 8, 1,    0xf1, 1,  0, 0, 0, 0, 8,    2,    0xf2, 1,
                                    0, 0, 0,    1,    12, 0, 0, 0, 0, 0xc0, 0xfe, 0,    0,
                                    0, 0, 2,    10,   0,  4, 4, 0, 0, 0,    0,    0 };
    memcpy(r.signature, "RSD PTR ", 8);
    good_bytes = 1;
    add(&r, sizeof r);
    add(NULL, 48 - sizeof r);
    table("RSDT", tables, sizeof tables);
    table("FACP", tables, sizeof tables);
    add(NULL, TABLES_AT + 96 + 64 - TABLES_AT - (good_bytes - 1));
    table("APIC", madt, sizeof madt);
}

/* test_parsers [corpus FOLDER] */
int main(int argc, char **argv)
{
    const char *tier = getenv("TEST_TIER"), *given = getenv("SEED");
    bool all = tier && !strcmp(tier, "long"), few = tier && !strcmp(tier, "check");
    unsigned long randoms = all ? 1000000 : 10000;
    if (given && *given)
        seed = strtoull(given, NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    corpus = argc == 3 ? argv[2] : NULL;
    if (!corpus)
        printf("1..%d\n# seed %llu; again: SEED=%llu build/tests/host/test_parsers\n", 2 * PARSERS,
               (unsigned long long)seed, (unsigned long long)seed);
    elf_good();
    /* three segments and a stack */
    attack("programs", PARSE_ELF, 4, 232, all ? PROGRAMS_AT_RANDOM : few ? 50000 : 200000);
    ustar_good();
    attack("archives", PARSE_USTAR, 6, 512, randoms);
    static const char line[] = "log=com2 seed=12 check_ms=5  epoch= x=y =z";
    good_bytes = 1;
    add(line, sizeof line);
    attack("command lines", PARSE_LINE, 5, sizeof line, randoms);
    tags_good();
    attack("boot loaders' tags", PARSE_TAGS, 3, good_bytes - 1, randoms);
    acpi_good();
    attack("firmware's tables", PARSE_ACPI, 3, good_bytes - 1, randoms);
    static const char names[] = "\5/a\0\1a/b\0\0/a/../a/b\0\3/c\0\2a//b/.\0\5/c/d\0\6c\0\0./a/.";
    good_bytes = 1;
    add(names, sizeof names);
    attack("names of files", PARSE_PATH, 2, sizeof names, randoms);
    pvh_good();
    attack("PVH's start info", PARSE_PVH, 3, good_bytes - 1, randoms);
    pci_good();
    attack("PCI devices", PARSE_PCI, 3, good_bytes - 1, randoms);
    if (!corpus) printf("# %lu inputs\n", runs);
    return failed != 0;
}
