/*
 * versions.c - limits of old versions, those that snapshots keep of containers below a directory.
 *
 * The kernel keeps old versions and counts them by object; here they are added up by directory.
 * When a group has been published and there are more than a limit says, those of the container that
 * has most are taken away, page by page, until there are not: a snapshot that needs one ends with
 * -ESTALE, as one that is too old does. No commit is refused: who may read could stop who writes.
 * Containers with managers of their own count, too, by the objects that these handed over.
 *
 * Lock held everywhere. A store without such limits pays one look at those that it has.
 */
#include "group.h"
#include "path.h"

enum { PAGES_AT_ONCE = 4096, CALLS_MOST = 16 };  /* of one group */

static bool is_below(uint64_t container, uint64_t directory)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    unsigned count = directory_up(paths, container, up);
    while (count > 0 && up[count - 1] != directory) count--;
    return count > 0;
}

static uint64_t versions_of(int object)
{
    long n = kd_object_advise(object, 0, 0, KD_ADVISE_FORGET);
    return n > 0 ? (uint64_t)n : 0;
}

/* count_all counts all below the directory; *most, *segment: who has the most of them. */
static uint64_t count_all(uint64_t directory, struct container **most, unsigned *segment)
{
    uint64_t all = 0, best = 0, pages;
    int object;
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            for (unsigned i = 0; (object = container_object_of(c, i, &pages)) >= 0 &&
                                 is_below(c->id, directory); i++) {
                uint64_t n = versions_of(object);
                all += n;
                if (n <= best) continue;
                best = n;
                *most = c;
                *segment = i;
            }
    return all;
}

uint64_t versions_held(uint64_t directory)
{
    struct container *c;
    unsigned segment;
    return count_all(directory, &c, &segment);
}

/* forget_some forgets the next pages, in circles: what one group leaves goes with the next. */
static void forget_some(struct container *c, unsigned segment)
{
    uint64_t pages = 0;
    int object = container_object_of(c, segment, &pages);
    if (object < 0) return;
    if (c->forgotten >= pages) c->forgotten = 0;
    uint64_t count = pages - c->forgotten < PAGES_AT_ONCE ? pages - c->forgotten : PAGES_AT_ONCE;
    (void)kd_object_advise(object, c->forgotten, count, KD_ADVISE_FORGET);
    c->forgotten += count;
}

/* versions_keep: one limit at each group, in turn: a store of a thousand commits as one of one. */
void versions_keep(void)
{
    static uint32_t cursor;
    uint32_t calls = 0;
    uint64_t directory;
    if (!directory_limit_next(paths, LIMIT_VERSIONS, &cursor, &directory)) return;
    uint64_t most = directory_limit_get(paths, directory, LIMIT_VERSIONS);
    struct container *c = NULL;
    unsigned segment = 0;
    while (calls < CALLS_MOST && count_all(directory, &c, &segment) > most) {
        forget_some(c, segment);
        calls++;
    }
}
