/*
 * outline.h - an outline in a container: lines below lines, and what the last keys changed.
 *
 * Whatever a key may depend on lies in the container, also the cursor and a search that is half
 * typed: so there is nothing to save, and nothing to load.
 */
#ifndef USER_OUTLINE_H
#define USER_OUTLINE_H

#include <errno.h>
#include <pstore.h>
#include <stdint.h>

enum { TEXT_MAX = 4000, FIND_MAX = 60, CHANGES = 1000 };

struct line {
    struct line *parent, *previous, *next, *first, *last;   /* parent NULL: it is in no outline */
    char *text;                         /* an object of its own, UTF-8; NULL: empty */
    int folded;
};

/* What a key changed: how the line was before. To undo is to swap that with how it is, and to redo
 * is to swap again. */
enum kind { TEXT, MAKE, MOVE, REMOVE };
struct change {
    enum kind kind;
    struct line *line, *parent, *previous, *cursor;
    char *text;
    uint32_t at;
    uint64_t key;                       /* those of one key are undone together */
};
struct outline {                        /* the container's root object */
    struct line top;                    /* is never shown; what is below it has no indentation */
    struct line *cursor, *typed;        /* typed: the line whose text the last key changed */
    struct line *garbage;               /* lines to be freed, a few with each key */
    uint32_t at;                        /* the byte of its text where the cursor is */
    int row, finding;                   /* its row on the screen; a search is being typed */
    char find[FIND_MAX + 8];
    uint64_t key, oldest, undo, redo;   /* changes that can be undone: [oldest, undo) */
    struct change changes[CHANGES];     /* change N is in N % CHANGES; [undo, redo) were undone */
};

extern ps_container *container;
extern struct outline *o;               /* set by each transaction */
extern struct line *typing;             /* the line that the key before this one typed into */
extern int overlong;                    /* a line was full; volatile */
extern int refused;                     /* the key does nothing here; volatile, for the bell */

/* All results are 0 or -errno. */
int key_do(int key, const char *text, int rows);    /* text: its character; rows: of the screen */

/* The next line and the one before as they are shown; NULL: there is none. */
struct line *line_after(const struct line *line, int also_folded);
struct line *line_before(const struct line *line);
const char *text_of(const struct line *line);           /* never NULL */
uint32_t length_of(const struct line *line);
uint32_t char_bytes(const char *text, uint32_t at, int before); /* of the one there, or before */

/* Each keeps how it was, to be undone. */
int move(enum kind kind, struct line *line, struct line *parent, struct line *previous);
int make(struct line *parent, struct line *previous, struct line **made);
int splice(struct line *line, uint32_t at, uint32_t cut, const char *add);
void undo(void);
void redo(void);
void collect(void);                     /* frees a few lines that nothing leads to */

#endif
