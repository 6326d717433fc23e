/*
 * tree.c - the lines of an outline, and what undoes a change of them.
 */
#include <string.h>

#include "outline.h"

/* ---- the tree ---- */

struct line *line_after(const struct line *line, int also_folded)
{
    if (line->first && (also_folded || !line->folded))
        return line->first;
    while (line->parent && !line->next)
        line = line->parent;
    return line->next;
}

struct line *line_before(const struct line *line)
{
    struct line *before = line->previous;
    if (!before)
        return line->parent == &o->top ? NULL : line->parent;
    while (before->last && !before->folded)
        before = before->last;
    return before;
}

/* The line leaves its place, and goes below `parent`, behind `previous` (NULL: as the first). */
static void place(struct line *line, struct line *parent, struct line *previous)
{
    if (line->parent) {
        *(line->previous ? &line->previous->next : &line->parent->first) = line->next;
        *(line->next ? &line->next->previous : &line->parent->last) = line->previous;
    }
    line->parent = parent;
    line->previous = previous;
    line->next = NULL;
    if (parent) {
        struct line **link = previous ? &previous->next : &parent->first;
        line->next = *link;
        *link = line;
        *(line->next ? &line->next->previous : &parent->last) = line;
    }
}

/* ---- undo ---- */

static void forget(const struct change *c, int undone)
{
    struct line *line = c->kind == (undone ? MAKE : REMOVE) ? c->line : NULL;
    if (line)                           /* nothing leads to it any more */
        line->next = o->garbage, o->garbage = line;
    ps_free(c->text);
}

/* Keeps how a line is before it is changed. What was undone cannot be redone any more. */
static int change(enum kind kind, struct line *line)
{
    char *text = kind == TEXT && line->text ? ps_strdup(container, line->text, line) : NULL;
    if (kind == TEXT && line->text && !text)
        return -errno;
    while (o->redo > o->undo)
        forget(&o->changes[--o->redo % CHANGES], 1);
    if (o->undo - o->oldest == CHANGES)
        for (uint64_t key = o->changes[o->oldest % CHANGES].key;
             o->changes[o->oldest % CHANGES].key == key; o->oldest++)
            forget(&o->changes[o->oldest % CHANGES], 0);
    o->changes[o->undo % CHANGES] = (struct change){.kind = kind, .line = line, .text = text,
        .parent = line->parent, .previous = line->previous, .cursor = o->cursor, .at = o->at,
        .key = o->key};
    o->redo = ++o->undo;
    return 0;
}

static void swap(struct change *c)
{
    struct change now = {.text = c->line->text, .parent = c->line->parent, .at = o->at,
                         .previous = c->line->previous, .cursor = o->cursor};
    if (c->kind == TEXT)
        c->line->text = c->text, c->text = now.text;
    else
        place(c->line, c->parent, c->previous);
    o->cursor = c->cursor, o->at = c->at;
    c->parent = now.parent, c->previous = now.previous, c->cursor = now.cursor, c->at = now.at;
}

void undo(void)
{
    uint64_t key = o->undo > o->oldest ? o->changes[(o->undo - 1) % CHANGES].key : 0;
    refused = !key;
    while (o->undo > o->oldest && o->changes[(o->undo - 1) % CHANGES].key == key)
        swap(&o->changes[--o->undo % CHANGES]);
}

void redo(void)
{
    uint64_t key = o->redo > o->undo ? o->changes[o->undo % CHANGES].key : 0;
    refused = !key;
    while (o->redo > o->undo && o->changes[o->undo % CHANGES].key == key)
        swap(&o->changes[o->undo++ % CHANGES]);
}

/* Frees a few lines that were forgotten: so no key takes as long as a tree is large. */
void collect(void)
{
    for (int i = 0; i < 64 && o->garbage; i++) {
        struct line *line = o->garbage, *child = line->first;
        if (child) {
            line->first = child->next;
            child->next = line;
            o->garbage = child;
        } else {
            o->garbage = line->next;
            ps_free(line->text);
            ps_free(line);
        }
    }
}

const char *text_of(const struct line *line) { return line->text ? line->text : ""; }
uint32_t length_of(const struct line *line) { return (uint32_t)strlen(text_of(line)); }

int move(enum kind kind, struct line *line, struct line *parent, struct line *previous)
{
    int error = change(kind, line);
    if (error == 0)
        place(line, parent, previous);
    return error;
}

int make(struct line *parent, struct line *previous, struct line **made)
{
    typing = NULL;
    struct line *line = *made = ps_new(container, struct line, previous ? previous : parent);
    return line ? move(MAKE, line, parent, previous) : -errno;
}

/* Of the line's text `cut` bytes at `at` give way to `add`. What is typed into the line that
 * the last key typed into is one change with that. */
int splice(struct line *line, uint32_t at, uint32_t cut, const char *add)
{
    uint32_t length = length_of(line), adds = (uint32_t)strlen(add), all = length - cut + adds;
    if ((refused = all > TEXT_MAX))
        return overlong = 1, 0;
    int error = line == typing ? 0 : change(TEXT, line);
    if (error == 0 && (!line->text || ps_size(line->text) <= all)) {
        char *text = line->text ? ps_realloc(line->text, all + 1)
                                : ps_alloc(container, all + 1, line);
        if (!text)
            return -errno;
        line->text = text;
    }
    if (error)
        return error;
    memmove(line->text + at + adds, line->text + at + cut, length - at - cut + 1);
    memcpy(line->text + at, add, adds);
    return 0;
}

/* The number of bytes of the character at, or before, a place. */
uint32_t char_bytes(const char *text, uint32_t at, int before)
{
    uint32_t n = 0;
    if (before)
        while (at > n && (text[at - ++n] & 0xc0) == 0x80) {
        }
    else
        while (text[at + n] && (text[at + ++n] & 0xc0) == 0x80) {
        }
    return n;
}

