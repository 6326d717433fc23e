/*
 * json.c - writes JSON to stdout. Numbers are exact up to 64 bits; text is cut at its zero byte,
 * and bytes that are not printable ASCII are written as \u00XX.
 */
#include "kstore.h"

#define DEPTH_MAX 16

static struct { char close; bool any; } nest[DEPTH_MAX];
static int depth;

static void text_print(const char *text, size_t most)
{
    putchar('"');
    for (size_t i = 0; i < most && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < ' ' || c > '~')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void key_print(const char *key)
{
    if (!depth)
        return;
    printf("%s\n%*s", nest[depth - 1].any ? "," : "", 2 * depth, "");
    nest[depth - 1].any = true;
    if (key && *key) {
        text_print(key, 64);
        printf(": ");
    }
}

void json_begin(const char *key, char bracket)
{
    key_print(key);
    putchar(bracket);
    if (depth < DEPTH_MAX) {
        nest[depth].close = bracket == '{' ? '}' : ']';
        nest[depth++].any = false;
    }
}

void json_end(void)
{
    depth--;
    if (nest[depth].any)
        printf("\n%*s", 2 * depth, "");
    printf("%c%s", nest[depth].close, depth ? "" : "\n");
}

void json_number(const char *key, uint64_t value)
{
    key_print(key);
    printf("%llu", (unsigned long long)value);
}

void json_bool(const char *key, bool value)
{
    key_print(key);
    printf(value ? "true" : "false");
}

void json_text(const char *key, const char *value, size_t most)
{
    key_print(key);
    text_print(value, most);
}

void json_hex(const char *key, uint32_t value)
{
    key_print(key);
    printf("\"%08x\"", value);
}
