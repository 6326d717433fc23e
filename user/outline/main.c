/*
 * main.c - outline: lines below lines, edited at the terminal, in memory that persists.
 *
 * Each key is a transaction, and what the screen shows is durable: keys are lazy transactions, and
 * before it draws the program waits for all of them at once. Those of another site's outline are
 * not lazy: its home may die, and then a spare goes on with what was acknowledged.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

#include "../terminal.h"
#include "outline.h"

ps_container *container;
struct outline *o;
struct line *typing;
int refused, overlong;
static const char *name = "outline";
static char trouble[200];               /* what went wrong with the last key */

static int rows_shown(void) { return terminal.rows - 2; }

/* The first transaction makes a line, since a cursor has to be somewhere. */
static int begin(void)
{
    o = ps_root(container);
    if (!o || o->cursor)
        return o ? 0 : -errno;
    int error = make(&o->top, NULL, &o->cursor);
    o->oldest = o->undo;                /* and that is not undone */
    return error;
}

/* The row where the cursor is shown: as the key left it, but no row of the screen is wasted. */
static void row_choose(void)
{
    int above = 0, below = 0, last = rows_shown() - 1;
    for (struct line *l = o->cursor; above < last && (l = line_before(l));)
        above++;
    for (struct line *l = o->cursor; below < last && (l = line_after(l, 0));)
        below++;
    o->row = o->row < last - below ? last - below : o->row;
    o->row = o->row > above ? above : o->row;
}

static int take_key(void *key)
{
    int error = begin();
    if (error)
        return error;
    refused = 0;
    typing = o->typed;
    o->typed = NULL;
    o->key++;
    collect();
    error = key_do(*(int *)key, terminal.text, rows_shown());
    for (struct line *p = o->cursor->parent; p; p = p->parent)
        if (p->folded)
            p->folded = 0;              /* what the cursor comes to is opened */
    row_choose();
    return error;
}

/* ---- the screen ---- */

static int depth_of(const struct line *line)
{
    int depth = 0;
    for (const struct line *p = line->parent; p && p != &o->top; p = p->parent)
        depth++;
    return depth;
}

/* How many columns a character has. What is none is shown as a question mark. */
static int columns_of(const char *c, uint32_t bytes)
{
    wchar_t code = 0;
    if (bytes == 1)
        return *c >= ' ' && *c < 127 ? 1 : -1;
    code = bytes < 5 ? *c & (0x7f >> bytes) : 0;
    for (uint32_t i = 1; i < bytes; i++)
        code = code << 6 | (c[i] & 0x3f);
    return code ? wcwidth(code) : -1;
}

/* What of a text lies in the columns [from, to); how many columns it has up to byte `end`. */
static int say_text(const char *text, uint32_t end, int from, int to)
{
    int column = 0;
    for (uint32_t at = 0, bytes; at < end && text[at]; at += bytes) {
        bytes = char_bytes(text, at, 0);
        int columns = columns_of(text + at, bytes), wide = columns < 0 ? 1 : columns;
        if (column >= from && column + wide <= to)
            say("%.*s", columns < 0 ? 1 : (int)bytes, columns < 0 ? "?" : text + at);
        else if (column < from && column + wide > from && to > from)
            say(" ");                   /* the right half of a wide one */
        column += wide;
    }
    return column;
}

/* Where the cursor is in this line, from 1; a line that is longer than the screen is shifted. */
static int say_line(const struct line *line)
{
    int indent = 2 * depth_of(line), most = terminal.columns / 2;
    indent = indent < most ? indent : most;
    int room = terminal.columns - indent - 3;
    int at = line == o->cursor ? say_text(text_of(line), o->at, 0, 0) : 0;
    int from = at < room ? 0 : at - room + 1;
    say("%*s%s", indent, "", line->folded ? "+ " : "- ");
    say_text(text_of(line), UINT32_MAX, from, from + room);
    return indent + 3 + at - from;
}

static int draw(void *unused)
{
    (void)unused;
    picture.used = 0;
    int column = 1, error = begin(), row = o && o->row < rows_shown() ? o->row : 0;
    if (error)
        return error;
    struct line *line = o->cursor;
    for (int i = 0; i < row && line_before(line); i++)
        line = line_before(line);
    say("\x1b[?25l\x1b[H");
    for (int i = 0; i < rows_shown(); i++) {
        int at = line ? say_line(line) : 0;
        column = line == o->cursor ? at : column;
        line = line ? line_after(line, 0) : NULL;
        say("\x1b[K\r\n");
    }
    say("\x1b[7m%.*s\x1b[0m\x1b[K\r\n", terminal.columns - 1,
        *trouble ? trouble : refused ? "that key does nothing here" : name);
    if (o->finding) {
        int all = say_text(o->find, UINT32_MAX, 0, 0), room = terminal.columns - 7;
        say("find: ");
        say_text(o->find, UINT32_MAX, all > room ? all - room : 0, all);
        say("\x1b[K");
    } else {
        say("%.*s\x1b[K\x1b[%d;%dH", terminal.columns - 1, "Tab S-Tab level  ^P ^N move  ^O fold  "
            "^F find  ^K del  ^Z undo ^Y redo  ^X end", row + 1, column);
    }
    say("\x1b[?25h%s", refused ? "\a" : "");
    return 0;
}

/* The store died under a transaction, which is undone then: another one is there soon. *tries: how
 * often this was asked; in the end it is an error. */
static int comes_back(int error, int *tries)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    if ((error != -EOWNERDEAD && error != -ENOTCONN && error != -ECANCELED) || ++*tries > 500)
        return 0;
    nanosleep(&moment, NULL);
    return 1;
}

static int lasting(int (*function)(void *), void *argument, int lazy)
{
    int error, tries = 0;
    do
        error = ps_transaction_opt(function, argument, &(struct ps_options){.lazy = lazy});
    while (comes_back(error, &tries));
    return error;
}

/* What is typed is safe before it is seen. */
static int show(void)
{
    int local = !strchr(name, ':');
    int error = local ? ps_flush() : 0;
    if (error)
        snprintf(trouble, sizeof trouble, "NOT SAVED: %s", ps_strerror(error));
    int drawn = lasting(draw, NULL, 0);
    if (terminal.is_one && drawn == 0)
        terminal_write(picture.text, picture.used);
    return error ? error : drawn;
}

static int edit(void)
{
    int error = 0, key, unseen = 0;
    terminal_begin();
    while (error == 0 || terminal.is_one) {
        key = terminal_key(0);
        if (key == KEY_NONE || unseen++ == 500) {       /* all is done, or the text is long: draw */
            show();
            unseen = 0;
        }
        if (key == KEY_NONE)
            key = terminal_wait();
        if (key == KEY_END || key == CTRL('X') || key == CTRL('C') || key == CTRL('Q'))
            break;
        if (key == CTRL('L') || key == KEY_SIZE)
            continue;
        error = lasting(take_key, &key, !strchr(name, ':'));
        snprintf(trouble, sizeof trouble, "%s", error ? ps_strerror(error) : "");
    }
    int shown = show();
    terminal_end();
    if (overlong && !terminal.is_one)
        fprintf(stderr, "outline: a line takes %d bytes: what came behind is lost\n", TEXT_MAX);
    return error ? error : shown;
}

/* Opens it to be edited, or makes it: *made. */
static ps_container *open_or_make(int *made)
{
    ps_container *c = ps_open(name, PS_WRITE, PS_LAYOUT(struct outline, 1));
    *made = !c && errno == ENOENT;
    return *made ? ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct outline, 1)) : c;
}

/* No key ever changed anything: there is nothing to undo and nothing to redo. */
static int is_untouched(void *answer)
{
    int error = begin();
    *(int *)answer = !error && o->undo == o->oldest && o->redo == o->oldest;
    return error;
}

/* One that was made for a look goes; somebody else who has it open keeps it. */
static void take_back(void)
{
    int untouched = 0;
    if (ps_transaction(is_untouched, &untouched) == 0 && untouched && ps_close(container) == 0)
        ps_delete(name);
}

static int print(void *unused)
{
    (void)unused;
    picture.used = 0;
    int error = begin();
    for (const struct line *l = error ? NULL : o->top.first; l; l = line_after(l, 1)) {
        say("%*s", 2 * depth_of(l), "");
        for (const char *text = text_of(l); *text; text += strnlen(text, 1000))
            say("%.1000s", text);
        say("\n");
    }
    return error;
}

int main(int argc, char **argv)
{
    int prints = argc > 1 && strcmp(argv[argc - 1], "--print") == 0, names = argc - 1 - prints;
    if (names > 1 || (names == 1 && argv[1][0] == '-')) {
        int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs("outline [NAME] [--print]\n"
              "  Lines below lines, in the container NAME (outline). A key is safe when its\n"
              "  effect is seen. Type; Enter begins a line; Tab, Shift-Tab move it in and out;\n"
              "  ^P and ^N up and down, with what is below it; ^K deletes it; ^O folds, ^F\n"
              "  finds, ^Z undoes, ^Y redoes; ^L draws anew; ^X ends.\n"
              "  --print prints all lines.\n",
              asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    name = names ? argv[1] : name;
    int made = 0;
    container = prints ? ps_open(name, 0, PS_LAYOUT(struct outline, 1)) : open_or_make(&made);
    int error = !container ? -errno : prints ? ps_transaction(print, NULL) : edit();
    if (error)
        fprintf(stderr, "outline: %s: %s\n", name, ps_strerror(error));
    else if (prints)
        terminal_write(picture.text, picture.used);
    if (made && container)
        take_back();
    return error != 0;
}
