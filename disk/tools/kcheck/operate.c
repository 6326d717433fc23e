/*
 * operate.c - records of operations (type 21), as format.md tells of them.
 */
#include "view.h"

#include <string.h>

enum { STORE, COPY, FILL };

struct step {
    unsigned function, at, length, far;
    const uint8_t *data, *next;
};

/* The number at *at, and *at behind it; -1: there is none. */
static int number_read(const uint8_t **at, const uint8_t *end)
{
    if (*at == end || (**at > 127 && *at + 1 == end))
        return -1;
    unsigned number = *(*at)++;
    return (int)(number > 127 ? number % 128 + 128u * *(*at)++ : number);
}

/* The step at `at`, of a page of which `done` bytes are behind it. NULL: fine; else what it is. */
static const char *step_read(const uint8_t *at, const uint8_t *end, unsigned done,
                             struct step *step)
{
    int head = number_read(&at, end), length = head < 0 ? -1 : number_read(&at, end), far = 0;
    step->function = (unsigned)head % 4;
    if (length >= 0 && step->function == COPY)
        far = number_read(&at, end);
    if (head < 0 || length < 0 || far < 0)
        return "it ends inside of an operation";
    if (step->function > FILL)
        return "it has an operation that is none";
    unsigned takes = step->function == STORE ? (unsigned)length : step->function == FILL;
    if (takes > end - at)
        return "it ends inside of an operation";
    step->at = done + (unsigned)head / 4;
    step->length = (unsigned)length;
    step->far = (unsigned)far / 2;
    step->data = at;
    step->next = at + takes;
    if (!length || step->at + step->length > BLOCK_BYTES ||
        (far % 2 ? step->at + step->length + step->far > BLOCK_BYTES : step->far > step->at))
        return "an operation leaves its page";
    if (far % 2)
        step->far = -step->far;
    return NULL;
}

const char *koperations(const uint8_t *data, uint32_t bytes)
{
    struct step step = { .next = data };
    const char *why = bytes > BLOCK_BYTES ? "it takes more than its page" : NULL;
    while (!why && step.next < data + bytes)
        why = step_read(step.next, data + bytes, step.at + step.length, &step);
    return why;
}

void koperate(uint8_t *page, const uint8_t *data, uint32_t bytes)
{
    uint8_t before[BLOCK_BYTES];
    struct step step = { .next = data };
    memcpy(before, page, sizeof before);
    while (step.next < data + bytes &&
           !step_read(step.next, data + bytes, step.at + step.length, &step)) {
        if (step.function == FILL)
            memset(page + step.at, *step.data, step.length);
        else
            memcpy(page + step.at,
                   step.function == STORE ? step.data : before + (step.at - step.far), step.length);
    }
}
