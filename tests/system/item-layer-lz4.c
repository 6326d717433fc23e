/*
 * item-layer-lz4.c - items that LZ4 packs (isolation.sh): a text grows by lines, behind its header,
 * and is read by the next run.
 */
#include <item_layer.h>
#include <lz4.h>
#include <stdio.h>
#include <string.h>

static size_t pack(const void *from, size_t bytes, void *to, size_t room)
{
    int n = LZ4_compress_default(from, to, (int)bytes, (int)room);
    return n > 0 && (size_t)n < bytes ? (size_t)n : 0;
}
static int unpack(const void *from, size_t stored, void *to, size_t bytes)
{
    return LZ4_decompress_safe(from, to, (int)stored, (int)bytes) == (int)bytes ? 0 : -EILSEQ;
}
static const struct ps_item_type text = {.name = "text", .pack = pack, .unpack = unpack};

enum { LINES = 200 };
static ps_part *part;
static size_t moves;

static int line(int i, char *out)
{
    return sprintf(out, "line %d of a text that says little\n", i);
}

static int grow(void *unused)
{
    ps_item_id *id = ps_named(ps_part_data(part), "text", sizeof *id);
    if (!id || !ps_access(id, sizeof *id, PS_X) ||
        (!*id && !(*id = ps_item_make(part, "text", 0))))
        return -errno;
    const void *data = ps_item_header(*id)->data;
    char out[64];
    for (int i = 0; i < LINES / 10; i++) {
        size_t bytes = ps_begin_access(*id, PS_X) ? ps_item_bytes(*id) : 0;
        size_t more = (size_t)line((int)(bytes / 40), out);
        int error = ps_item_resize(*id, bytes + more);
        char *to = error ? NULL : ps_begin_access(*id, PS_X);
        if (!to)
            return error ? error : -errno;
        memcpy(to + bytes, out, more);
    }
    int error = ps_end_access(*id, PS_X);
    moves += data && ps_item_header(*id)->data != data;
    return error;
}

static int check(void *unused)
{
    const ps_item_id *id = ps_named(ps_part_data(part), "text", 0);
    const char *at = id ? ps_begin_access(*id, PS_S) : NULL;
    const char *end = at + (at ? ps_item_bytes(*id) : 0);
    const struct ps_item *item = at ? ps_item_header(*id) : NULL;
    char out[64];
    if (!at)
        return -errno;
    for (const char *from = at; from < end;) {
        int bytes = line((int)((from - at) / 40), out);
        if (end - from < bytes || memcmp(from, out, (size_t)bytes) != 0)
            return -EUCLEAN;
        from += bytes;
    }
    printf("lz4: equal, %s\n",
           item->form && item->stored * 5 < item->bytes ? "a fifth or less" : "LARGE");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct ps_part_wish wish = {.name = "texts", .flags = PS_PART_ITEMS};
    ps_file *f = ps_file_open("packed", PS_CREATE | PS_WRITE, &wish, 1);
    int error = !f || ps_item_type_add(&text) ? -errno : 0;
    part = f ? ps_file_part(f, "texts") : NULL;
    for (int i = 0; i < 10 && argc > 1 && !error; i++)
        error = ps_transaction(grow, NULL);
    if (argc > 1 && !error)
        printf("lz4: moved %s\n", moves > 2 ? "behind its header" : "NEVER");
    if (!error)
        error = ps_transaction(check, NULL);
    if (error)
        fprintf(stderr, "item-layer-lz4: %s\n", ps_strerror(error));
    return error != 0;
}
