/*
 * format.c - printf's conversions into a buffer: %d %i %u %x %X %p %s %c %%, with the flags - 0 +,
 * width, precision (also *), and the lengths hh h l ll z t j.
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
    bool left, zero, plus;
    int width, precision; /* precision -1: none given */
    int length;           /* in bytes of the argument */
    char kind;
};

static void put_padded(struct output *o, const struct conversion *c, const char *text, int n)
{
    put_repeated(o, ' ', c->left ? 0 : c->width - n);
    for (int i = 0; i < n; i++)
        put(o, text[i]);
    put_repeated(o, ' ', c->left ? c->width - n : 0);
}

static void put_number(struct output *o, const struct conversion *c, const char *sign,
                       uint64_t value, unsigned base)
{
    const char *figures = c->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char digits[20];
    int n = 0, signs = (int)strlen(sign), zeros;
    do {
        digits[n++] = figures[value % base];
        value /= base;
    } while (value != 0);
    zeros = c->precision - n;
    if (c->zero && !c->left && c->precision < 0)
        zeros = c->width - n - signs;
    zeros = MAX(zeros, 0);
    put_repeated(o, ' ', c->left ? 0 : c->width - n - zeros - signs);
    while (*sign != 0)
        put(o, *sign++);
    put_repeated(o, '0', zeros);
    for (int i = n; i-- > 0;)
        put(o, digits[i]);
    put_repeated(o, ' ', c->left ? c->width - n - zeros - signs : 0);
}

static const char *parse_number(const char *f, int *value)
{
    for (*value = 0; *f >= '0' && *f <= '9'; f++)
        *value = *value * 10 + (*f - '0');
    return f;
}

static const char *parse_length(const char *f, int *bytes)
{
    *bytes = 4;
    for (;; f++) {
        if (*f == 'l' || *f == 'z' || *f == 't' || *f == 'j')
            *bytes = 8;
        else if (*f == 'h')
            *bytes = *bytes == 2 ? 1 : 2;
        else
            return f;
    }
}

static int64_t narrow_signed(int64_t v, int bytes)
{
    return bytes == 8 ? v : bytes == 4 ? (int32_t)v : bytes == 2 ? (int16_t)v : (int8_t)v;
}

static uint64_t narrow_unsigned(uint64_t v, int bytes)
{
    return bytes == 8 ? v : bytes == 4 ? (uint32_t)v : bytes == 2 ? (uint16_t)v : (uint8_t)v;
}

static void convert(struct output *o, const struct conversion *c, uint64_t argument)
{
    const char *text = (const char *)argument;
    int64_t number = narrow_signed((int64_t)argument, c->length);
    char one = (char)argument;
    switch (c->kind) {
    case 'd':
    case 'i':
        put_number(o, c, number < 0 ? "-" : c->plus ? "+" : "",
                   number < 0 ? -(uint64_t)number : (uint64_t)number, 10);
        break;
    case 'u':
    case 'x':
    case 'X':
        put_number(o, c, "", narrow_unsigned(argument, c->length), c->kind == 'u' ? 10 : 16);
        break;
    case 'p': put_number(o, c, "0x", argument, 16); break;
    case 'c': put_padded(o, c, &one, 1); break;
    case 's':
        if (text == NULL)
            text = "(null)";
        put_padded(o, c, text, (int)strnlen(text, c->precision < 0 ? 4096 : (size_t)c->precision));
        break;
    default:
        put(o, '%');
        put(o, c->kind);
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
        for (f++; *f == '-' || *f == '0' || *f == '+'; f++)
            *(*f == '-' ? &c.left : *f == '0' ? &c.zero : &c.plus) = true;
        if (*f == '*') {
            c.width = va_arg(arguments, int);
            f++;
        } else {
            f = parse_number(f, &c.width);
        }
        if (*f == '.' && f[1] == '*') {
            c.precision = va_arg(arguments, int);
            f += 2;
        } else if (*f == '.') {
            f = parse_number(f + 1, &c.precision);
        }
        f = parse_length(f, &c.length);
        c.kind = *f;
        if (*f == 0)
            break;
        f++;
        if (c.kind == '%')
            put(&o, '%');
        else /* every kind of argument takes one 64-bit slot; convert() narrows it */
            convert(&o, &c, va_arg(arguments, uint64_t));
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
