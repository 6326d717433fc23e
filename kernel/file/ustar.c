/*
 * ustar.c - POSIX ustar archives: their headers are checked, their members become nodes.
 *
 * The archive is input, and perhaps hostile: no length, name or number is believed before it was
 * checked, the tree's own limits bound what it can make, and the worst that happens is a message.
 * Links, devices and pax headers are skipped. A member that comes again replaces the earlier one.
 */
#include "base/boot.h"
#include "file/file.h"

#define BLOCK 512

struct ustar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct ustar_header) == BLOCK, "on-disk size");

/* Octal digits up to a space or NUL. False: something else is in the field. */
static bool octal(const char *field, size_t n, uint64_t *out)
{
    size_t i = 0;
    uint64_t value = 0;
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0'); /* at most 12 digits: no overflow */
    *out = value;
    return i == n || field[i] == ' ' || field[i] == 0;
}

static bool checksum_ok(const uint8_t *block)
{
    const struct ustar_header *h = (const void *)block;
    uint64_t want, sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        bool own = i >= offsetof(struct ustar_header, checksum)
            && i < offsetof(struct ustar_header, type);
        sum += own ? ' ' : block[i];
    }
    return octal(h->checksum, sizeof(h->checksum), &want) && want == sum;
}

static bool all_zero(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* FOLDER/PREFIX/NAME, cleaned of "." and double slashes. False: "..", too long, or empty. */
static bool path_make(const struct ustar_source *s, const struct ustar_header *h, char *path)
{
    char raw[sizeof(h->prefix) + sizeof(h->name) + 3];
    size_t prefix = strnlen(h->prefix, sizeof(h->prefix)), name = strnlen(h->name, sizeof(h->name));
    memcpy(raw, h->prefix, prefix);
    raw[prefix] = '/';
    memcpy(raw + prefix + 1, h->name, name);
    raw[prefix + 1 + name] = 0;

    size_t at = strlcpy(path, s->folder, FILE_PATH_MAX), start = at;
    for (const char *p = raw; *p; ) {
        size_t n = 0;
        while (p[n] && p[n] != '/')
            n++;
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return false;
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            if (at + n + 2 > FILE_PATH_MAX)
                return false;
            path[at++] = '/';
            memcpy(path + at, p, n);
            at += n;
        }
        p += n + (p[n] == '/');
    }
    path[at] = 0;
    return at > start;
}

/* Makes the folders above the last component that do not exist yet. */
static int parents_make(char *path, size_t from)
{
    for (size_t i = from + 1; path[i]; i++) {
        struct node *n = NULL;
        if (path[i] != '/')
            continue;
        path[i] = 0;
        int error = node_make(node_root(), path, NODE_FOLDER, 0555, true, &n);
        path[i] = '/';
        if (!error) {
            n->read_only = true;
            node_put(n);
        } else if (error != -EEXIST) {
            return error;
        }
    }
    return 0;
}

static int member_add(const struct ustar_source *s, char *path, bool folder, uint64_t offset,
                      uint64_t bytes)
{
    struct node *n;
    int error = parents_make(path, strlen(s->folder));
    if (error)
        return error;
    enum node_kind kind = folder ? NODE_FOLDER : s->memory ? NODE_PLACE : NODE_IMPORT;
    error = node_make(node_root(), path, kind, 0555, true, &n);
    if (error == -EEXIST)
        error = node_find(node_root(), path, &n);
    else if (!error && folder)
        n->read_only = true;
    if (error)
        return error;
    if (n->kind != kind) {
        error = -EEXIST;
    } else if (!folder) {
        n->place = s->memory ? s->memory + offset : NULL;
        n->disk_offset = offset;
        n->bytes = bytes;
    }
    node_put(n);
    return error;
}

void ustar_add(struct ustar_source *s)
{
    uint8_t block[BLOCK];
    char path[FILE_PATH_MAX];
    unsigned zeros = 0, skipped = 0;
    uint64_t at = 0;

    for (; at <= s->bytes && s->bytes - at >= BLOCK; at += BLOCK) {
        const struct ustar_header *h = (const void *)block;
        uint64_t bytes;
        int error = s->read(s, at, block);
        if (error) {
            printk("%s: cannot read the archive at byte %lu (error %d)", s->name, at, -error);
            return;
        }
        if (all_zero(block)) { /* two end an archive; boot modules may hold several */
            if (++zeros >= 2 && !s->memory)
                break;
            continue;
        }
        zeros = 0;
        if (memcmp(h->magic, "ustar", 5) != 0 || !checksum_ok(block)
            || !octal(h->size, sizeof(h->size), &bytes)) {
            printk("%s: no ustar header at byte %lu; what follows is ignored", s->name, at);
            return;
        }
        if (bytes > s->bytes - at - BLOCK) {
            printk("%s: %.40s is cut off (%lu bytes, %lu are there); ignored", s->name, h->name,
                   bytes, s->bytes - at - BLOCK);
            return;
        }
        bool file = h->type == '0' || h->type == 0, folder = h->type == '5';
        if (path_make(s, h, path)) {
            if (!file && !folder)
                skipped++;
            else if ((error = member_add(s, path, folder, at + BLOCK, bytes)))
                printk("%s: cannot add %s (error %d)", s->name, path, -error);
            if (error == -ENOSPC || error == -ENOMEM)
                return;
        } else if (file) {
            skipped++;
        }
        at += (bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    if (skipped)
        printk("%s: skipped what is no file or folder, or has a bad name: %u", s->name, skipped);
}

static int module_read(struct ustar_source *s, uint64_t offset, uint8_t *block)
{
    memcpy(block, s->memory + offset, BLOCK);
    return 0;
}

void ustar_add_modules(void)
{
    for (unsigned i = 0; i < boot_info.module_count; i++) {
        const struct boot_module *m = &boot_info.modules[i];
        struct ustar_source s = {
            .read = module_read, .bytes = m->bytes, .memory = arch_phys(m->start),
            .folder = "", .name = "initrd",
        };
        ustar_add(&s);
    }
}
