#!/bin/bash
# The types of ready-made structures: a right program compiles, and each wrong one is refused by the compiler.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

# program LINE: compiles, with LINE in the middle of a program that is right.
program() {
    cat >"$TEST_TMP/program.c" <<END_OF_PROGRAM
#include <structures/bitmap.h>
#include <structures/hash.h>
#include <structures/queue.h>
#include <structures/rope.h>
#include <structures/rtree.h>
#include <structures/tree.h>
#include <structures/vector.h>
struct key { int area, number; };
struct record { char name[24]; };
struct other { int area, number; };
static int by_number(const struct key *a, const struct key *b) { return a->number - b->number; }
static int by_other(const struct other *a, const struct other *b) { return a->number - b->number; }
static int is_long(const struct key *k, const struct record *r, void *unused) { (void)k, (void)unused; return r->name[9]; }
PS_TREE(phone, struct key, struct record, by_number);
PS_TREE(mail, struct other, struct record, by_other);
PS_STRING_TREE(word, int);
static uint64_t key_hash(const struct key *k) { return (uint64_t)k->number; }
static uint64_t other_hash(const struct other *k) { return (uint64_t)k->number; }
PS_HASH(people, struct key, struct record, by_number, key_hash);
PS_STRING_HASH(nicks, int);
PS_VECTOR(points, struct record);
PS_QUEUE(jobs, struct record);
PS_QUEUE(letters, struct record);
PS_BITMAP(taken);
PS_ROPE(draft);
PS_RTREE(shops, struct record, 2);
PS_RTREE(stars, struct record, 3);
struct root {
    struct phone_head phones;
    struct mail_head mails;
    struct word_head words;
    struct people_head people;
    struct points_head points;
    struct jobs_head jobs;
    struct taken_head taken;
    struct draft_head draft;
    struct shops_head shops;
};
int use(struct root *root, struct ps_memory memory)
{
    struct phone phones = {.head = &root->phones, .memory = memory, PS_ORDER(by_number), .flags = PS_DESCENDING};
    struct word words = {.head = &root->words, .memory = memory};
    struct people people = {.head = &root->people, .memory = memory};
    struct points points = {.head = &root->points, .memory = memory};
    struct jobs jobs = {.head = &root->jobs, .memory = memory};
    struct taken taken = {.head = &root->taken, .memory = memory};
    struct draft draft = {.head = &root->draft, .memory = memory};
    struct shops shops = {.head = &root->shops, .memory = memory};
    struct shops_box shop = {{1, 2}, {3, 4}};
    struct stars_box star = {{1, 2, 3}, {3, 4, 5}};
    struct key key = {1, 2};
    struct record record = {"ann"};
    struct other other = {1, 2};
    int error = phone_set_up(&phones);
    PS_ACCESS(phone_keyed, a, &phones, PS_CHANGE);
    PS_ACCESS(phone_range, r, &phones, &key, NULL, PS_DOWN, PS_LOOK);
    PS_ACCESS(phone_load, l, &phones, 70);
    PS_ACCESS(word_keyed, w, &words, PS_LOOK);
    PS_ACCESS(people_keyed, h, &people, PS_CHANGE);
    PS_ACCESS(people_range, hr, &people, PS_LOOK);
    PS_ACCESS(draft_text, x, &draft, PS_CHANGE);
    PS_ACCESS(shops_boxes, b, &shops, PS_CHANGE);
    PS_ACCESS(shops_range, br, &shops, &shop, PS_INTERSECT, PS_LOOK);
    PS_ACCESS(points_items, p, &points, PS_CHANGE);
    PS_ACCESS(jobs_ends, j, &jobs, PS_CHANGE);
    PS_ACCESS(taken_bits, t, &taken, PS_CHANGE);
    (void)x, (void)b, (void)br, (void)star, (void)h, (void)hr, (void)other_hash, (void)p, (void)j, (void)t, (void)other, (void)by_other, (void)is_long, (void)record, (void)w, (void)r, (void)l, (void)a;
    $1
    return error;
}
END_OF_PROGRAM
    scripts/katydid-cc -Werror -fsyntax-only ${2:+-Wno-error} "$TEST_TMP/program.c"
}
# refused NAME LINE: as an error, though no warning is one.
refused() {
    local output status=0
    output=$(program "$2" no 2>&1) || status=$?
    ok "refused: $1" test "$status" -ne 0
    ok '... by an error, with its line' grep -Ezq 'error: .*program\.c:[0-9]+|program\.c:[0-9]+:.*error: ' <<<"$output"
}

ok a_right_program_compiles program '
    phone_filter(&r, is_long, NULL);
    error |= phone_insert(&a, &key, &record) | phone_put(&a, &key, &record) | phone_remove(&a, &key);
    error |= phone_add(&l, &key, &record) | phone_drop(&r);
    const struct record *found = phone_find(&a, &key);
    struct record *mine = phone_change(&a, &key);
    const struct key *where = found && mine && phone_next(&r) ? phone_key(&r) : NULL;
    error |= where && word_find(&w, "dog");
    error |= points_append(&p, &record) | jobs_push(&j, &record) | jobs_pop(&j, &record) | taken_set(&t, 7);
    error |= people_put(&h, &key, &record) | (people_next(&hr) && people_key(&hr)->number);
    error |= draft_insert(&x, 0, "dog", 3) | shops_insert(&b, &shop, &record) | (shops_next(&br) && shops_where(&br));
    error |= points_get(&p, 0) || jobs_first(&j);'
refused a_key_of_another_type 'phone_insert(&a, &other, &record);'
refused a_record_of_another_type 'phone_insert(&a, &key, &key);'
refused a_key_that_is_a_number 'phone_find(&a, 7);'
refused a_string_for_a_key 'phone_find(&a, "ann");'
refused a_key_for_a_string 'word_find(&w, &key);'
refused an_access_object_of_another_class 'phone_insert(&r, &key, &record);'
refused an_access_object_of_another_tree 'phone_find(&w, &key);'
refused data_through_the_instance 'phone_find(&phones, &key);'
refused a_head_of_another_tree 'struct phone wrong = {.head = &root->mails}; (void)wrong;'
refused an_order_of_another_type 'struct phone wrong = {PS_ORDER(by_other)}; (void)wrong;'
refused a_filter_of_another_type 'phone_filter(&r, by_number, NULL);'
refused what_was_found_is_constant 'struct record *found = phone_find(&a, &key); (void)found;'
refused a_tree_with_an_order_of_another_key '} PS_TREE(wrong, struct key, struct record, by_other); int x(void) { int error = 0;'
refused a_record_that_is_too_large '} struct big { char b[1200]; }; PS_TREE(wrong, struct key, struct big, by_number); int x(void) { int error = 0;'
refused a_key_of_another_hash 'people_find(&h, &other);'
refused a_tree_used_as_a_hash 'people_find(&a, &key);'
refused a_hash_used_as_a_tree 'phone_find(&h, &key);'
refused a_hash_function_of_another_key '} PS_HASH(wrong, struct key, struct record, by_number, other_hash); int x(void) { int error = 0;'
refused a_vector_of_another_record 'points_append(&p, &key);'
refused an_item_that_was_got_is_constant 'struct record *found = points_get(&p, 0); (void)found;'
refused a_push_of_another_record 'jobs_push(&j, &key);'
refused a_pop_into_another_record 'jobs_pop(&j, &key);'
refused an_access_object_of_another_queue 'letters_push(&j, &record);'
refused a_head_of_another_queue 'struct letters wrong = {.head = &root->jobs}; (void)wrong;'
refused a_vector_used_as_a_bitmap 'taken_set(&p, 7);'
refused a_box_of_other_dimensions 'shops_insert(&b, &star, &record);'
refused a_record_of_another_r_tree 'shops_insert(&b, &shop, &key);'
refused a_query_for_another_r_tree 'PS_ACCESS(shops_range, wrong, &shops, &star, PS_INTERSECT, PS_LOOK);'
refused text_that_is_a_number 'draft_insert(&x, 0, 7, 1);'
refused a_rope_read_as_a_vector 'points_get(&x, 0);'
refused a_record_larger_than_a_block '} struct big { char b[5000]; }; PS_VECTOR(wrong, struct big); int x(void) { int error = 0;'
done_testing
