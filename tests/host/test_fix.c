/*
 * test_fix.c - structures whose nodes are not where their addresses say (ps_memory.fix).
 *
 * Method: a structure is built on the heap and read. Then all of its nodes are spoilt, and a
 * look-up gets copies of them, in a buffer for each place of its way, which is spoilt again when
 * another node comes to that place. What is read must be the same.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/graph.h>
#include <structures/rtree.h>
#include <structures/tree.h>

#include <cmocka.h>

enum { NODES = 4000, PLACES = 24, COUNT = 3000, NODE = 512 };
static struct { uint8_t *at, *copy; size_t bytes; } nodes[NODES];
static unsigned count, fixes;
static _Alignas(16) uint8_t frame[PLACES][4096];

static void *node_take(void *arg, size_t bytes, const void *near)
{
    (void)arg, (void)near;
    assert_in_range(count, 0, NODES - 1);
    nodes[count].bytes = bytes;
    return nodes[count++].at = calloc(1, bytes);
}
static void node_give(void *arg, void *p) { (void)arg, (void)p; }

static void *node_fix(void *arg, unsigned place, void *node)
{
    (void)arg;
    fixes++;
    assert_in_range(place, 0, PLACES - 1);
    memset(frame[place], 0xa5, sizeof frame[place]);
    for (unsigned i = 0; i < count; i++) {
        size_t at = (size_t)((uint8_t *)node - nodes[i].at);
        if ((uint8_t *)node >= nodes[i].at && at < nodes[i].bytes) {
            memcpy(frame[place], nodes[i].copy, nodes[i].bytes);
            return frame[place] + at;
        }
    }
    fail_msg("%p is no node", node);
    return NULL;
}

static struct ps_memory memory;
static void begin(void)
{
    count = fixes = 0;
    memory = (struct ps_memory){.take = node_take, .give = node_give};
}
static void spoil(void)
{
    for (unsigned i = 0; i < count; i++) {
        nodes[i].copy = malloc(nodes[i].bytes);
        memcpy(nodes[i].copy, nodes[i].at, nodes[i].bytes);
        memset(nodes[i].at, 0xa5, nodes[i].bytes);
    }
    memory.fix = node_fix;
}
static void end(void)
{
    for (unsigned i = 0; i < count; i++) {
        free(nodes[i].at);
        free(nodes[i].copy);
    }
}

struct value { uint32_t n; };
PS_STRING_TREE_BYTES_OF(words, struct value, 1024);
PS_RTREE_OF(boxes, struct value, 2, NODE);
PS_GRAPH_OF(web, struct value, 2, NODE);

static uint64_t words_read(struct words *i)
{
    uint64_t sum = 0;
    char key[16];
    i->memory = memory;
    PS_ACCESS(words_keyed, a, i, PS_LOOK);
    for (unsigned n = 0; n < COUNT; n += 7) {
        snprintf(key, sizeof key, "%u", n);
        const struct value *v = words_find(&a, key);
        assert_true(v && v->n == n && words_found(&a) == sizeof *v + n % 9);
    }
    for (int how = PS_UP; how <= PS_DOWN; how++) {
        PS_ACCESS(words_range, r, i, "2", "7", how, PS_LOOK);
        for (const struct value *v; (v = words_next(&r));)
            sum = sum * 31 + v->n;
        assert_int_equal(errno, 0);
    }
    return sum;
}

static void a_tree_is_read_elsewhere(void **state)
{
    static struct words_head head;
    struct words i = {.head = &head};
    (void)state;
    begin();
    memset(&head, 0, sizeof head);
    i.memory = memory;
    assert_int_equal(words_set_up(&i), 0);
    PS_ACCESS(words_keyed, a, &i, PS_CHANGE);
    for (uint32_t n = 0; n < COUNT; n++) {
        char key[16], text[16] = "";
        snprintf(key, sizeof key, "%u", n);
        memcpy(text, &n, sizeof n);
        assert_int_equal(words_insert(&a, key, (void *)text, sizeof n + n % 9), 0);
    }
    uint64_t sum = words_read(&i);
    spoil();
    assert_int_equal(words_read(&i), sum);
    assert_true(fixes > COUNT / 7);
    end();
}

static uint64_t boxes_read(struct boxes *i, enum ps_query how)
{
    uint64_t sum = 0;
    i->memory = memory;
    PS_ACCESS(boxes_range, r, i, (&(struct boxes_box){{20, 20}, {70, 30}}), how, PS_LOOK);
    for (const struct value *v; (v = boxes_next(&r));)
        sum = sum * 31 + v->n;
    assert_int_equal(errno, 0);
    return sum;
}

static void boxes_are_read_elsewhere(void **state)
{
    static struct boxes_head head;
    struct boxes i = {.head = &head};
    uint64_t sum[3];
    (void)state;
    begin();
    memset(&head, 0, sizeof head);
    i.memory = memory;
    assert_int_equal(boxes_set_up(&i), 0);
    PS_ACCESS(boxes_boxes, a, &i, PS_CHANGE);
    for (uint32_t n = 0; n < COUNT; n++) {
        double x = n * 37 % 101, y = n * 53 % 103;
        struct boxes_box box = {{x, y}, {x + n % 60, y + n % 30}};
        assert_int_equal(boxes_insert(&a, &box, &(struct value){n}), 0);
    }
    for (int how = PS_INTERSECT; how <= PS_ENCLOSE; how++)
        sum[how] = boxes_read(&i, (enum ps_query)how);
    spoil();
    for (int how = PS_INTERSECT; how <= PS_ENCLOSE; how++)
        assert_int_equal(boxes_read(&i, (enum ps_query)how), sum[how]);
    assert_true(fixes > 30);
    end();
}

static uint64_t web_read(struct web *i, const struct value *start)
{
    uint64_t sum = 0, steps = COUNT;
    i->memory = memory;
    PS_ACCESS(web_walk, w, i, start, PS_LOOK);
    for (int64_t degree; steps > 0 && (degree = web_degree(&w)) > 0; steps--)
        sum = sum * 31 + web_follow(&w, steps % (uint64_t)degree)->n;
    assert_int_equal(steps, 0);
    return sum;
}

static void a_graph_is_walked_elsewhere(void **state)
{
    static struct web_head head;
    static struct value *node[COUNT];
    struct web i = {.head = &head};
    (void)state;
    begin();
    memset(&head, 0, sizeof head);
    i.memory = memory;
    assert_int_equal(web_set_up(&i), 0);
    PS_ACCESS(web_nodes, a, &i, PS_CHANGE);
    for (uint32_t n = 0; n < COUNT; n++)
        assert_non_null(node[n] = web_add(&a, n ? node[n - 1] : NULL, &(struct value){n}));
    for (uint32_t n = 0; n < COUNT; n++)        /* every hundredth has edges in pieces */
        for (uint32_t e = 0; e < (n % 100 ? 2u : 40u); e++)
            assert_int_equal(web_link(&a, node[n], node[(n * 7 + e * 1313 + 1) % COUNT]), 0);
    uint64_t sum = web_read(&i, node[0]);
    spoil();
    assert_int_equal(web_read(&i, node[0]), sum);
    assert_true(fixes > COUNT);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_read_elsewhere),
        cmocka_unit_test(boxes_are_read_elsewhere),
        cmocka_unit_test(a_graph_is_walked_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
