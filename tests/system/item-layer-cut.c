/*
 * item-layer-cut.c - the load of item-layer-cut.sh: a file of partitions whose items come, move,
 * are packed and go, with a relation that leads to them, until the power goes (steps.h).
 *
 * What a key's item holds follows from the key and the step that put it.
 */
#include <item_layer.h>
#include <relation.h>

enum { KEYS = 60, EACH = 12, GROWS = 8, BYTES = 900 };
#include "steps.h"

struct place { uint32_t n, step; ps_item_id id; };
PS_RELATION(place, struct place, n);
static ps_file *file;
static ps_part *half[2];                /* keys by their parity: plain in one container; apart */
static struct place_relation places;

/* Runs of one byte, as the type of the second half keeps them. */
static size_t pack(const void *from, size_t bytes, void *to, size_t room)
{
    const unsigned char *in = from;
    unsigned char *out = to;
    size_t n = 0;
    for (size_t i = 0, run; i < bytes; i += run) {
        for (run = 1; i + run < bytes && run < 255 && in[i + run] == in[i]; run++) {}
        if (n + 2 > room) return 0;
        out[n++] = (unsigned char)run;
        out[n++] = in[i];
    }
    return n;
}
static int unpack(const void *from, size_t stored, void *to, size_t bytes)
{
    const unsigned char *in = from;
    unsigned char *out = to;
    size_t n = 0;
    for (size_t i = 0; i + 2 <= stored; i += 2)
        for (int run = in[i]; run > 0 && n < bytes; run--) out[n++] = in[i + 1];
    return n == bytes ? 0 : -EILSEQ;
}
static const struct ps_item_type packed = {.name = "packed", .pack = pack, .unpack = unpack};

static size_t contents(uint32_t n, uint64_t step, char *out)
{
    size_t bytes = 1 + (n * 37 + step * 53) % BYTES;
    for (size_t i = 0; i < bytes; i++) out[i] = (char)(n * 13 + step + i / (n % 4 ? 50 : 1));
    return bytes;
}

static int put(uint32_t n, uint64_t step)
{
    char bytes[BYTES];
    size_t count = contents(n, step, bytes);
    struct place *p = place_change(&places, &n);
    struct place fresh = {.n = n};
    int error = 0;
    if (!p && !(fresh.id = ps_item_make(half[n % 2], n % 2 ? "packed" : "bytes", count)))
        return -errno;
    if (!p && ((error = place_insert(&places, &fresh)) || !(p = place_change(&places, &n))))
        return error ? error : -errno;
    p->step = (uint32_t)step;
    return ps_item_put(p->id, bytes, count);
}
static int take(uint32_t n)
{
    const struct place *p = place_find(&places, &n);
    if (!p) return errno == ENOENT ? 0 : -errno;
    return ps_item_delete(p->id) ?: place_delete(&places, &n);
}

static int open_all(void *unused)
{
    (void)unused;
    return place_open(&places, ps_file_part(file, "places"),
                      ps_part_data(ps_file_part(file, "index")));
}
static uint64_t *steps(void)
{
    return ps_named(ps_part_data(ps_file_part(file, "index")), "steps", sizeof(uint64_t));
}
static int step(void *arg)
{
    const struct work *w = arg;
    int error = 0;
    for (uint32_t left = step_begin(w), n; left > 0 && !error; left--)
        error = step_draw(w, &n) ? put(n, w->step) : take(n);
    if (!error) *steps() = w->step;
    return step_end(w, error);
}

static int check(void *arg)
{
    const struct work *w = arg;
    uint64_t *done = steps(), keys = replay(w->seed, done ? *done : 0), wrong = 0;
    const char *why;
    char want[BYTES], got[BYTES];
    for (uint32_t n = 0; n < KEYS; n++) {
        const struct place *p = place_find(&places, &n);
        size_t count = contents(n, model[n], want);
        wrong += (p != NULL) != (model[n] != 0) ||
                 (p && (p->step != model[n] || ps_item_get(p->id, got, BYTES) != (int64_t)count ||
                        memcmp(got, want, count) != 0));
    }
    wrong += ps_relation_check(&places.all) != (int64_t)keys;
    for (int i = 0; i < 2; i++) wrong += ps_part_check(half[i], &why) != 0;
    for (int i = 0; i < 2; i++)
        for (ps_item_id id = 0; (id = ps_item_next(half[i], NULL, id)) != 0;) keys--;
    printf("step %lu: %s, %d\n", *done, wrong || keys ? "DIFFERENT" : "equal", (int)wrong);
    return wrong || keys ? -EUCLEAN : 0;
}

int main(int argc, char **argv)
{
    static const struct ps_part_wish wish[] = {
        {.name = "plain", .flags = PS_PART_ITEMS},
        {.name = "packed", .allocator = "apart",
         .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED},
        {.name = "places", .allocator = "arena", .flags = PS_PART_ITEMS | PS_PART_APART},
        {.name = "index"}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3 || ps_item_type_add(&packed)) return 2;
    file = ps_file_open("cut", PS_CREATE | PS_WRITE, wish, 4);
    if (!file || ps_transaction(open_all, NULL)) {
        fprintf(stderr, "item-layer-cut: %s\n", ps_strerror(errno));
        return 2;
    }
    half[0] = ps_file_part(file, "plain");
    half[1] = ps_file_part(file, "packed");
    return steps_run(argv, step, check, NULL);
}
