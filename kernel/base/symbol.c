/* symbol.c - finds the function that an address of the kernel lies in. */
#include "base/panic.h"

/* The table is made by scripts/mksymbols: functions in ascending order of address. The count is 0
 * only in the first link. */
extern const struct kernel_symbol { uint64_t address; const char *name; } kernel_symbols[];
extern const unsigned kernel_symbol_count;

const char *symbol_find(uint64_t address, uint64_t *offset)
{
    unsigned low = 0, high = kernel_symbol_count; /* the answer's index is below high */
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (kernel_symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    *offset = address - kernel_symbols[low - 1].address;
    return kernel_symbols[low - 1].name;
}
