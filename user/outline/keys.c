/*
 * keys.c - what each key does to an outline. The changes of one key happen all, or not at all.
 */
#include <string.h>
#include <wchar.h>

#include "../terminal.h"
#include "outline.h"

/* The cursor goes there: to a character, not into one. */
static void go(struct line *line, uint32_t at, int rows_down)
{
    if ((refused = !line))
        return;
    o->cursor = line;
    o->at = at < length_of(line) ? at : length_of(line);
    while (o->at > 0 && (text_of(line)[o->at] & 0xc0) == 0x80)
        o->at--;
    o->row += rows_down;
}

/* The line's text goes to the end of the line that is shown before it. */
static int join(struct line *line)
{
    struct line *before = line ? line_before(line) : NULL;
    uint32_t at = before ? length_of(before) : 0;
    typing = NULL;
    if ((refused = !before || line->first))
        return 0;
    int error = *text_of(line) ? splice(before, at, 0, text_of(line)) : 0;
    if (error || refused)
        return error;
    if (line == o->cursor)
        go(before, at, -1);
    return move(REMOVE, line, NULL, NULL);
}

static int enter(struct line *line)
{
    struct line *made;
    int error, inside = line->first && !line->folded;
    if (o->at == 0 && line->text && *line->text) {      /* the new line comes before this one */
        error = make(line->parent, line->previous, &made);
        o->row++;
        return error;
    }
    error = make(inside ? line : line->parent, inside ? NULL : line, &made);
    if (error == 0 && o->at < length_of(line)) {
        if ((error = splice(made, 0, 0, line->text + o->at)) == 0)
            error = splice(line, o->at, length_of(line) - o->at, "");
    }
    if (error == 0)
        go(made, 0, 1);
    return error;
}

static int erase(struct line *line, int before)
{
    uint32_t bytes = char_bytes(text_of(line), o->at, before);
    if (bytes == 0)
        return join(before ? line : line_after(line, 0));
    uint32_t at = o->at - (before ? bytes : 0);
    int error = splice(line, at, bytes, "");    /* what undoes it keeps the cursor before it */
    o->at = at;
    o->typed = line;
    return error;
}

static int indent(struct line *line)
{
    struct line *under = line->previous;
    return (refused = !under) ? 0 : move(MOVE, line, under, under->last);
}

static int outdent(struct line *line)
{
    struct line *above = line->parent;
    return (refused = above == &o->top) ? 0 : move(MOVE, line, above->parent, above);
}

static int shift(struct line *line, int up)
{
    struct line *other = up ? line->previous : line->next;
    if ((refused = !other))
        return 0;
    o->row += up ? -1 : 1;
    return move(MOVE, line, line->parent, up ? other->previous : other);
}

static int take_out(struct line *line)
{
    struct line *near = line->next ? line->next : line_before(line);
    int rows_down = line->next ? 0 : -1;
    int error = near ? 0 : make(&o->top, line, &near);  /* an outline has a line at least */
    if (error == 0)
        error = move(REMOVE, line, NULL, NULL);
    if (error == 0)
        go(near, 0, rows_down);
    return error;
}

static void find(int rows)
{
    struct line *line = o->cursor, *next;
    do {
        next = line_after(line, 1);
        line = next ? next : o->top.first;
    } while (line != o->cursor && !strcasestr(text_of(line), o->find));
    const char *found = strcasestr(text_of(line), o->find);
    if (found) {
        go(line, (uint32_t)(found - text_of(line)), 0);
        o->row = rows / 2;
    }
    refused = !found;
}

static int type(int key, const char *text)
{
    if ((refused = key == 0 || key > 0x10ffff || wcwidth((wchar_t)key) < 0))
        return 0;
    if (key == ' ')
        typing = NULL;                  /* each word is undone by itself */
    int error = splice(o->cursor, o->at, 0, text);
    if (!refused) {
        o->at += (uint32_t)strlen(text);
        o->typed = o->cursor;
    }
    return error;
}

static void find_key(int key, const char *text, int rows)
{
    size_t length = strlen(o->find);
    if (key == 127 || key == CTRL('H'))
        o->find[length - char_bytes(o->find, (uint32_t)length, 1)] = 0;
    else if (key == '\r' || key == '\n' || key == CTRL('F'))
        find(rows);
    else if (!(refused = wcwidth((wchar_t)key) < 0 || length + strlen(text) > FIND_MAX))
        strcat(o->find, text);
    o->finding = key != '\r' && key != '\n';
}

int key_do(int key, const char *text, int rows)
{
    struct line *line = o->cursor;
    if (o->finding && (key < KEY_UP || key > KEY_OTHER))
        return find_key(key, text, rows), 0;
    o->finding = key == CTRL('F');
    switch (key) {
    case KEY_UP: go(line_before(line), o->at, -1); return 0;
    case KEY_DOWN: go(line_after(line, 0), o->at, 1); return 0;
    case KEY_PAGE_UP:
    case KEY_PAGE_DOWN:
        for (int i = 0; i < rows - 1 && !refused; i++)
            go(key == KEY_PAGE_UP ? line_before(o->cursor) : line_after(o->cursor, 0), o->at, 0);
        return 0;
    case KEY_LEFT:
        if (o->at > 0)
            go(line, o->at - char_bytes(text_of(line), o->at, 1), 0);
        else
            go(line_before(line), UINT32_MAX, -1);
        return 0;
    case KEY_RIGHT:
        if (o->at < length_of(line))
            go(line, o->at + char_bytes(text_of(line), o->at, 0), 0);
        else
            go(line_after(line, 0), 0, 1);
        return 0;
    case KEY_HOME:
    case CTRL('A'): go(line, 0, 0); return 0;
    case KEY_LAST:
    case CTRL('E'): go(line, UINT32_MAX, 0); return 0;
    case '\r':
    case '\n': return enter(line);
    case 127:
    case CTRL('H'): return erase(line, 1);
    case KEY_DELETE:
    case CTRL('D'): return erase(line, 0);
    case '\t':
    case KEY_FAR_RIGHT: return indent(line);
    case KEY_BACK_TAB:
    case KEY_FAR_LEFT: return outdent(line);
    case CTRL('P'):
    case KEY_FAR_UP: return shift(line, 1);
    case CTRL('N'):
    case KEY_FAR_DOWN: return shift(line, 0);
    case CTRL('K'): return take_out(line);
    case CTRL('O'): refused = !line->first; line->folded = !line->folded && !refused; return 0;
    case CTRL('F'): o->find[0] = 0; return 0;
    case CTRL('Z'): undo(); return 0;
    case CTRL('Y'): redo(); return 0;
    default: return type(key, text);
    }
}
