/*
 * kept.c - a container's own manager and the store that started it (ps_manager).
 *
 * The program finds in its environment for which container it runs and where that lies. It makes
 * its objects there, and hands them and its port to the store (STORE_SERVE), which attaches
 * clients.
 * The last of these calls is answered when the program is to end; if the store dies it fails, and
 * the program ends, too: the store's successor starts another.
 */
#include "manager_private.h"
#include "pstore_private.h"
#include "store_protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"

static struct {
    char store[STORE_NAME_BYTES], name[STORE_NAME_BYTES];
    unsigned long long id, key, base, pages, segments;
    struct km_object *object;           /* of the first segment */
    unsigned served;                    /* segments that have one */
    int flags, port;                    /* port: of the store; served 0: not there yet */
} kept;

/* kept_read reads "store ID KEY BASE PAGES SEGMENTS NAME"; the name may have spaces. */
static int kept_read(void)
{
    const char *text = getenv(STORE_KEPT_BY);
    int end = 0;
    if (kept.key) return 0;
    if (!text || sscanf(text, "%63s %llu %llu %llu %llu %llu %n", kept.store, &kept.id,
                        &kept.key, &kept.base, &kept.pages, &kept.segments, &end) != 6 || !end)
        return -ENOTCONN;
    snprintf(kept.name, sizeof(kept.name), "%s", text + end);
    return 0;
}

const char *km_container_name(void) { return kept_read() == 0 ? kept.name : NULL; }
uint64_t km_container_pages(void) { return kept_read() == 0 ? kept.pages : 0; }

unsigned km_container_segments(void) { return kept_read() == 0 ? (unsigned)kept.segments : 0; }

/* kept_say sends STORE_SERVE, with a handle or -1; place[0]: word3, then address and pages. */
static long kept_say(uint64_t what, int handle, uint32_t rights, uint64_t place[2])
{
    struct kd_message m = {.kind = STORE_SERVE, .handle = handle, .handle_rights = rights,
                           .word = {kept.id, kept.key, what, place[0]}};
    long r = kd_call3(KD_PORT_CALL, kept.port, (long)&m, 0);
    memcpy(place, m.word, 2 * sizeof(*place));
    return r < 0 ? r : m.status;
}

int km_container(int flags, const struct km_ops *ops, void *user, struct km_object **out)
{
    int r = kept_read();
    if (r == 0 && kept.object) r = -EALREADY;
    if (r == 0 && (kept.port = (int)store_by_name(kept.store)) < 0) r = kept.port;
    if (r == 0)
        r = object_create(kept.name, kept.base, kept.pages, flags, ops, user, &kept.object);
    kept.flags = flags;
    kept.served = 1;
    if (r == 0) *out = kept.object;
    return r;
}

int km_container_more(const struct km_ops *ops, void *user, struct km_object **out)
{
    uint64_t place[2] = {kept.served}, number[2] = {kept.served};
    if (!kept.object) return -ENOTCONN;
    long r = kept_say(WIRE_SERVE_PLACE, -1, 0, place);
    if (r == 0)
        r = object_create(kept.name, place[0], place[1], kept.flags, ops, user, out);
    if (r < 0) return (int)r;
    r = kept_say(WIRE_SERVE_MORE, (*out)->handle, KD_RIGHT_MANAGE, number);
    if (r < 0)
        (void)km_end(*out, 0);
    else
        kept.served++;
    return (int)r;
}

static void *kept_wait(void *unused)
{
    uint64_t rights[2] = {KD_RIGHT_READ | (kept.flags & KM_WRITE ? KD_RIGHT_WRITE : 0)};
    (void)unused;
    long r = kept_say(WIRE_SERVE_FIRST, kept.object->handle, KD_RIGHT_MANAGE, rights);
    if (r == 0 && kept.object->ops->end)
        kept.object->ops->end(kept.object);
    else if (r < 0 && r != -EOWNERDEAD)
        fprintf(stderr, "the store does not take this manager: %s\n", strerror((int)-r));
    exit(r != 0);
}

int kept_begin(void)
{
    pthread_t thread;
    if (!kept.object) return 0;
    long r = kept_say(WIRE_SERVE_PORT, manager.calls, KD_RIGHT_CALL, (uint64_t[2]){0});
    if (r < 0) return (int)r;
    int e = pthread_create(&thread, NULL, kept_wait, NULL);
    if (!e) pthread_detach(thread);
    return -e;
}

/* kept_lets: what lies beside a container that nobody may write is written by all who read that. */
int kept_lets(const struct km_object *o, uint64_t process, int flags)
{
    if (!kept.object) return 0;
    int own = strcmp(o->name, kept.name) == 0;
    long has = kd_call3(KD_SPACE_RIGHTS, (long)process, kept.object->handle, 0);
    long wanted = flags & KM_WRITE && (own || kept.flags & KM_WRITE) ? KD_RIGHT_WRITE : 0;
    return has <= 0 || wanted & ~has ? -EACCES : own;
}
