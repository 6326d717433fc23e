/*
 * history.c - the lines that were typed, in this session and in those before it.
 *
 * They live in the container `history`: a ring of entries, one transaction for each line, done
 * before the line is run. So what was typed before a power cut is there after it. Without a store,
 * or while it does not answer, the lines of this session are kept in memory alone.
 *
 * Memory holds a copy of the ring; entry 0 is the oldest.
 */
#include "sh.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pstore.h"

#define HISTORY_MAX 256
#define ENTRY_BYTES 256            /* a line with its closing zero; longer ones are not stored */
#define STORE_WAIT_MS 2000

struct history_root {
    uint64_t added;                /* lines ever; the newest is at (added - 1) % HISTORY_MAX */
    uint64_t reserved[31];
    char lines[HISTORY_MAX][ENTRY_BYTES];
};

static char *lines[HISTORY_MAX];
static int line_count;
static ps_container *container;    /* NULL: not kept */
static const struct ps_options waits = {.timeout_ms = STORE_WAIT_MS};

static bool remember(const char *text)
{
    if (!*text || (line_count > 0 && strcmp(lines[line_count - 1], text) == 0))
        return false;
    if (line_count == HISTORY_MAX) {
        free(lines[0]);
        memmove(lines, lines + 1, (HISTORY_MAX - 1) * sizeof(lines[0]));
        line_count--;
    }
    lines[line_count] = strdup(text);
    line_count += lines[line_count] != NULL;
    return true;
}

/* The copy is made by a transaction, so it may run twice: it must begin with an empty one. */
static int load(void *unused)
{
    const struct history_root *root = ps_root(container);
    (void)unused;
    if (!root)
        return -errno;
    while (line_count > 0)
        free(lines[--line_count]);
    uint64_t first = root->added > HISTORY_MAX ? root->added - HISTORY_MAX : 0;
    for (uint64_t i = first; i < root->added; i++) {
        char text[ENTRY_BYTES];
        memcpy(text, root->lines[i % HISTORY_MAX], ENTRY_BYTES);
        text[ENTRY_BYTES - 1] = 0;
        remember(text);
    }
    return 0;
}

void history_open(void)
{
    container = ps_open("history", PS_CREATE | PS_WRITE, PS_LAYOUT(struct history_root, 1));
    if (container && ps_transaction_opt(load, NULL, &waits) != 0) {
        ps_close(container);
        container = NULL;
    }
}

static int append(void *text)
{
    struct history_root *root = ps_root(container);
    if (!root)
        return -errno;
    char *line = root->lines[root->added % HISTORY_MAX];
    strcpy(line, text);
    root->added++;
    return 0;
}

void history_add(char *text)
{
    if (remember(text) && container && strlen(text) < ENTRY_BYTES)
        /* a line that could not be kept is no reason to stop */
        ps_transaction_opt(append, text, &waits);
}

int history_count(void)
{
    return line_count;
}

const char *history_line(int entry)
{
    return lines[entry];
}
