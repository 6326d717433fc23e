/* whole.c - a store that is not open is opened, becomes larger or of this format, and is closed. */
#include "tools.h"

int store_grow(const struct disk_io *io, const struct disk_memory *memory, uint64_t new_bytes,
               struct store_report *report)
{
    struct store_open_options options = { .flags = STORE_GROW, .grow_bytes = new_bytes };
    struct store *store;
    int error = store_open(io, memory, &options, &store, report);
    if (error)
        return error;
    error = report->grow_error;
    int closed = store_close(store);
    return error ? error : closed;
}

int store_upgrade(const struct disk_io *io, const struct disk_memory *memory,
                  struct store_report *report)
{
    const struct store_open_options options = { .flags = STORE_UPGRADE };
    struct store *store;
    int error = store_open(io, memory, &options, &store, report);
    return error ? error : store_close(store);
}
