/* subject_hash.c - the hash, of numbers with good hashes and bad ones, and of strings, beside
 * arrays. */
#include <stdio.h>
#include <structures/hash.h>

#include "subject.h"

enum { KEYS = 4000 };
struct number { uint32_t n; };
struct record { uint64_t id; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
/* Every seventh key has one of three hashes, so that their buckets get further nodes. */
static uint64_t number_hash(const struct number *key)
{
    return key->n % 7 ? key->n : key->n % 3;
}
PS_HASH_OF(numbers, struct number, struct record, by_number, number_hash, 256);
PS_STRING_HASH_OF(words, struct record, 512);
static struct kept {
    struct numbers_head numbers;
    struct words_head words;
    uint32_t id[KEYS];          /* 0: not there */
} *kept;
static struct numbers numbers = {.name = "numbers"};
static struct words words = {.name = "words"};
#include "subject_pair.h"

static const char *word_of(uint32_t n)
{
    static char word[40];
    snprintf(word, sizeof word, "%s-%u", n % 3 ? "word" : "a-much-longer-word", n);
    return word;
}

/* What one hash does, the other one does as well; the second may fail where the first did not. */
static int put(struct numbers_keyed *a, struct words_keyed *w, uint32_t n, int replace)
{
    struct number key = {n};
    struct record record = {1 + draw(1000000)};
    int want = kept->id[n] && !replace ? -EEXIST : 0;
    int error = replace ? numbers_put(a, &key, &record) : numbers_insert(a, &key, &record);
    if (error == -ENOSPC)
        return error;
    SAME(error == want);
    error = replace ? words_put(w, word_of(n), &record) : words_insert(w, word_of(n), &record);
    if (error == -ENOSPC) {
        SAME(kept->id[n] == 0 && numbers_remove(a, &key) == 0);
        return error;
    }
    SAME(error == want);
    if (want == 0)
        kept->id[n] = (uint32_t)record.id;
    return 0;
}

static int even(const struct number *key, const struct record *record, void *unused)
{
    (void)record, (void)unused;
    return key->n % 2 == 0;
}

/* A generator: every record once, though records come and go meanwhile. */
static void go_through(void)
{
    static uint8_t seen[KEYS];
    memset(seen, 0, sizeof seen);
    PS_ACCESS(numbers_range, r, &numbers, PS_CHANGE);
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    PS_ACCESS(words_keyed, w, &words, PS_CHANGE);
    int filtered = draw(2) == 0;
    if (filtered)
        numbers_filter(&r, even, NULL);
    while (numbers_next(&r)) {
        uint32_t n = numbers_key(&r)->n;
        SAME(n < KEYS && !seen[n] && kept->id[n] && (n % 2 == 0 || !filtered));
        seen[n] = 1;
        if (draw(10) == 0) {
            SAME(numbers_drop(&r) == 0 && numbers_drop(&r) == -EINVAL);
            SAME(words_remove(&w, word_of(n)) == 0);
            kept->id[n] = 0;
        }
        uint32_t other = draw(KEYS);
        if (seen[other] && kept->id[other] && draw(2)) {
            SAME(numbers_remove(&a, &(struct number){other}) == 0);
            SAME(words_remove(&w, word_of(other)) == 0);
            kept->id[other] = 0;
        }
    }
    SAME(errno == 0);
    for (uint32_t n = 0; n < KEYS; n += 1 + (unsigned)filtered)
        SAME(seen[n] || !kept->id[n]);
}

static int operation(int growing)
{
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    PS_ACCESS(words_keyed, w, &words, PS_CHANGE);
    uint32_t n = draw(KEYS);
    const struct record *r = numbers_find(&a, &(struct number){n}), *s = words_find(&w, word_of(n));
    SAME((r != NULL) == (kept->id[n] != 0) && (!r || r->id == kept->id[n]));
    SAME((s != NULL) == (kept->id[n] != 0) && (!s || s->id == kept->id[n]));
    if (draw(10) < (growing ? 7u : 3u))
        return put(&a, &w, n, draw(2) == 0);
    if (!growing && draw(400) == 0)
        go_through();
    int error = numbers_remove(&a, &(struct number){n}), other = words_remove(&w, word_of(n));
    SAME(error == (kept->id[n] ? 0 : -ENOENT) || kept->id[n] == 0);
    SAME(error == other);
    kept->id[n] = 0;
    return 0;
}

static void compare(void)
{
    PS_ACCESS(numbers_keyed, a, &numbers, PS_LOOK);
    PS_ACCESS(words_keyed, w, &words, PS_LOOK);
    PS_ACCESS(words_range, r, &words, PS_LOOK);
    struct ps_hash_stats stats, more;
    uint64_t count = 0, came = 0;
    SAME(ps_hash_check(&a.access, &stats, NULL) == 0);
    SAME(ps_hash_check(&w.access, &more, NULL) == 0);
    for (uint32_t n = 0; n < KEYS; n++) {
        const struct record *record = numbers_find(&a, &(struct number){n});
        SAME(record ? record->id == kept->id[n] : kept->id[n] == 0);
        record = words_find(&w, word_of(n));
        SAME(record ? record->id == kept->id[n] : kept->id[n] == 0);
        count += kept->id[n] != 0;
    }
    SAME(stats.depth <= 13 && more.depth <= 13);
    SAME(stats.records == count && more.records == count);
    while (words_next(&r))
        came++;
    SAME(came == count);
}

const struct subject subject_hash = {"hash", sizeof(struct kept), place,   set_up,
                                     tear_down, operation,        compare,
                                     offsetof(struct kept, id)};
