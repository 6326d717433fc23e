/*
 * copy_recast.c - a spare makes another layout of a container (recast.h), a few pages at a tick, and
 * puts it in when it becomes home. All with the lock held.
 */
#include <string.h>

#include "copy.h"
#include "copy_protocol.h"

enum { STEP_PAGES = 16 };

static struct recast *recast;           /* NULL: none */
static const struct store *made_at;     /* the spare's, which a home goes on with */
static struct copy_recast last;         /* as it was told last */

_Static_assert(sizeof(last.name) == STORE_NAME_BYTES, "a name fits");

static void drop(int error)
{
    if (error) {
        say("%s gets no other layout: %s", last.name, strerror(-error));
        last.error = error;
    }
    recast_end(recast);
    recast = NULL;
    made_at = NULL;
}

static void look(void)
{
    struct recast_state s;
    recast_tell(recast, &s);
    memcpy(last.name, s.name, sizeof(last.name));
    last.pages = s.pages;
    last.converted = s.converted;
    last.wrong = s.wrong;
    last.wrong_page = s.wrong_page;
    last.wrong_type = s.wrong_type;
    last.error = s.wrong_error;
    last.all = s.all;
}

/* The second name lies behind the first one's zero. */
static const char *second_of(const char *names, size_t bytes)
{
    const char *zero = bytes && !names[bytes - 1] ? memchr(names, 0, bytes - 1) : NULL;
    return zero ? zero + 1 : NULL;
}

int copy_recast_begin(struct store_spare *spare, const char *names, size_t bytes,
                      char refused[RECAST_TYPE_BYTES])
{
    const char *like = second_of(names, bytes);
    if (!spare) return -EAGAIN;
    drop(0);
    memset(&last, 0, sizeof(last));
    if (!like) return 0;
    int r = recast_begin(store_spare_pages(spare), &disk_memory, names, like, &recast, refused);
    if (r) return r;
    made_at = store_spare_pages(spare);
    look();
    return 0;
}

void copy_recast_step(struct store_spare *spare)
{
    if (!recast) return;
    bool same = spare && store_spare_pages(spare) == made_at;
    int r = same ? recast_step(recast, STEP_PAGES) : -ESTALE;
    if (r >= 0)
        look();
    else
        drop(r);
}

void copy_recast_commit(struct store *store)
{
    if (!recast) return;
    uint64_t began = disk_clock.microseconds(NULL);
    int r = store == made_at ? recast_commit(recast) : -ESTALE;
    look();
    last.took_us = disk_clock.microseconds(NULL) - began;
    last.done = r == 0;
    if (!r)
        say("%s has another layout: %llu pages, %llu ms", last.name,
            (unsigned long long)last.pages, (unsigned long long)last.took_us / 1000);
    drop(r);
}

void copy_recast_tell(struct copy_recast *out) { *out = last; }
