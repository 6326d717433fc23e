/*
 * pstore_item_sums.c - a sum of each item in its header (PS_PART_SUMS, DA-38).
 *
 * Aim     a sum follows what transactions do to an item, and no transaction that is undone; a store
 *         that went by no access is found by the next one, and by a check of the partition, where
 *         the commit has not undone it; the item is usable again when somebody says so.
 * Method  partitions that lock items, and pages; a transaction that stores to an item it has not
 *         accessed, its last byte. What the host does to items: bench-dali sums.
 */
#include <errno.h>
#include <item_layer.h>

#include "pstore_test.h"

static const struct ps_part_wish wish[] = {
    {.name = "summed", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_SUMS},
    {.name = "pages", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_SUMS | PS_PART_PAGES},
};

static ps_part *with_sums;
static ps_item_id sum_id[2];
static const char *why;
static int check(void *part) { return ps_part_check(part, &why); }
static int make_two(void *unused)
{
    for (int i = 0; i < 2; i++) {
        sum_id[i] = ps_item_make(with_sums, "struct call", 100);
        char *data = sum_id[i] ? ps_begin_access(sum_id[i], PS_X) : NULL;
        if (!data) return -errno;
        data[99] = 9;
    }
    return unused != NULL;
}
static int stray(void *unused)
{
    const struct ps_item *item = ps_item_header(sum_id[0]);
    ((char *)item->data)[item->bytes - 1] ^= 1;
    return unused != NULL || !ps_begin_access(sum_id[1], PS_S);
}
static int change_sum(void *wanted)
{
    char *data = ps_begin_access(sum_id[0], PS_X);
    if (!data) return -errno;
    data[1]++;
    data = ps_begin_access(sum_id[0], PS_S);
    return !data ? -errno : wanted ? 1 : ps_item_resize(sum_id[0], 333);
}
static int read_sum(void *which)
{
    return ps_begin_access(sum_id[*(int *)which], PS_S) ? 0 : -errno;
}
static int add_sum(void *unused)
{
    return ps_begin_access(sum_id[0], PS_ADD) ? unused == NULL : -errno;
}
static int again_sum(void *unused)
{
    return ps_item_sum_again(sum_id[0]) || unused;
}

int main(void)
{
    tap_plan(26);
    ps_file *file = ps_file_open("sums", PS_CREATE | PS_WRITE, wish, 2);
    tap_ok(file != NULL, "a file of two partitions");
    int first = 0, second = 1;
    for (int pages = 0; pages < 2; pages++) {
        with_sums = ps_file_part(file, pages ? "pages" : "summed");
        is(ps_transaction(make_two, NULL), 0,
           pages ? "items with sums, pages are locked" : "items with sums");
        is(ps_transaction(change_sum, NULL), 0, "one is changed and moves");
        is(ps_transaction(change_sum, &first), 1, "or that is undone");
        tap_ok(ps_transaction(read_sum, &first) == 0 && ps_transaction(check, with_sums) == 0,
               "its sum is right");
        is(ps_transaction(stray, NULL), 0, "a stray store");
        is(ps_transaction(read_sum, &first), pages ? -EIO : 0,
           "the next access finds it, if the commit has not undone it");
        is(ps_transaction(check, with_sums), pages ? -EUCLEAN : 0, "so does a check");
        is(ps_transaction(read_sum, &second), 0, "others are sound");
        is(ps_transaction(change_sum, NULL), pages ? -EIO : 0, "and who would change it");
        is(ps_transaction(again_sum, NULL), 0, "as it is, it is right");
        is(ps_transaction(change_sum, NULL), 0, "and goes on");
        is(ps_transaction(add_sum, NULL), -EINVAL, "additions have no sums");
    }
    is(ps_part_switch(with_sums, PS_PART_UNLOCKED, 1), -EINVAL, "without locks neither");
    return tap_end();
}
