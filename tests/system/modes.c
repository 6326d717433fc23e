/*
 * modes.c - for modes.sh and sites-modes.sh: one program, whose functions and operations are
 * carried out in its own process or in a server's, as its second word says (user/sites/modes.md).
 *
 *     modes NAME serve                    the server of the container
 *     modes NAME CONFIGURATION WORD ...   each word in turn; - for a space in a configuration
 *
 *     add=N        N transactions of functions that count one up: read, lock, write
 *     enter=N      N that make an entry of a list, too: allocate
 *     undone=N     N that do the same, and are undone
 *     do=N         N operations that make an entry
 *     sum          count, entries, and the sum of what they have, by functions
 *     hold=MS      reads, and locks the root to write, and sleeps so long before it writes
 *     die          the same, and ends there
 *     after=MS     counts one up behind a `hold` of this machine, which takes that long at least
 *     wrong        what cannot be done is refused
 *     noise=N      N calls to the server that make no sense, and it goes on
 *     await=N      until the count is N; how often it was seen to change meanwhile is told
 *     calls        how often the server was asked since the last `calls`; "again": functions were
 *                  run once more, which took too long
 *     read         opens it again, to read only; as the first word, to begin with
 *     updates      as the first word: pages that it has used come anew when they have changed
 *     slow=N       N transactions that count one up, a tenth of a second before each
 *     told         messages of pages between the sites since the last `told`
 *     fail=ERRNO   the next word has to fail so
 */
#include <errno.h>
#include <pstore.h>
#include <split.h>
#include <split_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <katydid/call.h>

struct entry { struct entry *next; int64_t amount; };
struct root { struct entry *first; int64_t count; };
#define LAYOUT PS_LAYOUT(struct root, 1)

static const char *name;
static char text[128];
static ps_split *split;
static int flags = PS_WRITE, hold_ms;
static unsigned begun, wanted_once;     /* functions that ran, and transactions */
static const char held[] = "/tmp/modes.held";   /* since when a `hold` has its lock */

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- operations: loads and stores, where the program runs ---- */

static int operation_enter(ps_container *c, void *amount)
{
    struct root *root = ps_root(c);
    struct entry *e = root ? ps_new(c, struct entry, root) : NULL;
    if (!e) return -errno;
    *e = (struct entry){root->first, *(int64_t *)amount};
    root->first = e;
    *(int64_t *)amount = ++root->count;
    return 0;
}

static int operation_count(ps_container *c, void *count)
{
    const struct root *root = ps_root(c);
    if (!root) return -errno;
    *(int64_t *)count = root->count;
    return 0;
}

static const struct ps_operation operations[] = {
    {"enter", operation_enter, sizeof(int64_t)}, {"count", operation_count, sizeof(int64_t)}, {0}};

static int does(uint64_t times)
{
    int error = 0;
    int64_t before = 0, now = 0;
    for (uint64_t i = 0; !error && i < times; i++) {
        int64_t amount = 1;
        error = ps_split_run(split, "count", &before, sizeof before);
        if (!error) error = ps_split_run(split, "enter", &amount, sizeof amount);
        if (!error) error = ps_split_run(split, "count", &now, sizeof now);
        if (!error && (amount <= before || now < amount)) error = -EILSEQ;
    }
    return error;
}

/* ---- transactions of functions ---- */

static void held_since(uint64_t ms)
{
    FILE *out = fopen(held, "w");
    if (!out || fprintf(out, "%llu\n", (unsigned long long)ms) < 0 || fclose(out)) perror(held);
}

static int add(ps_split *s, void *arg)
{
    struct root *root = ps_split_root(s), now;
    int error = !root ? -errno : ps_split_read(s, root, 0, &now, sizeof now);
    (void)arg;
    begun++;
    if (!error && hold_ms) error = ps_split_lock(s, root, PS_X);
    if (!error && hold_ms < 0) _exit(0);
    if (!error && hold_ms) held_since(now_ms());
    if (!error) pause_ms(hold_ms);
    now.count++;
    return error ? error : ps_split_write(s, root, 8, &now.count, sizeof now.count);
}

static int enter(ps_split *s, void *result)
{
    struct root *root = ps_split_root(s), now;
    int error = !root ? -errno : ps_split_lock(s, root, PS_X);
    begun++;
    if (!error) error = ps_split_read(s, root, 0, &now, sizeof now);
    struct entry *e = error ? NULL : ps_split_alloc(s, sizeof *e, root);
    if (!error && !e) error = -errno;
    struct entry new = {now.first, 1}, seen;
    if (!error) error = ps_split_write(s, e, 0, &new, sizeof new);
    if (!error) error = ps_split_read(s, e, 0, &seen, sizeof seen);     /* its own */
    if (!error && memcmp(&new, &seen, sizeof new)) error = -EILSEQ;
    now = (struct root){e, now.count + 1};
    if (!error) error = ps_split_write(s, root, 0, &now, sizeof now);
    return error ? error : *(int *)result;
}

static int sum(ps_split *s, void *out)
{
    struct root *root = ps_split_root(s), now = {0};
    struct entry e;
    int64_t *of = out;
    int error = !root ? -errno : ps_split_read(s, root, 0, &now, sizeof now);
    begun++;
    of[0] = now.count;
    of[1] = of[2] = 0;
    for (struct entry *at = now.first; at && !error; at = e.next) {
        error = ps_split_read(s, at, 0, &e, sizeof e);
        of[1]++;
        of[2] += e.amount;
    }
    return error;
}

/* What takes too long is undone: a machine that stood still runs it again. */
static int transaction(int (*fn)(ps_split *s, void *arg), void *arg)
{
    int error;
    wanted_once++;
    do error = ps_split_transaction(split, fn, arg);
    while (error == -ETIMEDOUT && !hold_ms);
    return error;
}

static unsigned changes;                /* seen by the last await */

static int await(int64_t count)
{
    int64_t of[3] = {0}, last = -1;
    int error;
    for (changes = 0; !(error = transaction(sum, of)); last = of[0]) {
        changes += last >= 0 && of[0] != last;
        if (of[0] >= count) break;
        pause_ms(20);
    }
    return error;
}

static int many(int (*fn)(ps_split *s, void *arg), uint64_t times, int result)
{
    int error = result;
    for (uint64_t i = 0; error == result && i < times; i++)
        error = transaction(fn, &result);
    return error == result ? 0 : error;
}

static int sums(void)
{
    int64_t of[3];
    int error = transaction(sum, of);
    if (!error) printf("%lld, %lld entries, %lld\n", (long long)of[0], (long long)of[1],
                       (long long)of[2]);
    return error;
}

/* ---- what is refused ---- */

static int outside(ps_split *s, void *what)
{
    char data[64];
    struct root *root = ps_split_root(s);
    switch (*(int *)what) {
    case 0: return ps_split_read(s, root, 8, data, 16);
    case 1: return ps_split_read(s, (char *)root + 8, 0, data, 8);
    case 2: return ps_split_write(s, data, 0, data, 8);
    case 3: return ps_split_write(s, root, 1u << 20, data, 8);
    default: return ps_split_lock(s, root, 77);
    }
}

static int wrong(void)
{
    static const char *const no[] = {
        "mixed", "read=client",
        "read=client lock=server log=client commit=server abort=server allocate=server",
        "read=client lock=client log=client commit=client abort=server allocate=server",
        "read=server lock=server log=server commit=client abort=client allocate=client",
        "read=client read=client log=client commit=client abort=client allocate=client"};
    char spare[8] = {0};
    int bad = 0;
    for (unsigned i = 0; i < sizeof no / sizeof *no; i++)
        if (ps_split_open(name, PS_WRITE, LAYOUT, no[i], NULL) || errno != EINVAL)
            bad |= printf("%s was opened: %d\n", no[i], errno);
        else if (i > 1 && i < 5) printf("%s\n", ps_split_why());
    for (int i = 0; i < 5; i++)
        if (ps_split_transaction(split, outside, &i) != -EINVAL) bad |= printf("%d was done\n", i);
    if (ps_split_run(split, "nothing", spare, 8) != -ENOSYS) bad |= printf("nothing was done\n");
    if (ps_split_run(split, "enter", spare, 7) != -EMSGSIZE) bad |= printf("7 bytes were taken\n");
    return bad ? -EILSEQ : 0;
}

static uint64_t seed = 88172645463325252u;
static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* The server of this machine, called by hand. */
static int noise(uint64_t times)
{
    static uint8_t data[SPLIT_DATA_MAX + 8], answer[SPLIT_DATA_MAX];
    char serves[KD_NAME_MAX];
    snprintf(serves, sizeof serves, SPLIT_SERVES "%s", name);
    long port = kd_call3(KD_NAME_FIND, (long)serves, 0, 0);
    if (port < 0) return (int)port;
    ps_container *c = ps_open(name, PS_WRITE, LAYOUT);
    struct kd_message none = {.kind = SPLIT_OPEN, .word = {PS_WRITE}, .handle = -1};
    long r = kd_call3(KD_PORT_CALL, port, (long)&none, 0);
    if (r == 0 && none.status == 0) return -EILSEQ;     /* without a handle of the container */
    int shown = ps_handle(name, PS_MAY_READ | PS_MAY_GRANT);
    struct kd_message m = {.kind = SPLIT_OPEN, .word = {PS_WRITE}, .handle = shown,
                           .handle_rights = KD_RIGHT_CALL | PS_MAY_READ * KD_RIGHT_OWN};
    r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (r == 0 && m.status == 0) return -EILSEQ;        /* with one to read */
    m = (struct kd_message){.kind = SPLIT_OPEN, .handle = shown,
                            .handle_rights = KD_RIGHT_CALL | PS_MAY_READ * KD_RIGHT_OWN};
    r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (r || m.status) return r ? (int)r : m.status;
    int by = m.handle;
    for (uint64_t i = 0; i < times; i++) {
        struct kd_message say = {.kind = draw() % 16 ? SPLIT_CALL : (uint32_t)draw() >> 1,
                                 .handle = draw() % 8 ? -1 : shown,
                                 .handle_rights = KD_RIGHT_CALL, .data = data, .buffer = answer,
                                 .buffer_bytes = sizeof answer};
        for (int k = 0; k < 8; k++) say.word[k] = draw() % 3 ? draw() % 64 : draw();
        say.word[1] = draw() % 12;
        if (draw() % 2) say.word[2] = (uintptr_t)ps_address(c) + draw() % 65536 / 16 * 16;
        say.data_bytes = draw() % 2 ? draw() % 256 : draw() % sizeof data;
        for (size_t k = 0; k < say.data_bytes && k < 256; k++) data[k] = (uint8_t)draw();
        r = kd_call3(KD_PORT_CALL, by, (long)&say, 0);
        if (r == -EOWNERDEAD) return (int)r;
    }
    kd_call3(KD_HANDLE_CLOSE, by, 0, 0);
    return 0;
}

static int told(void)
{
    enum { COUNTS = 0x1000, KINDS = 4 };         /* of remote, by the port "SITE/store" */
    static const char *const kinds[KINDS] = {"GET", "GRANT", "CALL", "GONE"};
    static uint64_t before[KD_WORDS];
    char store[KD_NAME_MAX];
    snprintf(store, sizeof store, "%.*s/store", (int)strcspn(name, ":"), name);
    struct kd_message m = {.kind = COUNTS, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    for (int i = 0; i < KINDS && r == 0; i++)
        printf("%llu %s, ", (unsigned long long)(m.word[i] - before[i]), kinds[i]);
    if (r == 0) printf("%u seen\n", changes);
    memcpy(before, m.word, sizeof before);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return (int)r;
}

/* Who holds it is undone when it was silent for so long. */
static int after(uint64_t ms)
{
    enum { SILENT_MS = 2000 };
    unsigned long long since = 0;
    for (FILE *in; ms && !since; pause_ms(5))
        if ((in = fopen(held, "r"))) {
            if (fscanf(in, "%llu\n", &since) != 1) since = 0;
            fclose(in);
        }
    uint64_t begin = now_ms();
    int error = many(add, 1, 0);
    uint64_t took = now_ms() - begin;
    if (took >= ms || begin - since + ms > SILENT_MS) return error;
    printf("it took %llu ms\n", (unsigned long long)took);
    return error ? error : -EILSEQ;
}

static int opens(void)
{
    ps_split_close(split);
    do
        split = ps_split_open(name, flags, LAYOUT, text, operations);
    while (!split && (errno == ENOENT || errno == EACCES || errno == ENOTCONN) &&
           (pause_ms(5), 1));
    return split ? 0 : -errno;
}

static int word(const char *w, uint64_t n)
{
    static struct ps_split_counts before;
    struct ps_split_counts now;
    if (!strncmp(w, "add=", 4)) return many(add, n, 0);
    if (!strncmp(w, "enter=", 6)) return many(enter, n, 0);
    if (!strncmp(w, "undone=", 7)) return many(enter, n, -ECANCELED);
    if (!strncmp(w, "do=", 3)) return does(n);
    if (!strcmp(w, "sum")) return sums();
    if (!strncmp(w, "await=", 6)) return await((int64_t)n);
    if (!strcmp(w, "wrong")) return wrong();
    if (!strncmp(w, "noise=", 6)) return noise(n);
    if (!strncmp(w, "after=", 6)) return after(n);
    if (!strncmp(w, "hold=", 5) || !strcmp(w, "die")) {
        hold_ms = w[0] == 'd' ? -1 : (int)n;
        printf(hold_ms < 0 ? "dies\n" : "held\n");
        int error = many(add, 1, 0);
        hold_ms = 0;
        return error;
    }
    if (!strcmp(w, "read")) {
        flags = 0;
        return opens();
    }
    if (!strcmp(w, "updates")) return 0;
    if (!strcmp(w, "told")) return told();
    for (; !strncmp(w, "slow=", 5) && n > 0; n--) {
        pause_ms(100);
        int error = many(add, 1, 0);
        if (error || n == 1) return error;
    }
    if (!strcmp(w, "calls")) {
        ps_split_counts(split, &now);
        printf("%llu calls%s\n", (unsigned long long)(now.calls - before.calls),
               begun > wanted_once ? " again" : "");
        before = now;
        begun = wanted_once = 0;
        return 0;
    }
    return -EINVAL;
}

int main(int argc, char **argv)
{
    int wanted = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3) return 2;
    name = argv[1];
    if (!strcmp(argv[2], "serve")) {
        int error = ps_split_serve(name, PS_CREATE | PS_WRITE, LAYOUT, operations);
        printf("%s: %s (%d)\n", name, ps_strerror(error), error);
        return 1;
    }
    snprintf(text, sizeof text, "%s", argv[2]);
    for (char *at = text; *at; at++)
        if (*at == '-') *at = ' ';
    flags = argc > 3 && !strcmp(argv[3], "read") ? 0
            : argc > 3 && !strcmp(argv[3], "updates") ? PS_WRITE | PS_UPDATES : PS_WRITE;
    int error = opens();
    if (error) printf("%s: %s (%d)\n", name, ps_strerror(error), error);
    for (int i = 3; !error && i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        uint64_t n = value ? strtoull(value + 1, NULL, 10) : 0;
        if (!strncmp(argv[i], "fail=", 5)) {
            wanted = -(int)n;
            continue;
        }
        error = word(argv[i], n);
        if (error == wanted) error = 0;
        else printf("%s %s: %s (%d)\n", text, argv[i], ps_strerror(error), error);
        wanted = 0;
    }
    return error != 0;
}
