/*
 * kept.c - a container's own manager and the store that started it (ps_manager).
 *
 * The program finds in its environment for which container it runs and where that lies. It makes
 * its object there, and hands that and its port to the store (STORE_SERVE), which attaches clients.
 * The last of these calls is answered when the program is to end; if the store dies it fails, and
 * the program ends, too: the store's successor starts another.
 */
#include "manager_private.h"
#include "store_protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"

static struct {
    char store[STORE_NAME_BYTES], name[STORE_NAME_BYTES];
    unsigned long long id, key, base, pages;
    struct km_object *object;
    int flags, port;                    /* port: of the store */
} kept;

/* "store ID KEY BASE PAGES NAME"; the name may have spaces. */
static int kept_read(void)
{
    const char *text = getenv(STORE_KEPT_BY);
    int end = 0;
    if (kept.key) return 0;
    if (!text || sscanf(text, "%63s %llu %llu %llu %llu %n", kept.store, &kept.id, &kept.key,
                        &kept.base, &kept.pages, &end) != 5 || !end)
        return -ENOTCONN;
    snprintf(kept.name, sizeof(kept.name), "%s", text + end);
    return 0;
}

const char *km_container_name(void) { return kept_read() == 0 ? kept.name : NULL; }
uint64_t km_container_pages(void) { return kept_read() == 0 ? kept.pages : 0; }

int km_container(int flags, const struct km_ops *ops, void *user, struct km_object **out)
{
    int r = kept_read();
    if (r == 0 && kept.object) r = -EALREADY;
    if (r == 0)
        r = object_create(kept.name, kept.base, kept.pages, flags, ops, user, &kept.object);
    kept.flags = flags;
    if (r == 0) *out = kept.object;
    return r;
}

static long kept_say(uint64_t what, int handle, uint32_t rights)
{
    struct kd_message m = {.kind = STORE_SERVE, .handle = handle, .handle_rights = rights,
                           .word = {kept.id, kept.key, what, KD_RIGHT_READ}};
    if (kept.flags & KM_WRITE) m.word[3] |= KD_RIGHT_WRITE;
    long r = kd_call3(KD_PORT_CALL, kept.port, (long)&m, 0);
    return r < 0 ? r : m.status;
}

static void *kept_wait(void *unused)
{
    (void)unused;
    long r = kept_say(1, kept.object->handle, KD_RIGHT_MANAGE);
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
    kept.port = (int)kd_call3(KD_NAME_FIND, (long)kept.store, 0, 0);
    if (kept.port < 0) return kept.port;
    long r = kept_say(0, manager.calls, KD_RIGHT_CALL);
    if (r < 0) return (int)r;
    int e = pthread_create(&thread, NULL, kept_wait, NULL);
    if (!e) pthread_detach(thread);
    return -e;
}
