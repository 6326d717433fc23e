/*
 * link_copy.c - the two copies of a store, and the witness, as programs of this site (spare.md).
 *
 * A copy is known by its port, whose name only a program with that right can have given, and whose
 * receiver the kernel attests; the witness by the handle that it was started with.
 */
#include "link_private.h"

#include <errno.h>
#include <string.h>

#include "user/store/copy_protocol.h"

/* The process that has the port; 0: there is none. */
static int copy_pid(void)
{
    long port = kd_call3(KD_NAME_FIND, (long)COPY_PORT, 0, 0);
    long pid = port < 0 ? 0 : kd_call3(KD_PORT_OWNER, port, 0, 0);
    if (port >= 0)
        kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return pid > 0 ? (int)pid : 0;
}

bool copy_of_pair(void) { return copy_pid() != 0; }

bool copy_may(const struct kd_message *m)
{
    return m->badge_rights ? m->badge == LINK_BADGE_WITNESS : (int)m->process == copy_pid();
}

/* Others hear of it in a HELLO; what they had of this site ends with the session. */
static void home_is(const char *as, uint32_t zone, uint64_t term, const char *why)
{
    struct hello *h = &link_all.self.hello;
    if (h->as[0])
        memmove(h->stores, h->stores + 1, --h->store_count * sizeof(h->stores[0]));
    h->as[0] = 0;
    if (term) {
        if (h->store_count == LINK_STORES_MAX)
            h->store_count--;
        memmove(h->stores + 1, h->stores, h->store_count++ * sizeof(h->stores[0]));
        h->stores[0] = (struct link_store){.name = "store", .zone = zone, .term = term};
        strcpy(h->as, as);
    }
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
        peer_anew(&s->peer, why, now_ns());
}

int copy_home(const struct kd_message *m, const char *name)
{
    size_t bytes = m->buffer_bytes;
    if (m->badge_rights || (int)m->process != copy_pid())
        return -EPERM;
    if (bytes == 0 || bytes > LINK_SITE_BYTES || name[bytes - 1] || !site_name_good(name) ||
        (m->word[0] && m->word[1] > UINT8_MAX))
        return -EINVAL;
    link_all.home_pid = m->word[0] ? (int)m->process : 0;
    say("its store is %s in the place of %s, term %llu", m->word[0] ? "home" : "home no more", name,
        (unsigned long long)m->word[0]);
    home_is(name, (uint32_t)m->word[1], m->word[0], "its store is home here now");
    return 0;
}

/* It has one handle, of link, and no right of the system. */
static void witness_start(void)
{
    static uint64_t due;
    int badge;
    if (!link_all.witness[0] || link_all.witness_pid > 0 || now_ns() < due)
        return;
    due = now_ns() + 1000000000;
    badge = (int)kd_call3(KD_BADGE_CREATE, link_all.port, LINK_BADGE_WITNESS,
                          KD_RIGHT_CALL | KD_RIGHT_GRANT);
    link_all.witness_pid = program_start("/bin/witness", link_all.witness, 0, badge);
    if (link_all.witness_pid < 0)
        say("cannot start /bin/witness: %s", strerror(-link_all.witness_pid));
}

void copy_look(void)
{
    witness_start();
    if (link_all.home_pid && copy_pid() != link_all.home_pid) {
        link_all.home_pid = 0;
        home_is("", 0, 0, "its store has ended");
    }
}
