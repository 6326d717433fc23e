/*
 * directory_rig.c - see directory_rig.h.
 */
#include "directory_rig.h"

struct directory *dir;
struct directory_report dir_report;

int ops_commit(struct store_op *ops, unsigned count)
{
    uint32_t position;
    struct store_group *group = group_open();
    int error = store_txn_begin(group, 1);
    for (unsigned i = 0; !error && i < count; i++)
        error = store_txn_op(group, &ops[i]);
    if (!error)
        error = store_txn_end(group, &position);
    else
        store_txn_cancel(group);
    if (error)
        store_group_cancel(group);
    else
        group_done(group);
    while (!error && store_should_checkpoint(store))
        checkpoint();
    return error;
}

int done(int planned)
{
    if (planned)
        return planned;
    struct directory_change *change = directory_change(dir);
    int error = change->count ? ops_commit(change->ops, change->count) : 0;
    if (error)
        directory_dropped(dir);
    else
        directory_applied(dir);
    return error;
}

void dir_open(void)
{
    assert_int_equal(directory_open(store, &dir, &dir_report), 0);
}

void dir_reopen(void)
{
    directory_close(dir);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    dir_open();
}

void dir_make(uint64_t disk_bytes, uint64_t log_bytes)
{
    make(disk_bytes, log_bytes);        /* with the container "c" */
    dir_open();
}

void dir_unmake(void)
{
    directory_close(dir);
    unmake();
}

struct directory_found at(struct directory_at from, const char *path)
{
    struct directory_found found;
    int r = directory_walk(dir, from, path, &found);
    if (r)
        found.serial = 0;
    return found;
}

int walks(struct directory_at from, const char *path)
{
    struct directory_found found;
    return directory_walk(dir, from, path, &found);
}

struct directory_at handle(struct directory_at from, const char *path, uint32_t rights)
{
    struct directory_found found = at(from, path);
    assert_true(found.serial != 0);
    return (struct directory_at){ found.serial, found.rights & rights };
}

uint64_t dir_picture(void)
{
    uint64_t sum = dir->links;
    char name[STORE_NAME_BYTES];
    for (uint32_t i = 1; i < dir->top; i++) {
        const struct grant *g = &dir->grants[i];
        bool first = g->serial & DIRECTORY_FIRST, entry = g->flags & GRANT_ENTRY;
        if (!(g->flags & GRANT_USED) || (first && !entry))
            continue;
        uint64_t parent = g->parent ? dir->grants[g->parent].serial : 0;
        uint64_t row[6] = { g->serial, g->container, parent, g->rights, entry, g->directory };
        memset(name, 0, sizeof name);
        if (entry)
            assert_true(grant_name(dir, i, name));
        sum += crc32c(crc32c(0, row, sizeof row), name, sizeof name) * 0x9e3779b97f4a7c15ull;
    }
    struct store_container c = { .object = 0 };
    while (store_container_next(store, c.object, &c) == 0)
        sum += crc32c(crc32c(0, &c.object, 8), c.name, STORE_NAME_BYTES) * 0x9e3779b97f4a7c15ull;
    return sum;
}
