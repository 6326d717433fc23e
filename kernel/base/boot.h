/*
 * boot.h - what the boot loader told: memory, modules, command line.
 *
 * arch/ fills boot_info in before kmain(); nothing changes it later. Ranges are sorted, do not
 * overlap, and are whole pages: RAM is rounded inwards, what is reserved outwards.
 */
#ifndef KERNEL_BOOT_H
#define KERNEL_BOOT_H

#include "base/kernel.h"

#define BOOT_RANGES_MAX 128
#define BOOT_LINE_BYTES 512

struct boot_range { paddr_t start, end; };
struct boot_module {
    paddr_t start;           /* readable through arch_phys(): reserved for ever */
    uint64_t bytes;
    char name[KD_NAME_MAX];  /* its command line; may be empty */
};

struct boot_info {
    const char *loader;
    unsigned memory_count, reserved_count;
    struct boot_range memory[BOOT_RANGES_MAX];   /* RAM for our use, reserved parts included */
    struct boot_range reserved[BOOT_RANGES_MAX]; /* kernel, modules, tables made at boot */
    struct boot_module module;                   /* the first one; bytes 0: there is none */
    char line[BOOT_LINE_BYTES], words[BOOT_LINE_BYTES]; /* the command line; cut at its spaces */
    paddr_t rsdp;                                /* ACPI's root pointer, or 0 */
};
extern struct boot_info boot_info;

typedef void boot_range_fn(paddr_t start, paddr_t end, void *arg);
void boot_memory_for(boot_range_fn *fn, void *arg);   /* all RAM */
void boot_free_for(boot_range_fn *fn, void *arg);     /* RAM without what is reserved */
void boot_print(void);
/* boot_option_number is the N of NAME=N on the command line; 0: it is not there */
uint64_t boot_option_number(const char *name);

/* Functions that arch/ calls before kmain(). */
void boot_add_memory(paddr_t start, paddr_t end);
void boot_reserve(paddr_t start, paddr_t end);
void boot_set_line(const char *line);
/* boot_take takes free pages out of RAM below `limit`, the highest that fit; 0: none. */
paddr_t boot_take(size_t bytes, paddr_t limit);

#endif
