/*
 * types.c - the numbers that pages keep for types, and allocation with a type.
 *
 * A number is made of 31 bits of the text's hash (slot.h), so two texts may have the same one: of a
 * hundred types that happens to one program in four hundred thousand. Their objects would be taken
 * for each other's by ps_each and kstore, so this process remembers the text of each number that it
 * has used, and refuses a second one.
 *
 * Locks: none (TX1): a place is taken by one atomic exchange, and its text counts when it is whole.
 * A thread that leaves its transaction in between leaves a place that nobody uses.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

enum { TYPES_MAX = 1024, TEXT_BYTES = 60 };

static struct known {
    _Atomic uint32_t number;            /* 0: free; set when the text is whole */
    _Atomic uint32_t taken;
    char text[TEXT_BYTES];              /* its first bytes */
} known[TYPES_MAX];

static int same_text(const struct known *k, const char *text)
{
    return strncmp(k->text, text, TEXT_BYTES - 1) == 0;
}

/* number_is_of notes the first text of a number; 0: another has it. A full table learns none. */
static int number_is_of(uint32_t number, const char *text)
{
    for (unsigned i = 0; i < TYPES_MAX; i++) {
        struct known *k = &known[(number + i) % TYPES_MAX];
        uint32_t free_place = 0;
        if (k->number == number)
            return same_text(k, text);
        if (k->number || !atomic_compare_exchange_strong(&k->taken, &free_place, 1))
            continue;
        strncpy(k->text, text, TEXT_BYTES - 1);
        k->number = number;
        return 1;
    }
    return 1;
}

uint32_t type_number(const char *type)
{
    uint32_t number = slot_type_of(type);
    if (number != SLOT_TYPE_ARENA && number_is_of(number, type))
        return number;
    errno = ENOTUNIQ;
    return 0;
}

static void *alloc_typed(ps_container *c, size_t bytes, const void *near, uint32_t type)
{
    struct ps_tx *tx = tx_writing(c);
    uint64_t arena = tx && type ? directory_arena_of(tx, c, type) : 0;
    return error_told_by(bytes > OBJECT_BYTES_MAX ? ERROR_LARGE : ERROR_ALLOC,
                         tx ? heap_alloc(tx, c, bytes, near, type, arena) : NULL);
}

void *ps_alloc(ps_container *c, size_t bytes, const void *near)
{
    return alloc_typed(c, bytes, near, 0);
}

void *ps_alloc_as(ps_container *c, size_t bytes, const void *near, const char *type)
{
    uint32_t number = type_number(type);
    void *object = number ? alloc_typed(c, bytes, near, number) : NULL;
    if (object && lint_on)
        lint_note(object, bytes, type);
    return object;
}

char *ps_strdup(ps_container *c, const char *text, const void *near)
{
    size_t bytes = strlen(text) + 1;
    char *copy = ps_alloc(c, bytes, near);
    GUARD_OPENED(c);
    return copy ? memcpy(copy, text, bytes) : NULL;
}
