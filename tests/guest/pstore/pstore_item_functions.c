/*
 * pstore_item_functions.c - functions of an item's type: derived data, refused commits, packing.
 *
 * Aim     DA-33: at the first access, at the first to write, before the commit and behind an abort,
 *         once each; what they change is part of the commit, and one of them can refuse it. DA-43:
 *         items are packed in memory by functions of their type, behind their headers, and read as
 *         they were; what does not pack is kept plain. They may encrypt, and mend pointers.
 * Method  every function appends its letter to a line of text, which is compared; a sum of bills is
 *         kept by them; a text of long runs, which becomes one without; a text whose bytes in
 *         memory are others; a pointer to a line of the program, kept as that line's number.
 */
#include <errno.h>
#include <item_layer.h>

#include "pstore_test.h"

static const struct ps_part_wish wish[] = {
    {.name = "plain", .flags = PS_PART_ITEMS},
    {.name = "calls", .allocator = "apart",
     .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED}};
static ps_part *calls, *plain;
static ps_item_id id, other;
static void *before;

static int grow_one(void *unused)
{
    (void)unused;
    return ps_item_resize(id, 5000);
}
struct seen { size_t bytes; long sevens, zeros; void *data; };
static int look(void *out)
{
    struct seen *s = out;
    const char *data = s->data = ps_begin_access(id, PS_S);
    if (!data) return -errno;
    s->bytes = ps_item_bytes(id);
    s->sevens = s->zeros = 0;
    for (size_t i = 0; i < s->bytes; i++) {
        s->sevens += data[i] == 7;
        s->zeros += data[i] == 0;
    }
    return ps_end_access(id, PS_S);
}
static int delete_one(void *unused)
{
    (void)unused;
    return ps_item_delete(id);
}

/* ---- DA-33 ---- */

static char said[64];
static ps_item_id sum_id;
static int refuses;
struct bill { int64_t cents; };
static void say(const char *letter) { strncat(said, letter, sizeof said - 1 - strlen(said)); }
static int bill_first(ps_item_id i, const void *data, size_t bytes)
{
    (void)i, (void)data, (void)bytes;
    say("f");
    return 0;
}
/* A sum that is derived: the old value out, the new one in. */
static int sum_add(int64_t cents)
{
    int64_t *sum = ps_begin_access(sum_id, PS_X);
    if (!sum) return -errno;
    *sum += cents;
    return 0;
}
static int bill_update(ps_item_id i, const void *data, size_t bytes)
{
    (void)i, (void)bytes;
    say("u");
    return data ? sum_add(-((const struct bill *)data)->cents) : 0;
}
static int bill_commit(ps_item_id i, const void *data, size_t bytes)
{
    (void)i, (void)bytes;
    say("c");
    if (refuses) return -EDOM;
    return data ? sum_add(((const struct bill *)data)->cents) : 0;
}
static void bill_abort(ps_item_id i)
{
    say(i && !ps_active() ? "a" : "?");
}
static const struct ps_item_type bill_type = {.name = "struct bill", .first = bill_first,
                                              .update = bill_update, .commit = bill_commit,
                                              .abort = bill_abort};
static int bills(void *unused)
{
    int64_t *sum;
    (void)unused;
    id = ps_item_make(plain, "struct bill", sizeof(struct bill));
    other = ps_item_make(plain, "struct bill", sizeof(struct bill));
    if (!id || !other || !(sum_id = ps_item_make(plain, "int64_t", sizeof *sum))) return -errno;
    if (!(sum = ps_begin_access(sum_id, PS_X))) return -errno;
    *sum = 0;
    return 0;
}
struct charge { int64_t cents; int result; };
static int charge(void *arg)
{
    const struct charge *c = arg;
    for (int i = 0; i < 2; i++) {
        struct bill *b = ps_begin_access(i ? other : id, PS_S);
        if (!b || !(b = ps_begin_access(i ? other : id, PS_X))) return -errno;
        b->cents += c->cents;
        ps_begin_access(id, PS_X);
    }
    return c->result;
}
static int read_sum(void *out) { return (int)ps_item_get(sum_id, out, 8) == 8 ? 0 : -EIO; }
static int bill_gone(void *unused)
{
    (void)unused;
    return ps_item_delete(other);
}
static int said_was(const char *wanted, const char *what)
{
    int same = strcmp(said, wanted) == 0;
    if (!same) printf("# said %s, wanted %s\n", said, wanted);
    said[0] = '\0';
    return tap_ok(same, "%s", what);
}

static void test_functions(void)
{
    int64_t sum = 0;
    struct charge c = {20, 0};
    is(ps_item_type_add(&bill_type), 0, "a type with functions");
    is(ps_item_type_add(&bill_type), -EEXIST, "once");
    is(ps_transaction(bills, NULL), 0, "two bills, and a sum of them");
    said_was("uucc", "DA-33: made is updated, and committed");
    is(ps_transaction(charge, &c), 0, "both are charged");
    said_was("fufucc", "DA-33: first access, update, and before the commit, once each");
    is(ps_transaction(read_sum, &sum), 0, "the sum");
    is(sum, 40, "DA-33: derived data are of the same commit");
    c = (struct charge){7, -ECANCELED};
    is(ps_transaction(charge, &c), -ECANCELED, "one that is given up");
    said_was("fufuaa", "DA-33: calls those for an abort, behind it");
    c = (struct charge){7, 0};
    refuses = 1;
    is(ps_transaction(charge, &c), -EDOM, "DA-33: a function refuses the commit");
    said_was("fufucaa", "which is undone");
    refuses = 0;
    is(ps_transaction(read_sum, &sum), 0, "the sum");
    is(sum, 40, "is what it was");
    is(ps_begin(NULL) ?: charge(&c) ?: ps_commit(), 0, "an explicit transaction");
    said_was("fufucc", "DA-33: does the same");
    said[0] = '\0';
    is(ps_transaction(bill_gone, NULL), 0, "one is deleted");
    said_was("fuc", "DA-33: that is an update, too");
    is(ps_transaction(read_sum, &sum), 0, "the sum");
    is(sum, 27, "is the other one");
}

/* ---- DA-43: runs of one byte become two ---- */

static int unpacked;
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
    return n < bytes ? n : 0;
}
static int unpack(const void *from, size_t stored, void *to, size_t bytes)
{
    const unsigned char *in = from;
    unsigned char *out = to;
    size_t n = 0;
    unpacked++;
    for (size_t i = 0; i + 2 <= stored; i += 2)
        for (int run = in[i]; run > 0 && n < bytes; run--) out[n++] = in[i + 1];
    return n == bytes ? 0 : -EILSEQ;
}
static const struct ps_item_type text_type = {.name = "text", .pack = pack, .unpack = unpack};

static int make_text(void *part)
{
    id = ps_item_make(part, "text", 3000);
    char *text = id ? ps_begin_access(id, PS_X) : NULL;
    if (!text) return -errno;
    memset(text, 7, 1000);
    return ps_end_access(id, PS_X);
}
static int header(void *out)
{
    *(struct ps_item *)out = *ps_item_header(id);
    return 0;
}
static int mix_text(void *unused)
{
    unsigned char *text = ps_begin_access(id, PS_X);
    (void)unused;
    if (!text) return -errno;
    for (int i = 0; i < 3000; i++) text[i] = (unsigned char)(i * 7 + i / 3);
    return 0;
}
static int is_mixed(void *out)
{
    const unsigned char *text = ps_begin_access(id, PS_S);
    if (!text) return -errno;
    *(int *)out = 0;
    for (int i = 0; i < 3000; i++) *(int *)out += text[i] == (unsigned char)(i * 7 + i / 3);
    return 0;
}

/* More than one piece of volatile memory, again and again. */
static int large(void *out)
{
    *(struct seen *)out = (struct seen){0};
    ps_item_id a = ps_item_make(calls, "text", 200000), b = ps_item_make(plain, "text", 150000);
    char *at[2] = {a ? ps_begin_access(a, PS_X) : NULL, b ? ps_begin_access(b, PS_X) : NULL};
    if (!at[0] || !at[1]) return -errno;
    memset(at[0], 7, 200000);
    memset(at[1], 7, 150000);
    id = a;
    return ps_end_access(b, PS_X) ?: ps_item_delete(b);
}

static void test_packed(void)
{
    struct ps_item item;
    struct seen s;
    int same;
    is(ps_item_type_add(&text_type), 0, "a type that packs");
    is(ps_transaction(make_text, calls) ?: ps_transaction(header, &item), 0, "an item of it");
    tap_ok(item.bytes == 3000 && item.form == 1 && item.stored == 24 && item.room == 32,
           "DA-43: 3,000 bytes are 24 in memory");
    unpacked = 0;
    is(ps_transaction(look, &s), 0, "it is read");
    tap_ok(s.bytes == 3000 && s.sevens == 1000 && s.zeros == 2000 && unpacked == 1 &&
               !ps_container_of(s.data),
           "DA-43: as it was, in a volatile copy");
    before = item.data;
    is(ps_transaction(mix_text, NULL) ?: ps_transaction(header, &item), 0, "it is changed");
    tap_ok(item.data != before && item.form == 0 && item.stored == 3000,
           "DA-43: what does not pack is kept plain, elsewhere");
    is(ps_transaction(is_mixed, &same), 0, "it is read");
    is(same, 3000, "DA-43: and is all there");
    is(ps_transaction(grow_one, NULL) ?: ps_transaction(look, &s), 0, "it grows");
    is((long)s.bytes, 5000, "DA-43: by its copy");
    is(ps_transaction(delete_one, NULL), 0, "it is deleted");
    for (int i = 0; i < 3; i++) {
        is(ps_transaction(large, &s) ?: ps_transaction(look, &s), 0, "large ones");
        tap_ok(s.bytes == 200000 && s.sevens == 200000, "DA-43: are there");
    }
}

/* ---- DA-33: decrypted, and pointers mended, before the program sees them ---- */

static size_t encrypt(const void *from, size_t bytes, void *to, size_t room)
{
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = (char)(((const char *)from)[i] ^ (int)(0x5a + 7 * i));
    return bytes <= room ? bytes : 0;
}
static int decrypt(const void *from, size_t stored, void *to, size_t bytes)
{
    return encrypt(from, stored, to, bytes) == bytes ? 0 : -EILSEQ;
}
static const struct ps_item_type secret_type = {.name = "secret", .pack = encrypt,
                                                .unpack = decrypt};

/* Lines lie elsewhere in each run of a program, so what is kept is a line's number. */
static const char *lines_here[2], *const *lines = lines_here;
struct call { const char *line; };
static size_t number_of(const void *from, size_t bytes, void *to, size_t room)
{
    const struct call *c = from;
    unsigned char n = c->line == lines[1];
    memcpy(to, &n, room && bytes == sizeof *c ? 1 : 0);
    return 1;
}
static int line_of(const void *from, size_t stored, void *to, size_t bytes)
{
    struct call c = {stored == 1 ? lines[*(const unsigned char *)from] : NULL};
    memcpy(to, &c, bytes);
    return c.line ? 0 : -EILSEQ;
}
static const struct ps_item_type call_type = {.name = "call", .pack = number_of,
                                              .unpack = line_of};

static const char words[] = "nobody else reads this";
static int make_both(void *unused)
{
    (void)unused;
    id = ps_item_make(calls, "secret", sizeof words);
    other = ps_item_make(calls, "call", sizeof(struct call));
    char *text = id ? ps_begin_access(id, PS_X) : NULL;
    struct call *c = other ? ps_begin_access(other, PS_X) : NULL;
    if (!text || !c) return -errno;
    memcpy(text, words, sizeof words);
    c->line = lines[1];
    return 0;
}
struct kept { int same, line; };
static int kept(void *out)
{
    struct kept *k = out;
    const struct ps_item *i = ps_item_header(id);
    k->same = 0;
    for (size_t n = 0; n < i->stored; n++) k->same += ((const char *)i->data)[n] == words[n];
    k->line = ps_item_header(other)->stored == 1 ? *(char *)ps_item_header(other)->data : -1;
    return 0;
}
static int look_both(void *unused)
{
    const char *text = ps_begin_access(id, PS_S);
    const struct call *c = ps_begin_access(other, PS_S);
    (void)unused;
    if (!text || !c) return -errno;
    return strcmp(text, words) == 0 && c->line == lines[1] ? 0 : -EILSEQ;
}

static void test_mended(void)
{
    static const char *lines_later[] = {"a", "b"};
    struct kept k = {0};
    lines_here[0] = "one";
    lines_here[1] = "two";
    is(ps_item_type_add(&secret_type) ?: ps_item_type_add(&call_type), 0, "types that mend");
    is(ps_transaction(make_both, NULL) ?: ps_transaction(kept, &k), 0, "an item of each");
    is(k.same, 0, "DA-33: one is encrypted in memory, all of it");
    is(k.line, 1, "the other one's pointer is a number there");
    is(ps_transaction(look_both, NULL), 0, "DA-33: who reads sees neither");
    lines = lines_later;                  /* as in the next run */
    is(ps_transaction(look_both, NULL), 0, "DA-33: the pointer leads to where its line is now");
}

int main(void)
{
    tap_plan(45);
    ps_file *file = ps_file_open("functions", PS_CREATE | PS_WRITE, wish, 2);
    calls = file ? ps_file_part(file, "calls") : NULL;
    plain = file ? ps_file_part(file, "plain") : NULL;
    tap_ok(calls && plain, "a file");
    test_functions();
    test_packed();
    test_mended();
    return tap_end();
}
