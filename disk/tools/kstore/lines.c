/*
 * lines.c - reads what kstore export prints: one JSON object a line, of five kinds, told by their
 * first keys.
 *
 * Keys stand in any order, but "data" behind "object" and "bytes". Numbers are whole and not
 * negative. What is not known is refused: a line that says more than this can do must not be lost.
 */
#include "import.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct json {
    struct import *m;
    const char *at;
};

static char next_is(struct json *j)
{
    while (*j->at == ' ' || *j->at == '\t' || *j->at == '\r' || *j->at == '\n')
        j->at++;
    return *j->at;
}

static int expect(struct json *j, char c)
{
    if (next_is(j) != c)
        return import_wrong(j->m, "%c is missing before \"%.20s\"", c, j->at);
    j->at++;
    return 0;
}

static int number(struct json *j, uint64_t *value)
{
    char c = next_is(j);
    *value = 0;
    if (c < '0' || c > '9')
        return import_wrong(j->m, "a number is missing before \"%.20s\"", j->at);
    for (; *j->at >= '0' && *j->at <= '9'; j->at++) {
        uint64_t digit = (uint64_t)(*j->at - '0');
        if (*value > (UINT64_MAX - digit) / 10)
            return import_wrong(j->m, "a number that is too large");
        *value = *value * 10 + digit;
    }
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string; -1: none. */
static int character(struct json *j)
{
    int value = 0;
    if (*j->at != '\\')
        return *j->at ? (uint8_t)*j->at++ : -1;
    j->at++;
    if (*j->at == '"' || *j->at == '\\' || *j->at == '/')
        return *j->at++;
    if (*j->at != 'u')
        return -1;
    j->at++;
    for (int i = 0; i < 4; i++, j->at++) {
        int digit = hex_digit(*j->at);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value < 256 ? value : -1;
}

/* Into out, which holds `most` with a closing zero. */
static int text(struct json *j, char *out, size_t most)
{
    size_t length = 0;
    if (expect(j, '"'))
        return -EINVAL;
    while (*j->at != '"') {
        int c = character(j);
        if (c <= 0)
            return import_wrong(j->m, "a string that does not end, or has what no name has");
        if (length + 1 == most)
            return import_wrong(j->m, "a name of more than %zu characters", most - 1);
        out[length++] = (char)c;
    }
    j->at++;
    memset(out + length, 0, most - length);
    return 0;
}

/* ---- keys */

enum value { VALUE_NUMBER, VALUE_BIT, VALUE_TYPE, VALUE_TEXT, VALUE_REFERENCE };
struct key {
    const char *name;
    enum value value;
    size_t at;
};

static int key_read(struct json *j, const struct key *keys, void *into);

/* key: value, ... up to }. `else_do` reads keys that are not in the table. */
typedef int key_fn(struct json *j, const char *key, void *into);
static int keys_read(struct json *j, const struct key *keys, void *into, key_fn *else_do)
{
    int error = expect(j, '{');
    for (bool first = true; !error && (next_is(j) != '}' || !first); first = false) {
        char name[16];
        const struct key *key = keys;
        error = first ? 0 : expect(j, ',');
        if (!error)
            error = text(j, name, sizeof name);
        if (!error)
            error = expect(j, ':');
        while (!error && key->name && strcmp(key->name, name))
            key++;
        if (!error)
            error = key->name  ? key_read(j, key, into)
                    : else_do ? else_do(j, name, into)
                              : import_wrong(j->m, "what is \"%s\"?", name);
        if (error || next_is(j) == '}')
            break;
    }
    return error ? error : expect(j, '}');
}

static const struct key reference_keys[] = {
    { "container", VALUE_TEXT, offsetof(struct import_ref, container) },
    { "object", VALUE_NUMBER, offsetof(struct import_ref, object) },
    { "offset", VALUE_NUMBER, offsetof(struct import_ref, offset) },
    { 0 },
};

/* A type's text, as the number that is kept. */
static int type_read(struct json *j, uint64_t *type)
{
    char name[STORE_NAME_BYTES];
    int error = text(j, name, sizeof name);
    *type = error ? 0 : slot_type_of(name);
    return error;
}

static int key_read(struct json *j, const struct key *key, void *into)
{
    void *to = (char *)into + key->at;
    int error;
    switch (key->value) {
    case VALUE_TEXT:
        return text(j, to, STORE_NAME_BYTES);
    case VALUE_REFERENCE:
        ((struct import_ref *)to)->given = true;
        ((struct import_ref *)to)->line = j->m->line;
        return keys_read(j, reference_keys, to, NULL);
    case VALUE_TYPE:
        if (next_is(j) == '"')
            return type_read(j, to);
        /* fallthrough */
    default:
        error = number(j, to);
        if (!error && key->value != VALUE_NUMBER && *(uint64_t *)to >> 32)
            error = import_wrong(j->m, "\"%s\" is too large", key->name);
        return error;
    }
}

/* ---- the data of an object */

static int hex_read(struct import *m, struct json *j)
{
    int error = expect(j, '"');
    while (!error && *j->at != '"') {
        int high = hex_digit(*j->at), low = high < 0 ? -1 : hex_digit(j->at[1]);
        uint8_t byte = (uint8_t)((unsigned)high << 4 | ((unsigned)low & 15));
        error = low < 0 ? import_wrong(m, "no hexadecimal byte") : import_bytes(m, &byte, 1);
        j->at += 2 * !error;
    }
    j->at += !error;
    return error;
}

static int text_read(struct import *m, struct json *j)
{
    int error = expect(j, '"');
    while (!error && *j->at != '"') {
        int c = character(j);
        uint8_t byte = (uint8_t)c;
        error = c < 0 ? import_wrong(m, "a string that does not end") : import_bytes(m, &byte, 1);
    }
    j->at += !error;
    return error;
}

static int piece_key(struct json *j, const char *key, void *into)
{
    uint64_t zeros;
    bool *plain = into;
    *plain = true;
    if (!strcmp(key, "hex"))
        return hex_read(j->m, j);
    if (!strcmp(key, "text"))
        return text_read(j->m, j);
    if (strcmp(key, "zeros"))
        return import_wrong(j->m, "what is \"%s\"?", key);
    int error = number(j, &zeros);
    return error ? error : import_bytes(j->m, NULL, zeros);
}

/* A reference, or bytes of one of three forms. */
static int piece(struct json *j)
{
    static const struct key none[] = { { 0 } };
    bool plain = false;
    const char *at = j->at;
    while (*at && *at != '"')
        at++;
    if (strncmp(at, "\"object\"", 8) && strncmp(at, "\"container\"", 11))
        return keys_read(j, none, &plain, piece_key);
    struct import_ref ref = { .given = true };
    int error = keys_read(j, reference_keys, &ref, NULL);
    return error ? error : import_reference(j->m, &ref);
}

static int data_read(struct json *j)
{
    int error = expect(j, '[');
    while (!error && next_is(j) != ']') {
        error = piece(j);
        if (!error && next_is(j) != ']')
            error = expect(j, ',');
    }
    j->at += !error;
    return error;
}

/* ---- lines */

static const struct key head_keys[] = {
    { "container", VALUE_TEXT, offsetof(struct import, name) },
    { "segments", VALUE_BIT, offsetof(struct import, segments) },
    { "flags", VALUE_BIT, offsetof(struct import, flags) },
    { "encoder", VALUE_BIT, offsetof(struct import, encoder) },
    { "locking", VALUE_BIT, offsetof(struct import, locking) },
    { "protection", VALUE_BIT, offsetof(struct import, protection) },
    { "durability", VALUE_BIT, offsetof(struct import, durability) },
    { "type", VALUE_TEXT, offsetof(struct import, type) },
    { "version", VALUE_BIT, offsetof(struct import, version) },
    { "bytes", VALUE_BIT, offsetof(struct import, root_bytes) },
    { "root", VALUE_REFERENCE, offsetof(struct import, root) },
    { 0 },
};
static const struct key page_keys[] = {
    { "page", VALUE_NUMBER, offsetof(struct import_line, page) },
    { "marked", VALUE_BIT, offsetof(struct import_line, marked) },
    { "tail", VALUE_BIT, offsetof(struct import_line, tail) },
    { "arena", VALUE_REFERENCE, offsetof(struct import_line, arena) },
    { "next", VALUE_REFERENCE, offsetof(struct import_line, next) },
    { 0 },
};
static const struct key object_keys[] = {
    { "object", VALUE_NUMBER, offsetof(struct import_line, object) },
    { "bytes", VALUE_NUMBER, offsetof(struct import_line, bytes) },
    { "type", VALUE_TYPE, offsetof(struct import_line, type) },
    { 0 },
};
static const struct key name_keys[] = {
    { "named", VALUE_TEXT, offsetof(struct import_line, named) },
    { "at", VALUE_REFERENCE, offsetof(struct import_line, at) },
    { "bytes", VALUE_NUMBER, offsetof(struct import_line, bytes) },
    { 0 },
};

static int head_line(struct json *j)
{
    struct import *m = j->m;
    if (m->segments)
        return import_wrong(m, "a second container");
    int error = keys_read(j, head_keys, m, NULL);
    if (!error && (!m->segments || m->segments > STORE_SEGMENT_MAX || !m->name[0]))
        error = import_wrong(m, "a container needs a name and 1 to %u segments", STORE_SEGMENT_MAX);
    if (!error && m->locking >= STORE_LOCKING_COUNT)
        error = import_wrong(m, "no such locking");
    if (!error && m->protection >= STORE_PROTECTION_COUNT)
        error = import_wrong(m, "no such protection");
    if (!error && m->durability >= STORE_DURABILITY_COUNT)
        error = import_wrong(m, "no such durability");
    return error || m->encoder < STORE_ENCODER_COUNT ? error : import_wrong(m, "no such encoder");
}

/* Only what is behind "data" may be there before it. */
static int object_data(struct json *j, const char *key, void *into)
{
    if (strcmp(key, "data"))
        return import_wrong(j->m, "what is \"%s\"?", key);
    int error = import_object_line(j->m, into);
    return error ? error : data_read(j);
}

static int object_line(struct json *j)
{
    struct import_line l = { 0 };
    struct import *m = j->m;
    m->at = m->end = UINT64_MAX;
    int error = keys_read(j, object_keys, &l, object_data);
    if (!error && m->end == UINT64_MAX)
        error = import_wrong(m, "an object without data");
    if (!error && m->at != m->end)
        error = import_wrong(m, "the data are shorter than the object");
    return error;
}

static int page_line(struct json *j)
{
    struct import_line l = { 0 };
    int error = keys_read(j, page_keys, &l, NULL);
    if (!error && !l.marked && (l.arena.given || l.next.given))
        error = import_wrong(j->m, "an arena's page that is not marked");
    return error ? error : import_page_line(j->m, &l);
}

static int name_line(struct json *j)
{
    struct import_line l = { 0 };
    struct import *m = j->m;
    int error = keys_read(j, name_keys, &l, NULL);
    if (!error && (!l.named[0] || l.at.given == name_is_setting(l.named)))
        error = import_wrong(m, "a name needs what it is the name of");
    if (!error && !karray_room((void **)&m->named, m->name_count, &m->name_room, sizeof *m->named))
        error = import_wrong(m, "no memory");
    if (error)
        return error;
    struct import_name *name = &m->named[m->name_count++];
    *name = (struct import_name){ .bytes = l.bytes, .at = l.at };
    memcpy(name->name, l.named, sizeof name->name);
    return 0;
}

static int end_line(struct json *j)
{
    static const struct key keys[] = { { "end", VALUE_NUMBER, 0 }, { 0 } };
    uint64_t count;
    int error = keys_read(j, keys, &count, NULL);
    j->m->ended = true;
    return error || count == j->m->objects ? error : import_wrong(j->m, "objects are missing");
}

static int line_read(struct import *m, const char *line)
{
    static const struct { const char *key; int (*read)(struct json *j); } kinds[] = {
        { "\"container\"", head_line }, { "\"page\"", page_line }, { "\"object\"", object_line },
        { "\"named\"", name_line }, { "\"end\"", end_line },
    };
    struct json j = { m, line };
    const char *key = strchr(line, '"');
    unsigned kind = 0;
    m->line++;
    while (key && kind < 5 && strncmp(key, kinds[kind].key, strlen(kinds[kind].key)))
        kind++;
    if (!key || kind == 5 || m->ended)
        return import_wrong(m, m->ended ? "something behind the end" : "no line of kstore export");
    if (kind && !m->segments)
        return import_wrong(m, "the first line must tell of the container");
    int error = kinds[kind].read(&j);
    return error || !next_is(&j) ? error : import_wrong(m, "something behind the object");
}

int import_read(struct import *m, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int error = 0;
    while (!error && (length = getline(&line, &room, file)) > 0)
        error = strlen(line) == (size_t)length ? line_read(m, line)
                                               : (m->line++, import_wrong(m, "a zero byte"));
    free(line);
    if (!error && ferror(file))
        error = import_wrong(m, "the file cannot be read on");
    return error || m->ended ? error : import_wrong(m, "the end is missing");
}

void import_free(struct import *m)
{
    for (uint32_t i = 0; i < m->page_count; i++)
        free(m->page[i].bytes);
    free(m->page);
    free(m->ref);
    free(m->named);
}
