/*
 * terminal.h - a program that has the whole screen: keys as they are typed, and its size.
 *
 * A serial line does not tell how large the terminal is, nor that it has another size now. The
 * terminal itself does, if it is asked: its answer comes in as keys do, and is KEY_SIZE if the size
 * is new. Until then it is 24 lines of 80 columns. Where standard input is no terminal, its bytes
 * are keys all the same, and nothing is written.
 *
 * A picture is text that is made in a transaction, which may run twice, and written behind it.
 */
#ifndef USER_TERMINAL_H
#define USER_TERMINAL_H

#include <pstore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define CTRL(c) ((c) & 31)

enum { TERMINAL_ROWS_MAX = 200, TERMINAL_COLUMNS_MAX = 500 };

/* What is no character. With Ctrl, Alt or Shift held down an arrow is a KEY_FAR one. */
enum { KEY_END = -1, KEY_NONE = -2, KEY_UP = 0x200000, KEY_DOWN, KEY_RIGHT, KEY_LEFT, KEY_FAR_UP,
       KEY_FAR_DOWN, KEY_FAR_RIGHT, KEY_FAR_LEFT, KEY_HOME, KEY_LAST, KEY_PAGE_UP, KEY_PAGE_DOWN,
       KEY_DELETE, KEY_BACK_TAB, KEY_SIZE, KEY_OTHER };

static struct {
    struct termios was, raw;
    int is_one, rows, columns;
    char text[5];                       /* of the last key: the bytes of its character */
} terminal;

static inline void terminal_write(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(1, text, bytes);
        if (n <= 0)
            return;
        text += n, bytes -= (size_t)n;
    }
}

/* Asks for the size: where the cursor comes to on its way to the far corner, and back. */
static inline void terminal_ask(void)
{
    static const char ask[] = "\x1b" "7\x1b[999;999H\x1b[6n\x1b" "8";
    if (terminal.is_one)
        terminal_write(ask, sizeof(ask) - 1);
}

static inline void terminal_begin(void)
{
    static const char begin[] = "\x1b[?1049h";          /* a screen of its own */
    terminal.rows = 24, terminal.columns = 80;
    terminal.is_one = tcgetattr(0, &terminal.was) == 0;
    if (!terminal.is_one)
        return;
    terminal.raw = terminal.was;
    terminal.raw.c_iflag &= ~(tcflag_t)ICRNL;
    terminal.raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    terminal.raw.c_cc[VMIN] = 1;
    tcsetattr(0, TCSADRAIN, &terminal.raw);
    terminal_write(begin, sizeof(begin) - 1);
    terminal_ask();
}

static inline void terminal_end(void)
{
    static const char end[] = "\x1b[?1049l";
    if (!terminal.is_one)
        return;
    terminal_write(end, sizeof(end) - 1);
    tcsetattr(0, TCSADRAIN, &terminal.was);
}

/* The next byte; without waiting KEY_NONE if there is none. No more than that one is taken: what is
 * typed behind the last key is the shell's. */
static inline int terminal_byte(int wait)
{
    unsigned char c;
    if (terminal.is_one && terminal.raw.c_cc[VMIN] != wait) {
        terminal.raw.c_cc[VMIN] = (cc_t)wait;
        tcsetattr(0, TCSANOW, &terminal.raw);
    }
    ssize_t n = read(0, &c, 1);
    return n == 1 ? c : n == 0 && terminal.is_one && !wait ? KEY_NONE : KEY_END;
}

/* Passes over a string that some terminals send: it ends with a control character, or ESC and one
 * more. Where nothing follows, that was Alt and a key. */
static inline int terminal_string(void)
{
    int c = terminal_byte(0);
    while (c >= ' ')
        c = terminal_byte(1);
    if (c == 27)
        c = terminal_byte(1);
    return c == KEY_END ? KEY_END : KEY_OTHER;
}

/* Takes the size that the terminal tells; is it a new one? */
static inline int terminal_size(int rows, int columns)
{
    int was[2] = {terminal.rows, terminal.columns};
    terminal.rows = rows < TERMINAL_ROWS_MAX ? rows : TERMINAL_ROWS_MAX;
    terminal.columns = columns < TERMINAL_COLUMNS_MAX ? columns : TERMINAL_COLUMNS_MAX;
    return was[0] != terminal.rows || was[1] != terminal.columns;
}

/* An escape sequence: ESC O A, or ESC [, numbers, and a letter or ~. Others are passed over up to
 * their end, too. */
static inline int terminal_sequence(void)
{
    static const struct { char last; int number, key; } keys[] = {
        {'A', 0, KEY_UP}, {'B', 0, KEY_DOWN}, {'C', 0, KEY_RIGHT}, {'D', 0, KEY_LEFT},
        {'H', 0, KEY_HOME}, {'F', 0, KEY_LAST}, {'Z', 0, KEY_BACK_TAB}, {'~', 1, KEY_HOME},
        {'~', 4, KEY_LAST}, {'~', 3, KEY_DELETE}, {'~', 5, KEY_PAGE_UP}, {'~', 6, KEY_PAGE_DOWN},
    };
    int number[2] = {0, 0}, second = 0, known = 1, first, c = terminal_byte(1);
    while (c == 27)                     /* Alt and a key that is a sequence */
        c = terminal_byte(1);
    if (c > 0 && strchr("]P^_X", c))
        return terminal_string();
    if (c != '[' && c != 'O')
        return c < 0 ? KEY_END : KEY_OTHER;
    first = c;
    while ((c = terminal_byte(1)) >= ' ' && (c < '@' || (c == '[' && first == '['))) {
        first = 0;
        if (c == ';')
            second = 1;
        else if (c < '0' || c > '9')
            known = 0;
        else if (number[second] < 1000)
            number[second] = number[second] * 10 + c - '0';
    }
    if (!known || c < 0)
        return c < 0 ? KEY_END : KEY_OTHER;
    if (c == 'R' && number[0] >= 3 && number[1] >= 20)
        return terminal_size(number[0], number[1]) ? KEY_SIZE : KEY_NONE;
    if (c >= 'A' && c <= 'D' && number[1] > 1)
        return KEY_FAR_UP + c - 'A';
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].last == c && (c != '~' || keys[i].number == number[0]))
            return keys[i].key;
    return KEY_OTHER;
}

/* The next key: a character (its Unicode number), a control character, or one of those above. What
 * is no UTF-8 is KEY_OTHER. */
static inline int terminal_key(int wait)
{
    static const int least[] = {0, 0x80, 0x800, 0x10000};
    int c, more, key;
    memset(terminal.text, 0, sizeof terminal.text);
    while ((c = terminal_byte(wait)) == 27)
        if ((key = terminal_sequence()) != KEY_NONE)
            return key;
    more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
    terminal.text[0] = (char)c;
    if (c < 0x80)
        return c;
    if (c < 0xc2 || c > 0xf4)
        return KEY_OTHER;
    key = c & (0x3f >> more);
    for (int i = 0; i < more; i++) {
        c = terminal_byte(1);
        if (c < 0 || (c & 0xc0) != 0x80)
            return c < 0 ? KEY_END : KEY_OTHER;
        key = key << 6 | (c & 0x3f);
        terminal.text[i + 1] = (char)c;
    }
    int is_one = key >= least[more] && (key < 0xd800 || key > 0xdfff) && key <= 0x10ffff;
    return is_one ? key : KEY_OTHER;
}

/* Waits for the next key when the picture is drawn, and asks for the size meanwhile. */
static inline int terminal_wait(void)
{
    int key = terminal_key(0);
    if (key != KEY_NONE)
        return key;
    terminal_ask();
    return terminal_key(1);
}

static struct { char *text; size_t used, room; } picture;       /* used = 0 begins a new one */

/* Adds to the picture; at most 1,023 bytes. Without memory the transaction ends with ENOMEM. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    va_list list;
    if (picture.room - picture.used < 1024) {
        char *more = realloc(picture.text, picture.room + 65536);
        if (!more) {
            ps_abort(ENOMEM);
            return;
        }
        picture.text = more, picture.room += 65536;
    }
    va_start(list, format);
    picture.used += (size_t)vsnprintf(picture.text + picture.used, 1024, format, list);
    va_end(list);
}

#endif
