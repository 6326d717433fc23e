/*
 * copy_recast.c - a spare makes another layout of a container (recast.h), a few pages at a tick,
 * and puts it in when it becomes home. All with the lock held.
 */
#include <string.h>

#include "copy.h"
#include "copy_protocol.h"

enum { STEP_PAGES = 16 };

static struct recast *recast;           /* NULL: none */
static const struct store *made_at;     /* the spare's, which a home goes on with */
static struct copy_recast noted;         /* as of the last note */

_Static_assert(sizeof(noted.name) == STORE_NAME_BYTES, "a name fits");

static void drop(int error)
{
    if (error) {
        say("%s gets no other layout: %s", noted.name, strerror(-error));
        noted.error = error;
    }
    recast_end(recast);
    recast = NULL;
    made_at = NULL;
}

static void note(void)
{
    struct recast_state s;
    recast_tell(recast, &s);
    memcpy(noted.name, s.name, sizeof(noted.name));
    noted.pages = s.pages;
    noted.converted = s.converted;
    noted.wrong = s.wrong;
    noted.wrong_page = s.wrong_page;
    noted.wrong_type = s.wrong_type;
    noted.error = s.wrong_error;
    noted.all = s.all;
}

/* second_of returns the second name, which lies behind the first one's zero. */
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
    if (bytes && !like) return -EINVAL;
    drop(0);
    memset(&noted, 0, sizeof(noted));
    if (!like) return 0;
    int r = recast_begin(store_spare_pages(spare), &disk_memory, names, like, &recast, refused);
    if (r) return r;
    made_at = store_spare_pages(spare);
    note();
    return 0;
}

void copy_recast_step(struct store_spare *spare)
{
    if (!recast) return;
    bool same = spare && store_spare_pages(spare) == made_at;
    int r = same ? recast_step(recast, STEP_PAGES) : -ESTALE;
    if (r >= 0)
        note();
    else
        drop(r);
}

void copy_recast_commit(struct store *store)
{
    if (!recast) return;
    uint64_t began = disk_clock.microseconds(NULL);
    int r = store == made_at ? recast_commit(recast) : -ESTALE;
    note();
    noted.took_us = disk_clock.microseconds(NULL) - began;
    noted.done = r == 0;
    if (!r)
        say("%s has another layout: %llu pages, %llu ms", noted.name,
            (unsigned long long)noted.pages, (unsigned long long)noted.took_us / 1000);
    drop(r);
}

void copy_recast_tell(struct copy_recast *out) { *out = noted; }
