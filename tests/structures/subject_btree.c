/* subject_btree.c - the B+-tree on nested heaps, and the one that manages its storage itself: both
 * go through the same operations beside one model. Nodes of 8 KiB are filled by 4,000 records, more
 * than a transaction of the guest's test may write. */
#include "btree.h"
#include "subject.h"

enum { KEYS = 4000, LONGEST = BTREE_RECORD_MAX };
static struct kept {
    struct btree_head layered, integrated;
    uint32_t count;
    uint16_t length[KEYS];                      /* of the record, plus 1; 0: it is not there */
    uint8_t fill[KEYS];
} *kept;
static struct ps_memory memory;

static struct { const struct btree_kind *kind; size_t head; } trees[] = {
    {&btree_layered, offsetof(struct kept, layered)},
    {&btree_integrated, offsetof(struct kept, integrated)}};
enum { TREES = 2 };

static struct btree_head *head_of(int tree)
{
    return (struct btree_head *)(void *)((char *)kept + trees[tree].head);
}

static void place(void *at, struct ps_memory of)
{
    kept = at;
    memory = of;
}

static int tear_down(void)
{
    for (int i = 0; i < TREES; i++) {
        struct btree t;
        trees[i].kind->open(&t, head_of(i), memory);
        if (head_of(i)->root)
            trees[i].kind->tear_down(&t);
    }
    return 0;
}

static int set_up(void)
{
    int error = 0;
    for (int i = 0; i < TREES && error == 0; i++)
        error = trees[i].kind->set_up(head_of(i), memory);
    if (error && error != -EEXIST)
        tear_down();
    return error;
}

/* Keys of different lengths, in no order of their numbers; so long that the tree has three
 * levels. */
static struct btree_bytes key_of(uint32_t n, char text[BTREE_KEY_MAX])
{
    static const char before[] = "something that neighbours have in common, so that what parts ";
    unsigned length = 50 + n % 3;
    memcpy(text, before, length);
    for (uint32_t rest = n * 7919u % KEYS + 1; rest > 0; rest /= 10)
        text[length++] = (char)('0' + rest % 10);
    return (struct btree_bytes){(uint8_t *)text, length};
}

static int insert(uint32_t n)
{
    char text[BTREE_KEY_MAX];
    uint8_t record[LONGEST];
    struct btree_bytes key = key_of(n, text);
    const uint16_t length = (uint16_t)draw(LONGEST);
    const uint8_t fill = (uint8_t)draw(256);
    memset(record, fill, sizeof record);
    for (int i = 0; i < TREES; i++) {
        struct btree t;
        trees[i].kind->open(&t, head_of(i), memory);
        int error = trees[i].kind->insert(&t, key, (struct btree_bytes){record, length});
        SAME(error == -ENOSPC || error == (kept->length[n] ? -EEXIST : 0));
        if (error == -ENOSPC && i > 0) {        /* neither has it then */
            trees[0].kind->open(&t, head_of(0), memory);
            SAME(trees[0].kind->remove(&t, key) == 0);
        }
        if (error)
            return error == -EEXIST ? 0 : error;
    }
    kept->length[n] = (uint16_t)(length + 1);
    kept->fill[n] = fill;
    kept->count++;
    return 0;
}

static void take_away(uint32_t n)
{
    char text[BTREE_KEY_MAX];
    for (int i = 0; i < TREES; i++) {
        struct btree t;
        trees[i].kind->open(&t, head_of(i), memory);
        SAME(trees[i].kind->remove(&t, key_of(n, text)) == (kept->length[n] ? 0 : -ENOENT));
    }
    kept->count -= kept->length[n] > 0;
    kept->length[n] = 0;
}

static int operation(int growing)
{
    uint32_t n = draw(KEYS);
    if (draw(10) < (growing ? 7u : 3u))
        return insert(n);
    take_away(n);
    return 0;
}

static void compare_tree(int tree)
{
    struct btree t;
    struct btree_bytes key, record;
    char text[BTREE_KEY_MAX];
    uint32_t found = 0;
    trees[tree].kind->open(&t, head_of(tree), memory);
    SAME(trees[tree].kind->check(&t) == NULL);
    trees[tree].kind->find(&t, (struct btree_bytes){NULL, 0});
    while (trees[tree].kind->next(&t, &key, &record))
        found++;
    SAME(found == kept->count);
    for (uint32_t n = 0; n < KEYS; n++) {
        int is = trees[tree].kind->find(&t, key_of(n, text));
        SAME(is == (kept->length[n] > 0));
        if (!is || !trees[tree].kind->next(&t, &key, &record))
            continue;
        SAME(record.length == kept->length[n] - 1u);
        for (unsigned i = 0; i < record.length; i++)
            SAME(record.at[i] == kept->fill[n]);
    }
}

static void compare(void)
{
    for (int i = 0; i < TREES; i++)
        compare_tree(i);
}

const struct subject subject_btree = {"layered tree", sizeof(struct kept), place,   set_up,
                                      tear_down,      operation,           compare,
                                      offsetof(struct kept, count)};
