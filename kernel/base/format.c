/*
 * format.c - printf's conversions into a buffer: %d %u %x %s %c %%, with the flags - and 0, a
 * width, for %s a precision, and the lengths l ll z.
 */
#include "base/kernel.h"

struct output {
    char *to;
    size_t bytes, used; /* used counts what did not fit, too */
};

static void put(struct output *o, char c)
{
    if (o->used + 1 < o->bytes)
        o->to[o->used] = c;
    o->used++;
}

static void put_repeated(struct output *o, char c, int count)
{
    while (count-- > 0)
        put(o, c);
}

struct conversion {
    bool left, zero, wide;
    int width, precision; /* precision -1: none given */
};

/* put_padded puts a minus or none, zeros and n bytes, with blanks up to the width. */
static void put_padded(struct output *o, const struct conversion *c, bool negative, int zeros,
                       const char *text, int n)
{
    int blanks = c->width - negative - zeros - n;
    put_repeated(o, ' ', c->left ? 0 : blanks);
    put_repeated(o, '-', negative);
    put_repeated(o, '0', zeros);
    for (int i = 0; i < n; i++)
        put(o, text[i]);
    put_repeated(o, ' ', c->left ? blanks : 0);
}

static void put_number(struct output *o, const struct conversion *c, bool negative, uint64_t value,
                       unsigned base)
{
    char digits[20], *first = digits + sizeof digits;
    do {
        *--first = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    int n = (int)(digits + sizeof digits - first);
    put_padded(o, c, negative, c->zero && !c->left ? c->width - n - negative : 0, first, n);
}

static const char *parse_number(const char *f, int *value)
{
    for (*value = 0; *f >= '0' && *f <= '9'; f++)
        *value = *value * 10 + (*f - '0');
    return f;
}

static void convert(struct output *o, const struct conversion *c, char kind, uint64_t argument)
{
    const char *text = (const char *)argument;
    int64_t number = c->wide ? (int64_t)argument : (int32_t)argument;
    char one = (char)argument;
    switch (kind) {
    case 'd':
        put_number(o, c, number < 0, number < 0 ? -(uint64_t)number : (uint64_t)number, 10);
        break;
    case 'u':
    case 'x':
        put_number(o, c, false, c->wide ? argument : (uint32_t)argument, kind == 'u' ? 10 : 16);
        break;
    case 'c': put_padded(o, c, false, 0, &one, 1); break;
    case 's':
        if (text == NULL)
            text = "(null)";
        put_padded(o, c, false, 0, text,
                   (int)strnlen(text, c->precision < 0 ? 4096 : (size_t)c->precision));
        break;
    default:
        put(o, '%');
        put(o, kind);
    }
}

int vsnprintk(char *buffer, size_t bytes, const char *f, va_list arguments)
{
    struct output o = {.to = buffer, .bytes = bytes};
    while (*f != 0) {
        struct conversion c = {.precision = -1};
        if (*f != '%') {
            put(&o, *f++);
            continue;
        }
        for (f++; *f == '-' || *f == '0'; f++)
            *(*f == '-' ? &c.left : &c.zero) = true;
        f = parse_number(f, &c.width);
        if (*f == '.')
            f = parse_number(f + 1, &c.precision);
        for (; *f == 'l' || *f == 'z'; f++)
            c.wide = true;
        if (*f == 0)
            break;
        char kind = *f++;
        if (kind == '%')
            put(&o, '%');
        else /* every kind of argument takes one 64-bit slot; convert() narrows it */
            convert(&o, &c, kind, va_arg(arguments, uint64_t));
    }
    if (bytes > 0)
        buffer[MIN(o.used, bytes - 1)] = 0;
    return (int)o.used;
}

int snprintk(char *buffer, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintk(buffer, bytes, format, arguments);
    va_end(arguments);
    return n;
}
