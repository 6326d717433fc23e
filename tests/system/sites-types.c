/*
 * sites-types.c - for sites-types.sh: one container, whose accounts look otherwise to some.
 *
 *     sites-types NAME LOOK WORD ...     LOOK: home, big (all numbers in the other order), old
 *                                        (an earlier layout), part (not all types), plain
 *     make=N     makes the container, says how it looks, and adds N accounts
 *     open       waits until it may be opened; refused: it may not, says what for
 *     add=N  raise=N  name=N             accounts more; N more on each; the first is called N
 *     again      the first is freed, and in another transaction made anew, with the bytes it had
 *     list       the accounts, first to last
 *     phase=N  await=N                   between the machines
 *     fail=ERRNO                         the next word has to fail so
 */
#include <errno.h>
#include <pstore.h>
#include <site.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOT "type 16 struct root\n0 ptr first\n8 u64 count\n"
#define HEAD(type) ROOT "type 8 struct phase\n0 u64 number\nname phase struct phase\n" type
#define OLD "type 28 struct account\n0 i32 amount\n4 char*16 owner\n20 ptr next\n"
#define ACCOUNT "type 48 struct account\n0 ptr next\n8 i64 amount\n16 u64 limit\n24 char*24 owner\n"

static const struct look {
    const char *name, *text;
    int big;
    unsigned bytes, next, amount, width, owner, owner_bytes;
} looks[] = {
    {"home", "order little\n" HEAD(ACCOUNT), 0, 48, 0, 8, 8, 24, 24},
    {"big", "order big\n" HEAD(ACCOUNT), 1, 48, 0, 8, 8, 24, 24},
    {"old", "order little\n" HEAD(OLD), 0, 28, 20, 0, 4, 4, 16},
    {"part", "order big\n" ROOT ACCOUNT, 1, 48, 0, 8, 8, 24, 24},
    {"plain", NULL, 0, 48, 0, 8, 8, 24, 24}};
static const struct look *look;
static const char *container;
static ps_container *c;

static int64_t get(const void *at, unsigned width)
{
    uint64_t v = 0;
    memcpy(&v, at, width);
    if (look->big) v = __builtin_bswap64(v) >> (64 - 8 * width);
    return width == 4 ? (int32_t)v : (int64_t)v;
}

static void put(void *at, unsigned width, int64_t value)
{
    uint64_t v = (uint64_t)value;
    if (look->big) v = __builtin_bswap64(v) >> (64 - 8 * width);
    memcpy(at, &v, width);
}

static char *first(void)
{
    char *root = ps_root(c);
    return root ? (char *)(uintptr_t)get(root, 8) : NULL;
}

static char *next(const char *a) { return (char *)(uintptr_t)get(a + look->next, 8); }

static int opens(int flags)
{
    struct ps_layout root = {"struct root", 1, 16};
    int error = ps_site_declare(strchr(container, ':') ? look->text : NULL);
    if (!error) c = ps_open(container, flags, &root);
    return error ? error : c ? 0 : -errno;
}

static int add(void *number)
{
    char *root = ps_root(c);
    for (int64_t n = *(int64_t *)number; root && n > 0; n--) {
        char *a = ps_alloc_as(c, look->bytes, NULL, "struct account");
        if (!a) return -errno;
        int64_t count = get(root + 8, 8) + 1;
        put(a + look->amount, look->width, 100 * count);
        put(a + look->next, 8, get(root, 8));
        snprintf(a + look->owner, look->owner_bytes, "owner %lld", (long long)count);
        put(root, 8, (int64_t)(uintptr_t)a);
        put(root + 8, 8, count);
    }
    return root ? 0 : -errno;
}

static int make(void *number)
{
    char *phase = ps_named(c, "phase", 8);
    int error = phase ? ps_site_describe(c, look->text) : -errno;
    return error ? error : add(number);
}

static int raise_all(void *number)
{
    for (char *a = first(); a; a = next(a))
        put(a + look->amount, look->width, get(a + look->amount, look->width) + *(int64_t *)number);
    return 0;
}

static int name(void *number)
{
    char *a = first();
    if (!a) return -errno;
    snprintf(a + look->owner, look->owner_bytes, "called %lld", (long long)*(int64_t *)number);
    return 0;
}

static char bytes[48];
static int drop(void *unused)
{
    char *a = first(), *root = ps_root(c);
    (void)unused;
    if (!a) return -errno;
    memcpy(bytes, a, look->bytes);
    put(root, 8, (int64_t)(uintptr_t)next(a));
    return ps_free(a);
}

static int drop_back(void *unused)
{
    char *a = ps_alloc_as(c, look->bytes, NULL, "struct account"), *root = ps_root(c);
    (void)unused;
    if (!a || !root) return -errno;
    memcpy(a, bytes, look->bytes);
    put(root, 8, (int64_t)(uintptr_t)a);
    return 0;
}

static char listed[400];
static int list(void *unused)
{
    size_t at = 0;
    (void)unused;
    for (const char *a = first(); a && at < sizeof listed; a = next(a))
        at += (size_t)snprintf(listed + at, sizeof listed - at, "%s%s: %lld", at ? ", " : "",
                               a + look->owner, (long long)get(a + look->amount, look->width));
    return 0;
}

static int phase(void *number)
{
    char *p = ps_named(c, "phase", 8);
    if (p) put(p, 8, *(int64_t *)number);
    return p ? 0 : -errno;
}

static int phase_is(void *number)
{
    const char *p = ps_named(c, "phase", 8);
    if (!p) return -errno;
    return get(p, 8) < *(int64_t *)number ? -EAGAIN : 0;
}

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static int waits_open(void)
{
    int error;
    while ((error = opens(PS_WRITE)) == -ENOENT || error == -EACCES || error == -ENOTCONN)
        pause_ms();
    return error;
}

static int word(const char *w, int64_t n)
{
    int error;
    if (!strncmp(w, "make", 4))
        return (error = opens(PS_CREATE | PS_WRITE)) ? error : ps_transaction(make, &n);
    if (!strcmp(w, "open")) return waits_open();
    if (!strcmp(w, "refused")) {
        error = waits_open();
        printf("refused: %s\n", error == -EPROTOTYPE ? ps_site_refused() : ps_strerror(error));
        return 0;
    }
    if (!c && (error = opens(PS_WRITE))) return error;
    if (!strcmp(w, "list"))
        return (error = ps_transaction(list, NULL)) ? error : (puts(listed), 0);
    if (!strcmp(w, "again"))
        return (error = ps_transaction(drop, NULL)) ? error : ps_transaction(drop_back, NULL);
    if (!strncmp(w, "await", 5)) {
        while ((error = ps_transaction(phase_is, &n)) == -EAGAIN) pause_ms();
        return error;
    }
    return !strncmp(w, "add", 3)     ? ps_transaction(add, &n)
           : !strncmp(w, "raise", 5) ? ps_transaction(raise_all, &n)
           : !strncmp(w, "name", 4)  ? ps_transaction(name, &n)
           : !strncmp(w, "phase", 5) ? ps_transaction(phase, &n)
                                     : -EINVAL;
}

static int as(const char *text)
{
    for (look = looks; look < looks + sizeof looks / sizeof *looks; look++)
        if (!strcmp(look->name, text)) return 0;
    return -EINVAL;
}

int main(int argc, char **argv)
{
    int wanted = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || as(argv[2])) return 2;
    container = argv[1];
    for (int i = 3; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        int64_t n = value ? strtoll(value + 1, NULL, 10) : 0;
        int error;
        if (!strncmp(argv[i], "fail=", 5)) {
            wanted = -(int)n;
            continue;
        }
        if (!strncmp(argv[i], "as=", 3))
            error = as(value + 1) ?: opens(PS_WRITE);
        else
            error = word(argv[i], n);
        if (error != wanted) {
            printf("%s: %s: %s (%d)\n", container, argv[i], ps_strerror(error), error);
            return 1;
        }
        wanted = 0;
    }
    return 0;
}
