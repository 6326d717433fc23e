/*
 * line.c - reads a line from a terminal, with editing, history and completion.
 *
 * Arrows, Home, End, Delete; Ctrl-A E B F P N D H U K W L as in emacs; Ctrl-R searches the history
 * backwards; Tab completes, and a second Tab lists. The line is drawn anew after each key; one that
 * is wider than the terminal scrolls sideways.
 */
#include "sh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define EDIT_BYTES 1024
#define CTRL(c) ((c) & 31)

enum key { KEY_END_OF_INPUT = -1, KEY_UP = 256, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_LAST,
           KEY_DELETE, KEY_OTHER };

struct editor {
    char text[EDIT_BYTES];
    size_t length, cursor;
    const char *prompt;
    size_t width;
    int history;                       /* which entry is shown; history_count(): the new line */
    bool tabbed;                       /* the key before was a Tab that could add nothing */
    char kept[EDIT_BYTES];             /* the new line meanwhile */
};

static void draw(const struct editor *e)
{
    char out[EDIT_BYTES + 128];
    size_t prompt = strlen(e->prompt), room = e->width > prompt + 8 ? e->width - prompt - 1 : 8;
    size_t from = e->cursor > room ? e->cursor - room : 0;
    size_t shown = e->length - from < room ? e->length - from : room;
    int n = snprintf(out, sizeof(out), "\r%s%.*s\x1b[K\r\x1b[%zuC", e->prompt, (int)shown,
                     e->text + from, prompt + e->cursor - from);
    if (write(1, out, (size_t)n) < 0)
        return;
}

static void insert(struct editor *e, char c)
{
    if (e->length >= EDIT_BYTES - 1)
        return;
    memmove(e->text + e->cursor + 1, e->text + e->cursor, e->length - e->cursor);
    e->text[e->cursor++] = c;
    e->length++;
}

/* Removes [from, to). */
static void cut(struct editor *e, size_t from, size_t to)
{
    memmove(e->text + from, e->text + to, e->length - to);
    e->length -= to - from;
    e->cursor = from;
}

static size_t word_start(const struct editor *e)
{
    size_t at = e->cursor;
    while (at > 0 && e->text[at - 1] == ' ')
        at--;
    while (at > 0 && e->text[at - 1] != ' ')
        at--;
    return at;
}

static void show_history(struct editor *e, int entry)
{
    if (entry < 0 || entry > history_count())
        return;
    e->text[e->length] = 0;
    if (e->history == history_count())
        strcpy(e->kept, e->text);
    e->history = entry;
    snprintf(e->text, sizeof(e->text), "%s",
             entry == history_count() ? e->kept : history_line(entry));
    e->length = e->cursor = strlen(e->text);
}

static int read_byte(void)
{
    unsigned char c;
    return read(0, &c, 1) == 1 ? c : KEY_END_OF_INPUT;
}

static int read_key(void)
{
    static const struct { const char *text; int key; } sequences[] = {
        {"[A", KEY_UP}, {"[B", KEY_DOWN}, {"[C", KEY_RIGHT}, {"[D", KEY_LEFT}, {"[H", KEY_HOME},
        {"[F", KEY_LAST}, {"OH", KEY_HOME}, {"OF", KEY_LAST}, {"[1~", KEY_HOME}, {"[4~", KEY_LAST},
        {"[3~", KEY_DELETE},
    };
    char text[8];
    size_t n = 0;
    int c = read_byte();
    if (c != 27)
        return c;
    do { /* an escape sequence ends with a letter or ~; it may be longer than any known one */
        c = read_byte();
        if (c < 0)
            return c;
        if (n < sizeof(text) - 1)
            text[n++] = (char)c;
    } while (c >= ' ' && (n == 1 ? c == '[' || c == 'O' : c < '@'));
    text[n] = 0;
    for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
        if (strcmp(text, sequences[i].text) == 0)
            return sequences[i].key;
    return KEY_OTHER;
}

/* Ctrl-R: shows the newest older line that holds what is typed; again: the one before it. Any other
 * key takes the line as it is. */
static int search_history(struct editor *e)
{
    char wanted[64] = "", prompt[96];
    const char *normal = e->prompt;
    int key, at = history_count();
    do {
        int found = at;
        while (--found >= 0 && !strstr(history_line(found), wanted)) {
        }
        if (found >= 0 && *wanted)
            show_history(e, at = found);
        snprintf(prompt, sizeof(prompt), "(search: %s) ", wanted);
        e->prompt = prompt;
        draw(e);
        key = read_key();
        size_t n = strlen(wanted);
        if (key >= ' ' && key < 127 && n < sizeof(wanted) - 1)
            wanted[n] = (char)key, wanted[n + 1] = 0, at += at < history_count();
        else if ((key == 127 || key == CTRL('H')) && n > 0)
            wanted[n - 1] = 0, at = history_count();
        else if (key != CTRL('R'))
            break;
    } while (true);
    e->prompt = normal;
    return key;
}

static void list_matches(const struct editor *e, const struct matches *m)
{
    int widest = 0;
    for (int i = 0; i < m->count; i++)
        if ((int)strlen(m->text[i]) > widest)
            widest = (int)strlen(m->text[i]);
    int columns = (int)e->width / (widest + 2);
    for (int i = 0; i < m->count; i++)
        dprintf(1, "%s%-*s", columns < 2 || i % columns == 0 ? "\r\n" : "", widest + 2, m->text[i]);
    dprintf(1, "%s\r\n", m->count == MATCHES_MAX ? "\r\n(and more)" : "");
}

static void complete_line(struct editor *e)
{
    static struct matches m;
    char before[EDIT_BYTES];
    memcpy(before, e->text, e->cursor);
    before[e->cursor] = 0;
    complete(before, &m);
    for (int i = m.typed; i < m.common; i++)
        insert(e, m.text[0][i]);
    if (m.common > m.typed || m.count == 0)
        return;
    if (e->tabbed)
        list_matches(e, &m);
    e->tabbed = true;
}

/* False: the line is finished. */
static bool handle_key(struct editor *e, int key)
{
    switch (key) {
    case '\r':
    case '\n': return false;
    case KEY_LEFT:
    case CTRL('B'): e->cursor -= e->cursor > 0; break;
    case KEY_RIGHT:
    case CTRL('F'): e->cursor += e->cursor < e->length; break;
    case KEY_HOME:
    case CTRL('A'): e->cursor = 0; break;
    case KEY_LAST:
    case CTRL('E'): e->cursor = e->length; break;
    case KEY_UP:
    case CTRL('P'): show_history(e, e->history - 1); break;
    case KEY_DOWN:
    case CTRL('N'): show_history(e, e->history + 1); break;
    case 127:
    case CTRL('H'):
        if (e->cursor > 0)
            cut(e, e->cursor - 1, e->cursor);
        break;
    case KEY_DELETE:
    case CTRL('D'):
        if (e->cursor < e->length)
            cut(e, e->cursor, e->cursor + 1);
        break;
    case CTRL('U'): cut(e, 0, e->cursor); break;
    case CTRL('K'): e->length = e->cursor; break;
    case CTRL('W'): cut(e, word_start(e), e->cursor); break;
    case '\t': complete_line(e); break;
    case CTRL('L'):
        if (write(1, "\x1b[H\x1b[2J", 7) < 0)
            return false;
        break;
    default:
        if (key >= ' ' && key < 256)
            insert(e, (char)key);
    }
    return true;
}

static bool edit(struct editor *e)
{
    for (;;) {
        draw(e);
        int key = read_key();
        if (key == CTRL('R'))
            key = search_history(e);
        if (key != '\t')
            e->tabbed = false;
        if (key == KEY_END_OF_INPUT || (key == CTRL('D') && e->length == 0))
            return false;
        if (key == CTRL('C')) { /* a new, empty line */
            if (write(1, "^C\r\n", 4) < 0)
                return false;
            e->length = e->cursor = 0;
            e->history = history_count();
            continue;
        }
        if (!handle_key(e, key))
            return true;
    }
}

char *line_read(const char *prompt)
{
    static struct editor e;
    struct termios cooked, raw;
    struct winsize size = {.ws_col = 80};
    ioctl(1, TIOCGWINSZ, &size);
    memset(&e, 0, sizeof(e));
    e.prompt = prompt;
    e.width = size.ws_col;
    e.history = history_count();
    if (tcgetattr(0, &cooked))
        return NULL;
    raw = cooked;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    tcsetattr(0, TCSADRAIN, &raw);
    bool ok = edit(&e);
    tcsetattr(0, TCSADRAIN, &cooked);
    if (write(1, "\r\n", 2) < 0 || !ok)
        return NULL;
    e.text[e.length] = 0;
    history_add(e.text);
    return e.text;
}
