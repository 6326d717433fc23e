/*
 * line.c - reads a line from a terminal, with editing and history.
 *
 * Arrows, Home, End, Delete; Ctrl-A E B F P N D H U K W L as in emacs. The line is drawn anew after
 * each key; one that is wider than the terminal scrolls sideways.
 */
#include "sh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define EDIT_BYTES 1024
#define HISTORY_MAX 64
#define CTRL(c) ((c) & 31)

enum key { KEY_END_OF_INPUT = -1, KEY_UP = 256, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_LAST,
           KEY_DELETE, KEY_OTHER };

struct editor {
    char text[EDIT_BYTES];
    size_t length, cursor;
    const char *prompt;
    size_t width;
    int history;                       /* which entry is shown; history_count: the new line */
    char kept[EDIT_BYTES];             /* the new line meanwhile */
};

static char *history[HISTORY_MAX];
static int history_count;

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
    if (entry < 0 || entry > history_count)
        return;
    e->text[e->length] = 0;
    if (e->history == history_count)
        strcpy(e->kept, e->text);
    e->history = entry;
    strcpy(e->text, entry == history_count ? e->kept : history[entry]);
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
    while (n < sizeof(text) - 1) { /* an escape sequence ends with a letter or ~ */
        c = read_byte();
        if (c < 0)
            return c;
        text[n++] = (char)c;
        if (n > 1 && ((c >= '@' && c <= 'Z') || c == '~'))
            break;
    }
    text[n] = 0;
    for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
        if (strcmp(text, sequences[i].text) == 0)
            return sequences[i].key;
    return KEY_OTHER;
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
        if (key == KEY_END_OF_INPUT || (key == CTRL('D') && e->length == 0))
            return false;
        if (key == CTRL('C')) { /* a new, empty line */
            if (write(1, "^C\r\n", 4) < 0)
                return false;
            e->length = e->cursor = 0;
            continue;
        }
        if (!handle_key(e, key))
            return true;
    }
}

static void history_add(const char *text)
{
    if (!*text || (history_count > 0 && strcmp(history[history_count - 1], text) == 0))
        return;
    if (history_count == HISTORY_MAX) {
        free(history[0]);
        memmove(history, history + 1, (HISTORY_MAX - 1) * sizeof(history[0]));
        history_count--;
    }
    history[history_count] = strdup(text);
    history_count += history[history_count] != NULL;
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
    e.history = history_count;
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
