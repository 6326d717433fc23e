/*
 * test_convert.c - pages of a site whose data look otherwise (user/sites/agent_types.h).
 *
 * Aim     what the site stores is what the home then has, in the home's order, layout and widths,
 *         and the other way round; what the site has no field for is kept; what does not fit is
 *         refused; descriptions and pages that lie do no harm.
 * Method  pages made here slot by slot; the home's objects against C structures, the site's byte by
 *         byte. Hostile texts and pages are good ones changed at random places, in memory of just
 *         their size.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/disk/lib/slot_made.h"
#include "user/sites/agent_types.c"

#define AT 0x200000007000ull

/* The home's: version 2. The site's is older, has no `limit`, and its numbers are narrower. */
static const char home_text[] = "order little\n"
                                "type 48 struct account\n"
                                "0 ptr next\n8 i64 amount\n16 u16 kind\n20 f32 rate\n"
                                "24 u64 limit\n32 char*16 owner\n"
                                "type 16 struct root\n0 ptr first\n8 u64 count\n"
                                "name phase struct root\n";
static const char big_text[] = "order big\n"
                               "type 48 struct account\n"
                               "0 ptr next\n8 i64 amount\n16 u16 kind\n20 f32 rate\n"
                               "24 u64 limit\n32 char*16 owner\n"
                               "type 16 struct root\n0 ptr first\n8 u64 count\n"
                               "name phase struct root\n";
static const char old_text[] = "order little\n"
                               "type 36 struct account\n"
                               "0 i32 amount\n4 char*8 owner\n12 u64 extra\n"
                               "20 f64 rate\n28 ptr next\n"
                               "type 16 struct root\n0 ptr first\n8 u64 count\n\n"
                               "name phase struct root\n";

struct account {
    uint64_t next;
    int64_t amount;
    uint16_t kind;
    float rate;
    uint64_t limit;
    char owner[16];
};
_Static_assert(sizeof(struct account) == 48, "as described");

static struct types_pair *pair(const char *home, const char *site)
{
    static struct types_pair p;
    char refused[TYPE_NAME_BYTES];
    assert_int_equal(types_parse(&p.home, home, strlen(home)), 0);
    assert_int_equal(types_parse(&p.site, site, strlen(site)), 0);
    assert_int_equal(types_match(&p, refused), 0);
    return &p;
}

/* ---- pages ---- */

static void page_new(uint8_t *page)
{
    struct slot_page_marked head = {.page.seal = SLOT_SEAL_MARKED ^ (uint32_t)(AT / 4096)};
    memset(page, 0, 4096);
    memcpy(page, &head, sizeof head);
}

static const struct account ann = {0x200000001230, -5, 7, 1.5f, 1ull << 40, "ann"},
                            bob = {0, 3000000, 65535, 0.1f, 9, "bob of the hill"};

static void page_make(uint8_t *page)
{
    uint64_t root[2] = {0x200000004560, 2};
    page_new(page);
    object_add(page, 250, 3, slot_type_of("struct account"), &ann, sizeof ann);
    object_add(page, 240, 3, slot_type_of("struct account"), &bob, sizeof bob);
    object_add(page, 230, 1, SLOT_TYPE_NAME | slot_type_of("phase"), root, sizeof root);
}

static void out(const struct types_pair *p, const uint8_t *home, uint8_t *site)
{
    uint32_t type;
    assert_int_equal(types_out(p, AT, home, site, &type), 0);
}

static void in(const struct types_pair *p, const uint8_t *before, const uint8_t *site,
               uint8_t *home)
{
    uint32_t type;
    assert_int_equal(types_in(p, AT, before, site, home, &type), 0);
}

/* ---- tests ---- */

static void the_other_order(void **state)
{
    struct types_pair *p = pair(home_text, big_text);
    uint8_t home[4096], site[4096], back[4096];
    (void)state;
    page_make(home);
    out(p, home, site);
    const uint8_t *a = site + 250 * 16;
    assert_memory_equal(a, "\x00\x00\x20\x00\x00\x00\x12\x30", 8);
    assert_memory_equal(a + 8, "\xff\xff\xff\xff\xff\xff\xff\xfb", 8);
    assert_memory_equal(a + 16, "\x00\x07", 2);
    assert_memory_equal(a + 20, "\x3f\xc0\x00\x00", 4);
    assert_memory_equal(a + 32, "ann", 4);
    assert_memory_equal(site + 230 * 16 + 8, "\0\0\0\0\0\0\0\2", 8);
    assert_memory_equal(site, home, 32 + 3 * 6); /* the page's own bytes are not the program's */
    in(p, home, site, back);
    assert_memory_equal(back, home, sizeof home);
    memcpy(site + 240 * 16 + 8, "\0\0\0\0\0\0\1\0", 8);
    in(p, home, site, back);
    struct account *b = (void *)(back + 240 * 16);
    assert_int_equal(b->amount, 256);
    assert_int_equal(b->kind, 65535);
}

static void an_older_layout(void **state)
{
    struct types_pair *p = pair(home_text, old_text);
    uint8_t home[4096], site[4096], back[4096];
    double rate;
    uint64_t next;
    int32_t amount = -77;
    (void)state;
    page_make(home);
    out(p, home, site);
    uint8_t *b = site + 240 * 16;
    assert_memory_equal(b, "\xc0\xc6\x2d\x00", 4);
    assert_memory_equal(b + 4, "bob of t", 8);      /* what it has room for */
    assert_memory_equal(b + 12, "\0\0\0\0\0\0\0\0", 8);
    memcpy(&rate, b + 20, 8);
    assert_true(rate == (double)0.1f);
    memcpy(&next, site + 250 * 16 + 28, 8);
    assert_int_equal(next, ann.next);
    in(p, home, site, back); /* it has changed nothing: nor has the home */
    assert_memory_equal(back, home, sizeof home);
    memcpy(b, &amount, 4);
    in(p, home, site, back);
    const struct account *h = (void *)(back + 240 * 16);
    assert_int_equal(h->amount, -77);
    assert_int_equal(h->limit, 9);
    assert_string_equal(h->owner, "bob of the hill");
    memcpy(b + 4, "eve\0\0\0\0\0", 8);
    in(p, home, site, back);
    assert_string_equal(h->owner, "eve");
}

/* A rounded number that nobody stored to is not the home's new one. */
static void what_is_not_changed_stays(void **state)
{
    struct types_pair *p = pair(old_text, home_text);
    uint8_t home[4096], site[4096], back[4096];
    double exact = 0.1;
    (void)state;
    page_new(home);
    object_add(home, 240, 3, slot_type_of("struct account"), "", 1);
    memcpy(home + 240 * 16 + 20, &exact, 8);
    out(p, home, site);
    site[240 * 16 + 8] = 1;                         /* amount */
    in(p, home, site, back);
    assert_memory_equal(back + 240 * 16, "\1", 1);
    assert_memory_equal(back + 240 * 16 + 20, &exact, 8);
}

/* Nor are its neighbours in an array, if the site has stored to one of them. */
static void elements_that_are_not_changed_stay(void **state)
{
    struct types_pair *p = pair("order little\ntype 32 struct m\n0 f64*4 v\n",
                                "order big\ntype 16 struct m\n0 f32*4 v\n");
    uint8_t home[4096], site[4096], back[4096];
    double v[4] = {0.1, 0.2, 0.3, 1e300};
    (void)state;
    page_new(home);
    object_add(home, 240, 2, slot_type_of("struct m"), v, sizeof v);
    out(p, home, site);
    memcpy(site + 240 * 16 + 8, "\x40\xa0\0\0", 4);      /* v[2] */
    in(p, home, site, back);
    v[2] = 5;
    assert_memory_equal(back + 240 * 16, v, sizeof v);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct types_pair *p = pair(home_text, old_text);
    uint8_t home[4096], site[4096], back[4096];
    struct account rich = ann;
    uint32_t type;
    (void)state;
    rich.amount = 1ll << 31;
    page_new(home);
    object_add(home, 250, 3, slot_type_of("struct account"), &rich, sizeof rich);
    assert_int_equal(types_out(p, AT, home, site, &type), -EOVERFLOW);
    assert_int_equal(type, slot_type_of("struct account"));
    rich.amount = INT32_MIN;
    page_new(home);
    object_add(home, 250, 3, slot_type_of("struct account"), &rich, sizeof rich);
    out(p, home, site);
    /* made at the site: too few bytes for the home's layout */
    object_add(site, 220, 2, slot_type_of("struct account"), "", 1);
    assert_int_equal(types_in(p, AT, home, site, back, &type), -EPROTOTYPE);
    page_new(home);
    object_add(home, 240, 1, slot_type_of("struct other"), "", 1);
    assert_int_equal(types_out(p, AT, home, site, &type), -EPROTOTYPE);
    assert_int_equal(type, slot_type_of("struct other"));
    page_new(home);
    object_add(home, 240, 1, 0, "", 1);             /* ps_alloc without a type */
    assert_int_equal(types_out(p, AT, home, site, &type), -EPROTOTYPE);
    page_new(home);
    object_add(home, 200, SLOT_RUNS_ON, slot_type_of("struct account"), "", 1);
    assert_int_equal(types_out(p, AT, home, site, &type), -EOPNOTSUPP);
    memset(home, 7, sizeof home);                   /* the rest of a large object */
    assert_int_equal(types_out(p, AT, home, site, &type), -EOPNOTSUPP);
    page_new(home);
    object_add(home, 240, 3, slot_type_of("struct account"), "", 1);
    object_add(home, 242, 3, slot_type_of("struct account"), "", 1);
    assert_int_equal(types_out(p, AT, home, site, &type), -EUCLEAN);
    p = pair(old_text, home_text);                  /* the home's numbers are narrower */
    page_new(home);
    object_add(home, 240, 3, slot_type_of("struct account"), "", 1);
    out(p, home, site);
    memset(site + 240 * 16 + 12, 1, 1);
    assert_int_equal(types_in(p, AT, home, site, back, &type), -EOVERFLOW);
    memset(site + 240 * 16 + 12, 0, 1);
    site[240 * 16 + 32 + 8] = 'x';                  /* of owner, behind the home's 8 */
    assert_int_equal(types_in(p, AT, home, site, back, &type), -EOVERFLOW);
}

static void objects_come_and_go(void **state)
{
    struct types_pair *p = pair(home_text, big_text);
    uint8_t home[4096], site[4096], back[4096], zeros[4096] = {0};
    (void)state;
    out(p, zeros, site);
    assert_memory_equal(site, zeros, sizeof zeros); /* a page that nobody has used yet */
    page_make(site);
    in(p, zeros, site, home);
    const struct account *a = (void *)(home + 250 * 16);
    assert_int_equal(a->kind, 7 << 8);
    assert_int_equal((uint64_t)a->limit, 1ull << 16);
    /* one is freed, its place taken by another type: nothing of it is seen again */
    page_make(home);
    out(p, home, site);
    memset(site + 32 + 6, 0, 6);
    object_add(site, 240, 1, slot_type_of("struct root"), "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2", 16);
    in(p, home, site, back);
    assert_memory_equal(back + 240 * 16, "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16);
    assert_memory_equal(back + 241 * 16, zeros, 32);
    assert_memory_equal(back + 250 * 16, home + 250 * 16, 48);
    uint8_t ones[48];
    memset(ones, 0xff, sizeof ones);
    page_new(home);
    object_add(home, 240, 3, slot_type_of("struct root"), ones, sizeof ones);
    page_new(site);
    object_add(site, 240, 3, slot_type_of("struct account"), "", 1);
    in(p, home, site, back);
    assert_memory_equal(back + 240 * 16, zeros, 48); /* between its fields, too */
    memset(site, 0, 12);                            /* the page is given back */
    in(p, home, site, back);
    assert_memory_equal(back, zeros, sizeof zeros);
}

static void arrays(void **state)
{
    struct types_pair *p = pair(home_text, big_text);
    uint8_t home[4096], site[4096];
    struct account three[3] = {ann, bob, ann};
    uint32_t type;
    (void)state;
    page_new(home);
    object_add(home, 200, 9, slot_type_of("struct account"), three, sizeof three);
    out(p, home, site);
    assert_memory_equal(site + 200 * 16 + 96 + 16, "\0\7", 2);
    p = pair(home_text, old_text);                  /* they would lie at other addresses */
    assert_int_equal(types_out(p, AT, home, site, &type), -EPROTOTYPE);
}

static void matched(const char *home, const char *site, const char *name)
{
    static struct types_pair p;
    char refused[TYPE_NAME_BYTES] = "";
    assert_int_equal(types_parse(&p.home, home, strlen(home)), 0);
    assert_int_equal(types_parse(&p.site, site, strlen(site)), 0);
    assert_int_equal(types_match(&p, refused), -EPROTOTYPE);
    assert_string_equal(refused, name);
}

static void undescribed_types_are_refused_by_name(void **state)
{
    (void)state;
    matched("order little\ntype 8 a\n0 u64 x\ntype 8 struct b\n0 u64 x\n",
            "order little\ntype 8 a\n0 u64 x\n", "struct b");
    matched("order big\ntype 8 a\n0 u64 x\n", "order big\ntype 8 a\ntype 8 c\n", "c");
    matched("order big\ntype 8 a\n0 u64 x\n", "order big\ntype 8 a\n0 f64 x\n", "a");
    matched("order big\ntype 8 a\nname n a\n", "order big\ntype 8 a\n", "n");
    matched("order big\ntype 8 a\ntype 8 b\nname n a\n",
            "order big\ntype 8 a\ntype 8 b\nname n b\n", "n");
}

static void wrong_texts(void **state)
{
    static struct types t;
    static const struct { const char *text; unsigned line; } wrong[] = {
        {"", 1}, {"order middle\ntype 8 a\n", 1}, {"order big\n", 2}, {"type 8 a\n", 1},
        {"order big\n0 u64 x\n", 2}, {"order big\ntype 0 a\n", 2}, {"order big\ntype 9999 a\n", 2},
        {"order big\ntype 8\n", 2}, {"order big\ntype 8 a\n4 u64 x\n", 3},
        {"order big\ntype 8 a\n0 u64 x\n0 u8 x\n", 4},
        {"order big\ntype 8 a\n0 u64 x\n7 u8 y\n", 4},
        {"order big\ntype 8 a\n0 u64*0 x\n", 3},
        {"order big\ntype 8 a\n0 u64*99999999999 x\n", 3},
        {"order big\ntype 8 a\n0 u63 x\n", 3}, {"order big\ntype 8 a\ntype 8 a\n", 3},
        {"order big\ntype 8 a\nname n b\n", 3}, {"order big\ntype 8 a\nname n a\nname n a\n", 4},
        {"order big\ntype 8 a\n-1 u8 x\n", 3}, {"order big\ntype 8 a\n0 u8\n", 3}};
    (void)state;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(types_parse(&t, wrong[i].text, strlen(wrong[i].text)), wrong[i].line);
    char long_text[TYPES_TEXT_MAX + 1];
    memset(long_text, '\n', sizeof long_text);
    memcpy(long_text, old_text, sizeof old_text - 1);
    assert_int_equal(types_parse(&t, long_text, sizeof long_text), 1);
    assert_int_equal(types_parse(&t, long_text, sizeof long_text - 1), 0);
}

/* ---- what lies ---- */

static void spoil(uint8_t *bytes, size_t size, unsigned most)
{
    for (unsigned i = (unsigned)rand() % most + 1; i > 0 && size; i--)
        bytes[(size_t)rand() % size] = (uint8_t)(rand() % 2 ? rand() : "0139 *\n\xff"[rand() % 8]);
}

static void hostile(void **state)
{
    static const char *const texts[] = {home_text, big_text, old_text};
    unsigned parsed = 0, converted = 0, back_again = 0;
    struct types_pair *p = malloc(sizeof *p);
    (void)state;
    srand(1);
    for (unsigned n = 0; n < 60000; n++) {
        const char *text[2] = {texts[rand() % 3], texts[rand() % 3]};
        struct types *t[2] = {&p->home, &p->site};
        char refused[TYPE_NAME_BYTES];
        bool good = true;
        for (int i = 0; i < 2; i++) {
            size_t bytes = strlen(text[i]) - (rand() % 4 ? 0 : (size_t)rand() % strlen(text[i]));
            uint8_t *copy = malloc(bytes);
            memcpy(copy, text[i], bytes);
            if (rand() % 2) spoil(copy, bytes, 3);
            good &= types_parse(t[i], (const char *)copy, bytes) == 0;
            free(copy);
        }
        if (!good || types_match(p, refused)) continue;
        parsed++;
        uint8_t *home = malloc(4096), *site = malloc(4096), *back = malloc(4096);
        uint32_t type;
        page_make(home);
        if (rand() % 2) spoil(home, 60, 4);         /* header and slots */
        if (rand() % 2) spoil(home, 4096, 40);
        if (types_out(p, AT, home, site, &type) == 0) {
            converted++;
            if (rand() % 2) spoil(site, 60, 4);
            if (rand() % 2) spoil(site, 4096, 40);
            if (types_in(p, AT, home, site, back, &type) == 0) {
                back_again++;
                /* what the home then grants, the site has again */
                (void)types_out(p, AT, back, site, &type);
            }
        }
        free(home);
        free(site);
        free(back);
    }
    free(p);
    print_message("%u pairs, %u pages converted, %u back\n", parsed, converted, back_again);
    assert_true(parsed > 5000 && converted > 2000 && back_again > 1000);
}

/* Any value, through any pair of widths, comes back, or is refused. */
static void numbers_come_back(void **state)
{
    static const char *const kinds[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
    unsigned refused = 0, kept = 0;
    (void)state;
    srand(2);
    for (unsigned n = 0; n < 100000; n++) {
        char word[2][8];
        struct type_field f[2] = {{.count = 1}, {.count = 1}};
        uint8_t a[8] = {0}, b[8], c[8] = {0};
        bool big[2] = {rand() % 2, rand() % 2};
        for (int i = 0; i < 2; i++) {
            strcpy(word[i], kinds[rand() % 8]);
            assert_true(kind_read(&f[i], word[i]));
        }
        uint64_t v = ((uint64_t)rand() << 33 ^ (uint64_t)rand()) >> rand() % 64;
        if (rand() % 2) v = ~v;
        bytes_put(a, f[0].width, big[0], v);
        if (number_convert(&f[0], a, big[0], &f[1], b, big[1])) {
            refused++;
            continue;
        }
        assert_int_equal(number_convert(&f[1], b, big[1], &f[0], c, big[0]), 0);
        assert_memory_equal(a, c, 8);
        kept++;
    }
    assert_true(kept > 30000 && refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_other_order), cmocka_unit_test(an_older_layout),
        cmocka_unit_test(what_is_not_changed_stays),
        cmocka_unit_test(elements_that_are_not_changed_stay),
        cmocka_unit_test(what_does_not_fit_is_refused), cmocka_unit_test(objects_come_and_go),
        cmocka_unit_test(arrays), cmocka_unit_test(undescribed_types_are_refused_by_name),
        cmocka_unit_test(wrong_texts), cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
