/* subject_records.c - trees with records of variable size, by numbers and by strings, beside
 * arrays. */
#include <stdio.h>
#include <structures/tree.h>

#include "subject.h"

enum { KEYS = 1500 };
struct number { uint32_t n; };
struct note { uint32_t id; char text[]; };                  /* it may be shorter than its id */
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE_BYTES_OF(numbers, struct number, struct note, by_number, 2048);
PS_STRING_TREE_BYTES_OF(words, char, 1024);
static struct kept {
    struct numbers_head numbers;
    struct words_head words;
    struct { uint32_t id, bytes; } notes[KEYS];             /* id 0: not there */
} *kept;
static struct numbers numbers = {.name = "numbers", .flags = PS_DESCENDING};
static struct words words = {.name = "words"};
#include "subject_pair.h"

static const char *word_of(uint32_t n)
{
    static char word[60];
    snprintf(word, sizeof word, "%s%u", n % 5 ? "in-the-same-way-" : n % 3 ? "another-" : "", n);
    return word;
}

/* What a note of that id holds. */
static const void *text_of(uint32_t id, uint32_t bytes)
{
    static _Alignas(struct note) char text[2048];
    memset(text, 'a' + (int)(id % 26), bytes);
    memcpy(text, &id, bytes < sizeof id ? bytes : sizeof id);
    return text;
}

static int is_note(const void *record, size_t bytes, uint32_t n)
{
    return record && kept->notes[n].id && bytes == kept->notes[n].bytes &&
           memcmp(record, text_of(kept->notes[n].id, (uint32_t)bytes), bytes) == 0;
}

/* What one tree does, the other one does as well; if it fails there, the first takes it back. */
static int put(struct numbers_keyed *a, struct words_keyed *w, uint32_t n, int replace)
{
    struct number key = {n};
    uint32_t id = 1 + draw(1000000), most = words_record_max, old = kept->notes[n].bytes;
    uint32_t bytes = draw(8) ? draw(55) : draw(4) ? draw(most + 1) : most;
    int there = kept->notes[n].id != 0, want = there && !replace ? -EEXIST : 0;
    const void *text = text_of(id, bytes);
    int error = replace ? numbers_put(a, &key, text, bytes) : numbers_insert(a, &key, text, bytes);
    if (error == -ENOSPC)
        return error;
    SAME(error == want);
    error = replace ? words_put(w, word_of(n), text, bytes)
                    : words_insert(w, word_of(n), text, bytes);
    if (error == -ENOSPC) {
        if (there && numbers_put(a, &key, text_of(kept->notes[n].id, old), old) == 0)
            return error;
        SAME(numbers_remove(a, &key) == 0);
        if (there) {            /* neither has it now */
            SAME(words_remove(w, word_of(n)) == 0);
            kept->notes[n].id = 0;
        }
        return error;
    }
    SAME(error == want);
    if (want == 0)
        kept->notes[n].id = id, kept->notes[n].bytes = bytes;
    return 0;
}

static void look(struct numbers_keyed *a, struct words_keyed *w, uint32_t n)
{
    const void *note = numbers_find(a, &(struct number){n});
    SAME(note ? is_note(note, numbers_found(a), n) : kept->notes[n].id == 0);
    note = words_find(w, word_of(n));
    SAME(note ? is_note(note, words_found(w), n) : kept->notes[n].id == 0);
}

/* All notes, from the highest number down, some dropped on the way. */
static void go_through(void)
{
    PS_ACCESS(numbers_range, r, &numbers, NULL, NULL, PS_UP, PS_CHANGE);
    PS_ACCESS(words_keyed, w, &words, PS_CHANGE);
    uint32_t n = KEYS;
    for (const struct note *note; (note = numbers_next(&r));) {
        for (n--; n > numbers_key(&r)->n; n--)
            SAME(kept->notes[n].id == 0);
        SAME(n == numbers_key(&r)->n && is_note(note, numbers_bytes(&r), n));
        if (draw(10) == 0) {
            SAME(numbers_drop(&r) == 0 && words_remove(&w, word_of(n)) == 0);
            kept->notes[n].id = 0;
        }
    }
    SAME(errno == 0);
    while (n-- > 0)
        SAME(kept->notes[n].id == 0);
}

/* Neighbours get records of a few bytes: their leaves shrink, though none leaves. */
static int shorten(struct numbers_keyed *a, struct words_keyed *w, uint32_t n)
{
    for (uint32_t last = n + 150; n < last && n < KEYS; n++) {
        uint32_t bytes = draw(5);
        if (!kept->notes[n].id)
            continue;
        const void *text = text_of(kept->notes[n].id, bytes);
        SAME(numbers_put(a, &(struct number){n}, text, bytes) == 0);
        SAME(words_put(w, word_of(n), text, bytes) == 0);
        kept->notes[n].bytes = bytes;
    }
    return 0;
}

static int operation(int growing)
{
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    PS_ACCESS(words_keyed, w, &words, PS_CHANGE);
    uint32_t n = draw(KEYS);
    look(&a, &w, n);
    if (draw(10) < (growing ? 7u : 4u))
        return put(&a, &w, n, draw(4) != 0);
    if (!growing && draw(400) == 0)
        go_through();
    if (draw(200) == 0)
        return shorten(&a, &w, n);
    const char *long_one = text_of(1, words_record_max + 1);
    SAME(words_put(&w, word_of(n), long_one, words_record_max + 1) == -EOVERFLOW);
    int error = numbers_remove(&a, &(struct number){n}), other = words_remove(&w, word_of(n));
    SAME(error == other && (error == (kept->notes[n].id ? 0 : -ENOENT) || !kept->notes[n].id));
    kept->notes[n].id = 0;
    return 0;
}

static void compare(void)
{
    PS_ACCESS(numbers_keyed, a, &numbers, PS_LOOK);
    PS_ACCESS(words_keyed, w, &words, PS_LOOK);
    struct ps_tree_stats stats, more;
    uint64_t count = 0;
    SAME(ps_tree_check(&a.access, &stats, NULL) == 0);
    SAME(ps_tree_check(&w.access, &more, NULL) == 0);
    for (uint32_t n = 0; n < KEYS; n++) {
        look(&a, &w, n);
        count += kept->notes[n].id != 0;
    }
    SAME(stats.records == count && more.records == count);
}

const struct subject subject_records = {"records of variable size", sizeof(struct kept), place,
                                        set_up, tear_down, operation, compare,
                                        offsetof(struct kept, notes)};
