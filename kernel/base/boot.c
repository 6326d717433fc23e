/*
 * boot.c - keeps what the boot loader told, and answers questions about it.
 *
 * Owns      boot_info.
 * Not here  the loaders' formats (arch/), the frames made of this memory (frame.c).
 *
 * Invariants
 *   BO1  memory[] and reserved[] are sorted, and no two ranges of one array touch or overlap.
 *   BO2  All bounds are multiples of a page; page 0 is in no free range.
 *
 * Locks: none; written before kmain() by the only CPU, and never again.
 */
#include "base/boot.h"

struct boot_info boot_info;

static void range_insert(struct boot_range *list, unsigned *count, paddr_t start, paddr_t end)
{
    unsigned from = 0;
    if (start >= end)
        return;
    while (from < *count && list[from].end < start)
        from++;
    unsigned to = from; /* [from, to) touch the new range and become one with it */
    while (to < *count && list[to].start <= end) {
        start = MIN(start, list[to].start);
        end = MAX(end, list[to].end);
        to++;
    }
    if (from == to && *count == BOOT_RANGES_MAX)
        panic("the boot loader's memory map has too many pieces");
    assert(from == 0 || list[from - 1].end < start); /* BO1 */
    memmove(&list[from + 1], &list[to], (*count - to) * sizeof *list);
    list[from] = (struct boot_range){start, end};
    *count = *count + 1 - (to - from);
}

void boot_add_memory(paddr_t start, paddr_t end)
{
    range_insert(boot_info.memory, &boot_info.memory_count, page_up(start), page_down(end));
}

void boot_reserve(paddr_t start, paddr_t end)
{
    range_insert(boot_info.reserved, &boot_info.reserved_count, page_down(start), page_up(end));
}

void boot_set_line(const char *line)
{
    strlcpy(boot_info.line, line, sizeof boot_info.line);
    memcpy(boot_info.words, boot_info.line, sizeof boot_info.words);
    for (char *c = boot_info.words; *c; c++)
        if (*c == ' ')
            *c = 0; /* words end in NUL, so that kernel_option() can hand them out */
}

void boot_memory_for(boot_range_fn *fn, void *arg)
{
    for (unsigned i = 0; i < boot_info.memory_count; i++)
        fn(boot_info.memory[i].start, boot_info.memory[i].end, arg);
}

void boot_free_for(boot_range_fn *fn, void *arg)
{
    for (unsigned i = 0; i < boot_info.memory_count; i++) {
        paddr_t at = MAX(boot_info.memory[i].start, (paddr_t)PAGE_BYTES); /* BO2 */
        paddr_t end = boot_info.memory[i].end;
        for (unsigned r = 0; r < boot_info.reserved_count && at < end; r++) {
            const struct boot_range *gap = &boot_info.reserved[r];
            if (gap->start > at && gap->start < end)
                fn(at, gap->start, arg);
            if (gap->start < end)
                at = MAX(at, gap->end);
        }
        if (at < end)
            fn(at, end, arg);
    }
}

struct taking { size_t bytes; paddr_t limit, found; };

static void take_highest(paddr_t start, paddr_t end, void *arg)
{
    struct taking *t = arg;
    end = MIN(end, t->limit);
    if (end > start && end - start >= t->bytes)
        t->found = end - t->bytes;
}

paddr_t boot_take(size_t bytes, paddr_t limit)
{
    struct taking t = {.bytes = page_up(bytes), .limit = page_down(limit)};
    boot_free_for(take_highest, &t);
    assert(page_down(t.found) == t.found); /* BO2 */
    if (t.found)
        boot_reserve(t.found, t.found + t.bytes);
    return t.found;
}

const char *kernel_option(const char *name)
{
    const char *end = boot_info.words + sizeof boot_info.words;
    size_t n = strlen(name);
    for (const char *word = boot_info.words; word < end; word += strlen(word) + 1)
        if (strncmp(word, name, n) == 0 && word[n] == '=')
            return word + n + 1;
    return NULL;
}

static void range_print(paddr_t start, paddr_t end, void *kind)
{
    printk("boot: %s %lx to %lx, %lu KiB\n", (const char *)kind, start, end, (end - start) / 1024);
}

void boot_print(void)
{
    printk("boot: by %s\n", boot_info.loader);
    boot_memory_for(range_print, "memory");
    if (boot_info.module.bytes)
        printk("boot: module at %lx, %lu bytes: %s\n", boot_info.module.start,
               boot_info.module.bytes, boot_info.module.name);
}

uint64_t boot_option_number(const char *name)
{
    uint64_t n = 0;
    for (const char *c = kernel_option(name); c && *c >= '0' && *c <= '9' && n < 1ull << 56; c++)
        n = n * 10 + (uint64_t)(*c - '0');
    return n;
}
