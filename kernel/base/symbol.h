/* symbol.h - the kernel's own symbol table, for back traces; scripts/mksymbols makes it. */
#ifndef KERNEL_SYMBOL_H
#define KERNEL_SYMBOL_H

#include <stdint.h>

struct kernel_symbol {
    uint64_t address;
    const char *name;
};

/* Functions in ascending order of address. The count is 0 only in the first link. */
extern const struct kernel_symbol kernel_symbols[];
extern const unsigned kernel_symbol_count;
/* The function that the address lies in, and where in it; NULL: none. */
const char *symbol_find(uint64_t address, uint64_t *offset);

#endif
