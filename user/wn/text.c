/*
 * text.c - a text in volatile memory that grows.
 */
#include "wn.h"

#include "pstore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void text_need(struct text *text, size_t more)
{
    if (text->used + more + 1 <= text->room)
        return;
    size_t room = (text->used + more + 1) * 2;
    char *bytes = realloc(text->bytes, room);
    if (bytes == NULL)
        ps_abort(ENOMEM);
    text->bytes = bytes;
    text->room = room;
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    text_need(text, count);
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = 0;
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_number(struct text *text, uint32_t number, int digits_min)
{
    char digits[16];
    int at = sizeof(digits);

    for (; number != 0 || digits_min > 0 || at == sizeof(digits); number /= 10, digits_min--)
        digits[--at] = (char)('0' + number % 10);
    text_add_bytes(text, digits + at, sizeof(digits) - (size_t)at);
}

void text_patch(struct text *text, size_t at, size_t room, const char *string)
{
    size_t bytes = strlen(string);

    if (bytes > room) {
        text_need(text, bytes - room);
        memmove(text->bytes + at + bytes, text->bytes + at + room, text->used - at - room + 1);
        text->used += bytes - room;
    }
    memcpy(text->bytes + at, string, bytes);
}

void text_cut(struct text *text, size_t used)
{
    if (used < text->used) {
        text->used = used;
        text->bytes[used] = 0;
    }
}

void text_replace(struct text *text, size_t from, char old, char new)
{
    for (size_t i = from; i < text->used; i++)
        if (text->bytes[i] == old)
            text->bytes[i] = new;
}
