/*
 * rope.h - a rope: a long text in which pieces are inserted and removed anywhere.
 *
 *   PS_ROPE(draft)
 *
 * makes `struct draft_head` (for a root object), `struct draft` (an instance) and the access
 * objects draft_text and draft_range. Positions count bytes from 0: the program itself keeps away
 * from the middle of a UTF-8 character, where a piece may end, too. A line ends behind '\n'.
 *
 * What locks what. Text lies in the leaves of a tree whose branches know the bytes and the lines
 * below each child. A look-up reads the head and a node of each level. A change writes a leaf and
 * all branches above it, so two who change one rope wait for each other: a text that several write
 * is an array of ropes, or a tree of them.
 */
#ifndef PS_ROPE_H
#define PS_ROPE_H

#include "structure.h"

/* The head: kept, 128 bytes. Zeros until it is set up. */
struct ps_rope {
    struct ps_head head;
    struct ps_rope_node *root;
    uint64_t reserved[9];
};
struct ps_rope_access { struct ps_access base; };
struct ps_piece { const char *at; size_t length; };
struct ps_rope_range {
    struct ps_rope_access access;
    uint64_t at, end;
    struct ps_piece piece;
};
struct ps_rope_stats { uint64_t bytes, lines, leaves, branches; uint32_t height, fill; };

int ps_rope_set_up(const struct ps_instance *i, const struct ps_type *type);
int ps_rope_tear_down(const struct ps_instance *i, const struct ps_type *type);
int64_t ps_rope_length(const struct ps_rope_access *a);
int64_t ps_rope_line(const struct ps_rope_access *a, uint64_t line);
int ps_rope_insert(struct ps_rope_access *a, uint64_t at, const char *text, size_t length);
int ps_rope_remove(struct ps_rope_access *a, uint64_t at, uint64_t length);
const struct ps_piece *ps_rope_next(struct ps_rope_range *r);
/* Walks all nodes: 0, or -EUCLEAN and in *why what is wrong (a constant). */
int ps_rope_check(const struct ps_rope_access *a, struct ps_rope_stats *stats, const char **why);

/*
 * What the line makes, for NAME:
 *   int NAME_set_up(const struct NAME *), int NAME_tear_down(const struct NAME *)
 * PS_ACCESS(NAME_text, a, &instance, PS_LOOK or PS_CHANGE):
 *   int64_t NAME_length(&a)                        bytes, or -errno
 *   int64_t NAME_line(&a, uint64_t line)           where that line begins (0: at 0); -ENOENT
 *   int NAME_insert(&a, uint64_t at, const char *text, size_t length)
 *                                                  -EINVAL: the text is shorter; -ENOSPC, -ENOMEM:
 *                                                  the text is as it was
 *   int NAME_remove(&a, uint64_t at, uint64_t length)
 *                                                  -EINVAL: the text is shorter
 * PS_ACCESS(NAME_range, r, &instance, uint64_t from, uint64_t end, mode): the text in pieces.
 *   const struct ps_piece *NAME_next(&r)           NULL with errno 0 at the end
 */
#define PS_ROPE_OF(NAME, N)                                                                       \
    static const struct ps_type NAME##_type_ = {.structure = "rope",                              \
                                                .name = "text",                                   \
                                                .head_bytes = sizeof(struct ps_rope),             \
                                                .node_bytes = (N)};                               \
    PS_HEAD_(NAME, ps_rope);                                                                      \
    PS_INSTANCE_(NAME);                                                                           \
    PS_LIFE_(NAME, ps_rope);                                                                      \
    PS_CLASS_(NAME, text, ps_rope);                                                               \
    PS_SPAN_(NAME, ps_rope, const struct ps_piece, at);                                           \
    PS_FUNCTION_ int64_t NAME##_length(const struct NAME##_text *a)                               \
    {                                                                                             \
        return ps_rope_length(&a->access);                                                        \
    }                                                                                             \
    PS_FUNCTION_ int64_t NAME##_line(const struct NAME##_text *a, uint64_t line)                  \
    {                                                                                             \
        return ps_rope_line(&a->access, line);                                                    \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_insert(struct NAME##_text *a, uint64_t at, const char *text,          \
                                   size_t length)                                                 \
    {                                                                                             \
        return ps_rope_insert(&a->access, at, text, length);                                      \
    }                                                                                             \
    PS_FUNCTION_ int NAME##_remove(struct NAME##_text *a, uint64_t at, uint64_t length)           \
    {                                                                                             \
        return ps_rope_remove(&a->access, at, length);                                            \
    }                                                                                             \
    _Static_assert(1, "a semicolon behind the line is allowed")
#define PS_ROPE(NAME) PS_ROPE_OF(NAME, PS_NODE_BYTES)

#endif
