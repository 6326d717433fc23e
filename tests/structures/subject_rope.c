/* subject_rope.c - the rope, beside one array of characters. */
#include <structures/rope.h>

#include "subject.h"

enum { BYTES = 60000 };
PS_ROPE_OF(draft, 256);
static struct kept {
    struct draft_head head;
    uint32_t length;
    char text[BYTES];
} *kept;
static struct draft draft = {.name = "draft"};

static void place(void *at, struct ps_memory memory)
{
    kept = at;
    draft.head = &kept->head;
    draft.memory = memory;
}
static int set_up(void) { return draft_set_up(&draft); }
static int tear_down(void) { return draft_tear_down(&draft); }

static int insert(struct draft_text *a)
{
    char text[2000];
    uint32_t length = draw(20) ? draw(30) : draw(sizeof text);
    uint32_t at = draw(4) ? draw(kept->length + 1) : kept->length;
    for (uint32_t i = 0; i < length; i++)
        text[i] = draw(25) ? (char)('a' + draw(26)) : '\n';
    if (length > BYTES - kept->length)
        return 0;
    int error = draft_insert(a, at, text, length);
    if (error)
        return error;
    memmove(kept->text + at + length, kept->text + at, kept->length - at);
    memcpy(kept->text + at, text, length);
    kept->length += length;
    return 0;
}

static void cut(struct draft_text *a)
{
    uint32_t at = draw(kept->length + 1), length = draw(20) ? draw(60) : draw(3000);
    if (draw(400) == 0)
        at = 0, length = kept->length;
    int fits = length <= kept->length - at;
    SAME(draft_remove(a, at, length) == (fits ? 0 : -EINVAL));
    if (!fits)
        return;
    memmove(kept->text + at, kept->text + at + length, kept->length - at - length);
    kept->length -= length;
}

/* From the model's text: where a line begins. */
static int64_t line_at(uint32_t line)
{
    const char *at = kept->text, *end = at + kept->length;
    while (line-- > 0) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at++)
            return -ENOENT;
    }
    return at - kept->text;
}

/* Part of the text, in pieces. */
static void read(uint32_t from, uint32_t end)
{
    PS_ACCESS(draft_range, r, &draft, from, end, PS_LOOK);
    const struct ps_piece *piece;
    end = end < kept->length ? end : kept->length;
    while ((piece = draft_next(&r))) {
        SAME(piece->length > 0 && piece->length <= end - from);
        SAME(memcmp(piece->at, kept->text + from, piece->length) == 0);
        from += (uint32_t)piece->length;
    }
    SAME(errno == 0 && from >= end);
}

static int operation(int growing)
{
    PS_ACCESS(draft_text, a, &draft, PS_CHANGE);
    SAME(draft_length(&a) == kept->length);
    uint32_t what = draw(100), line = draw(kept->length / 20 + 2);
    if (what < (growing ? 70u : 30u))
        return insert(&a);
    if (what < 80)
        cut(&a);
    else if (what < 90)
        SAME(draft_line(&a, line) == line_at(line));
    else
        read(draw(kept->length + 1), draw(kept->length + 100));
    return 0;
}

static void compare(void)
{
    PS_ACCESS(draft_text, a, &draft, PS_LOOK);
    struct ps_rope_stats stats;
    SAME(ps_rope_check(&a.access, &stats, NULL) == 0);
    SAME(stats.bytes == kept->length && draft_line(&a, stats.lines) >= 0);
    SAME(draft_line(&a, stats.lines + 1) == -ENOENT);
    SAME(draft_line(&a, stats.lines) == line_at((uint32_t)stats.lines));
    SAME(draft_insert(&a, 0, "x", 1) == -EACCES);
    read(0, BYTES);
}

const struct subject subject_rope = {"rope", sizeof(struct kept), place,   set_up,
                                     tear_down, operation,        compare,
                                     offsetof(struct kept, length)};
