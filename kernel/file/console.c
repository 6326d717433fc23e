/*
 * console.c - the terminal on the first serial port: line editing, raw mode, Ctrl-C.
 *
 * Cooked mode collects a line, with echo, and hands it over whole; raw mode (ICANON off) hands over
 * each byte. Control characters that cooked mode has no use for are a part of the line, without
 * echo: the line may be raw input when it is read, and an arrow key in it. Ctrl-C (with ISIG) ends
 * the foreground processes. Input comes in an interrupt, so it only fills buffers and wakes
 * readers.
 *
 * Invariants
 *   CN1  `ready` holds what may be read: in cooked mode whole lines, ends of file (one zero byte
 *       stands for such an end, as typed zeros are dropped), and Ctrl-C where no process was in the
 *       foreground.
 *   CN2  Echo never waits, and input not for readers; what no longer fits is dropped, of lines
 *        whole ones and what stands behind LINE_BYTES, and the log tells how much.
 *   CN3  What a program writes goes out whole, or its write says how much did: it waits until the
 *        port has sent it, and others that write wait for it, but nobody else.
 *
 * Locks: console.lock (RANK_FILE) guards modes, input, and whose output is on its way.
 */
#include "file/file.h"

#include "serial.h"
#include "thread/thread.h"

#define READY_BYTES 4096u
#define LINE_BYTES 1024u
#define CHUNK_BYTES 256u        /* of output, at once under the lock */

enum { ICRNL = 0000400, OPOST = 1, ONLCR = 4 };
enum { ISIG = 1, ICANON = 2, ECHO = 010, ECHOE = 020, ECHOK = 040, IEXTEN = 0100000 };
enum { CTRL_C = 3, CTRL_D = 4, BACKSPACE = 8, CTRL_U = 21, CTRL_W = 23, DELETE = 127 };
#define LOOK_NS 1000000ull      /* a writer looks so often whether the port takes more */
enum { VINTR = 0, VERASE = 2, VKILL = 3, VEOF = 4, VTIME = 5, VMIN = 6 };

static struct {
    struct lock lock;
    struct terminal_modes modes;
    char line[LINE_BYTES];
    size_t line_bytes;
    char ready[READY_BYTES];
    uint64_t ready_end, ready_start, dropped;
    struct list waiters;               /* threads, by wait_link */
    struct thread *writer;             /* CN3: has sent a part; NULL: none */
    bool returned;                     /* of a line's end "\r" is out, and "\n" waits */
} console = {
    .lock = LOCK_INIT(RANK_FILE, "console"), .waiters = LIST_INIT(console.waiters),
    .modes = {
        .input = ICRNL, .output = OPOST | ONLCR, .control = 0x0bf /* 38400, 8 bits, read */,
        .local = ISIG | ICANON | ECHO | ECHOE | ECHOK | IEXTEN,
        .characters = {[VINTR] = CTRL_C, [VERASE] = DELETE, [VKILL] = CTRL_U, [VEOF] = CTRL_D,
                       [VMIN] = 1},
    },
};

/* ---- output; console.lock held ---- */

/* line_end sends "\r\n", or what of it is not out yet: whether the port took it all. */
static bool line_end(void)
{
    if (!console.returned && serial_write(SERIAL_CONSOLE, "\r", 1, false) == 0)
        return false;
    console.returned = serial_write(SERIAL_CONSOLE, "\n", 1, false) == 0;
    return !console.returned;
}

/* put sends what the port takes now, and answers how many bytes of the text that is. */
static size_t put(const char *text, size_t bytes)
{
    bool returns = (console.modes.output & (OPOST | ONLCR)) == (OPOST | ONLCR);
    size_t done = 0, plain = 0;
    while (done < bytes) {
        bool ends = text[done + plain] == '\n' && returns;
        if (!ends && ++plain < bytes - done)
            continue;
        size_t taken = serial_write(SERIAL_CONSOLE, text + done, plain, false);
        done += taken;
        if (taken < plain || (ends && !line_end()))
            break;
        done += ends;
        plain = 0;
    }
    return done;
}

static void echo(const char *text)
{
    if (console.modes.local & ECHO)
        put(text, strlen(text));
}

/* ---- input; console.lock held ---- */

static bool shows(char c) { return (uint8_t)c >= ' ' || c == '\t'; }

/* make_ready lets a line, or what there is of one, and the byte behind it be read; without room for
 * all of that it is dropped. */
static void make_ready(const char *text, size_t bytes, char last)
{
    uint64_t used = console.ready_end - console.ready_start;
    assert(used <= READY_BYTES); /* CN2 */
    if (READY_BYTES - used <= bytes) {
        console.dropped += bytes + 1;
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        console.ready[console.ready_end++ % READY_BYTES] = text[i];
    console.ready[console.ready_end++ % READY_BYTES] = last;
    thread_wake_all(&console.waiters);
}

static void line_erase(size_t count)
{
    while (count-- > 0 && console.line_bytes > 0) {
        if (shows(console.line[--console.line_bytes]))
            echo("\b \b");
    }
}

static void line_finish(char last)
{
    make_ready(console.line, console.line_bytes, last);
    console.line_bytes = 0;
}

static size_t last_word(void)
{
    size_t n = console.line_bytes, end = n;
    while (n > 0 && console.line[n - 1] == ' ')
        n--;
    while (n > 0 && console.line[n - 1] != ' ')
        n--;
    return end - n;
}

static void cooked(char c)
{
    char text[2] = {c, 0};
    switch (c) {
    case BACKSPACE:
    case DELETE: line_erase(1); break;
    case CTRL_U: line_erase(console.line_bytes); break;
    case CTRL_W: line_erase(last_word()); break;
    case CTRL_D:
        if (console.line_bytes == 0)
            line_finish(0); /* CN1 */
        break;
    case '\n':
        echo("\n");
        line_finish('\n');
        break;
    case 0: break; /* CN1 */
    default:
        if (console.line_bytes == LINE_BYTES) {
            console.dropped++;
            break;
        }
        console.line[console.line_bytes++] = c;
        if (shows(c))
            echo(text);
    }
}

/* input takes one typed byte, in an interrupt with no lock held. A Ctrl-C while no program is in
 * the foreground is kept for the next reader, which is the shell. */
static void input(char c)
{
    bool interrupts = c == CTRL_C && (console.modes.local & ISIG),
         at_once = interrupts && console_seam.foreground();
    lock_acquire(&console.lock);
    if (c == '\r' && (console.modes.input & ICRNL))
        c = '\n';
    if (interrupts)
        console.line_bytes = 0;
    if (at_once) {
        echo("^C\n");
    } else if (interrupts || !(console.modes.local & ICANON)) {
        make_ready(NULL, 0, c);
    } else {
        cooked(c);
    }
    lock_release(&console.lock);
    if (at_once)
        console_seam.interrupt();
}

/* ---- the open file ---- */

/* take moves bytes that may be read to the buffer, in cooked mode one line at most; *end: it took
 * an end of file. console.lock held. */
static size_t take(char *to, size_t bytes, bool *end)
{
    bool lines = console.modes.local & ICANON;
    size_t n = 0;
    *end = false;
    while (n < bytes && console.ready_start < console.ready_end) {
        char c = console.ready[console.ready_start % READY_BYTES];
        if (c == 0 && lines) {
            *end = n == 0;
            console.ready_start += n == 0;
            break;
        }
        console.ready_start++;
        to[n++] = c;
        if (c == '\n' && lines)
            break;
    }
    return n;
}

static long console_read(struct file *f, void *to, size_t bytes, uint64_t at)
{
    long result = 0;
    bool end = false;
    (void)at;
    lock_acquire(&console.lock);
    while (bytes && !(result = (long)take(to, bytes, &end)) && !end) {
        if (!(console.modes.local & ICANON) && console.modes.characters[VMIN] == 0)
            break; /* raw, and it does not want to wait */
        result = f->flags & O_NONBLOCK
                     ? -EAGAIN
                     : thread_wait(&console.waiters, &console.lock, thread_park_until_signal);
        if (result)
            break;
    }
    uint64_t dropped = console.dropped;
    console.dropped = 0;
    lock_release(&console.lock);
    if (dropped)
        printk("console: %lu typed bytes were dropped: nobody read them, or the line was too long",
               dropped);
    return result;
}

static long console_write(struct file *f, const void *from, size_t bytes, uint64_t at)
{
    const char *text = from;
    size_t done = 0, more;
    bool sent = bytes == 0;
    int e = 0;
    (void)at;
    for (; !sent && (e == 0 || e == -ETIMEDOUT); thread_breathe()) {
        lock_acquire(&console.lock);
        more = 0;
        if (console.writer == NULL || console.writer == thread_this()) { /* CN3 */
            more = put(text + done, MIN(bytes - done, CHUNK_BYTES));
            done += more;
            sent = done == bytes && serial_sent(SERIAL_CONSOLE);
            console.writer = sent ? NULL : thread_this();
        }
        lock_release(&console.lock);
        if (!sent && !more)
            e = f->flags & O_NONBLOCK ? -EAGAIN
                                      : thread_park_until_signal(arch_time_ns() + LOOK_NS);
    }
    lock_acquire(&console.lock);
    if (console.writer == thread_this())
        console.writer = NULL;
    lock_release(&console.lock);
    return done ? (long)done : e;
}

const struct file_operations console_operations = {
    .read = console_read, .write = console_write,
};

void console_modes(struct terminal_modes *out)
{
    lock_acquire(&console.lock);
    *out = console.modes;
    lock_release(&console.lock);
}

void console_set_modes(const struct terminal_modes *m, bool flush)
{
    lock_acquire(&console.lock);
    if (flush)
        console.line_bytes = 0, console.ready_start = console.ready_end;
    if (!(m->local & ICANON) && console.line_bytes) { /* a line half typed is raw input now */
        console.line_bytes--;
        line_finish(console.line[console.line_bytes]);
    }
    console.modes = *m;
    lock_release(&console.lock);
}

void console_init(void) { serial_input_start(input); }
