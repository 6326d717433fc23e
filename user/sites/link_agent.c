/*
 * link_agent.c - the programs that have to do with other sites: an agent for each session in which
 * one is asked for, and `remote`.
 *
 * Invariants
 *   SI5  The agent of a session ends before the next one's begins; and not before what its site
 *        granted stands no more: two leases after our last frame, or when the other site has
 *        begun a new session, which it does only when it uses nothing any more. If it dies before
 *        that, its rights stand all the same (KD_HOLDER) until its badge is ended then.
 *   SI6  While the client of a session that ended has its handle, or one that it has started, no
 *        HELLO is said to that site.
 */
#include "link_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { AT_ONCE = 4, WAIT_MS = 10, DOUBLED = 10 };
#define LIVED_NS 10000000000ull         /* a remote that lived so long did not fail */
#define END_NS 100000000ull             /* an agent that is told to end has so long */
#define LOOK_NS 50000000ull             /* so often: has a client ended that is no child of ours? */

/* A program, with a handle of link's at LINK_HANDLE, and of the system if it gets rights there. Its
 * pid or -errno. */
int program_start(const char *path, const char *argument, uint32_t rights, int handle)
{
    static const char *const envp[] = {"PATH=/bin", "HOME=/tmp", NULL};
    const char *const argv[] = {path, argument, NULL};
    struct kd_process_create c = {.path = path, .argv = argv, .envp = envp, .fds = {-1, -1, -1},
                                  .handle_count = 2,
                                  .handles = {rights ? KD_SYSTEM_HANDLE : handle, handle},
                                  .handle_rights = {rights ? rights : KD_RIGHT_CALL,
                                                    KD_RIGHT_CALL}};
    if (handle < 0)
        return handle;
    long made = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (made >= 0)
        kd_call3(KD_HANDLE_CLOSE, made, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return made < 0 ? (int)made : c.pid;
}

void remote_start(void)
{
    if (!link_all.remote[0])
        return;
    link_all.remote_began = now_ns();
    link_all.remote_due = 0;
    int badge = (int)kd_call3(KD_BADGE_CREATE, link_all.port, LINK_BADGE,
                              KD_RIGHT_CALL | KD_RIGHT_GRANT);
    link_all.remote_pid = program_start(link_all.remote, NULL, KD_RIGHT_NAMES, badge);
    if (link_all.remote_pid < 0)
        say("cannot start %s: %s", link_all.remote, strerror(-link_all.remote_pid));
}

/* remote_again starts it when it is time: at once, but one that ends again and again waits, 10 s in
 * the end. */
static void remote_again(void)
{
    unsigned n = ++link_all.remote_ends;
    if (now_ns() - link_all.remote_began > LIVED_NS)
        n = link_all.remote_ends = 0;
    uint64_t ms = n <= AT_ONCE ? 0 : n < AT_ONCE + DOUBLED ? WAIT_MS << (n - AT_ONCE) : 10000;
    link_all.remote_pid = 0;
    link_all.remote_due = now_ns() + ms * 1000000;
    say("remote ended: starting it again%s", ms >= 1000 ? " in a while" : "");
    if (!ms)
        remote_start();
}

void agent_needed(struct site *s)
{
    struct client *c = &s->agent;
    if (s->peer.state != LINK_LIVE || c->running || !peer_first(&s->peer, FRAME_HOME)) /* SI5 */
        return;
    c->over = false;
    c->end_by = c->batches = 0;
    int pid = program_start(link_all.agent, s->peer.hello.site, 0, client_badge(c));
    c->running = pid > 0;
    c->pid = pid;
    if (pid > 0)
        return;
    say("cannot start %s: %s", link_all.agent, strerror(-pid));
    client_gone(s, c, "there is no agent for it");
}

/* agent_end tells an agent to end, and kills it if it does not. */
static void agent_end(struct site *s)
{
    struct client *c = &s->agent;
    if (c->end_by && now_ns() < c->end_by)
        return;
    if (c->end_by)
        kd_call3(KD_PROCESS_KILL, c->pid, SIGKILL, 0);
    kd_call3(KD_BADGE_END, link_all.port, (long)c->badge, 0);
    serve_end(c, -EIDRM);
    c->end_by = now_ns() + END_NS;
}

/* ---- what happens to the session */

static uint64_t nonce(void)
{
    uint64_t n = 0;
    while (n == 0)
        if (getrandom(&n, sizeof(n), 0) != sizeof(n))
            n = now_ns() * 0x9e3779b97f4a7c15u;
    return n;
}

static bool same_zone(const struct hello *a, const struct hello *b, uint32_t *zone)
{
    for (uint32_t i = 0; i < a->store_count; i++)
        for (uint32_t k = 0; k < b->store_count; k++)
            if (zones_of(a->stores[i].zone) & zones_of(b->stores[k].zone)) {
                *zone = a->stores[i].zone;
                return true;
            }
    return false;
}

/* Two copies of one store: the home of the later term is the home, and the other one no more. Of
 * the two sites that have the copies neither judges the other: the witness does. */
static bool newer_home(struct site *s, const struct hello *there, const struct hello *h)
{
    if (!(there->flags & h->flags & HELLO_PAIR))
        return false;
    if (there == &link_all.self.hello)
        return true;
    if (h->stores[0].term <= there->stores[0].term)
        return false;
    peer_end(&s->peer, "another site is the home of its store now", now_ns());
    return true;
}

static void zones_hear(const struct peer *p, const struct hello *h)
{
    const struct hello *heard[LINK_SITES_MAX] = {h};
    unsigned count = 1;
    for (unsigned i = 0; i < link_all.count; i++) {
        const struct peer *other = &link_all.sites[i].peer;
        if (other != p && other->hello.site[0]) heard[count++] = &other->hello;
    }
    link_all.claims_anew |= zone_heard(&link_all.self, heard, count);
}

/* Does it say to be home in the place of a site that has a store, and no other copy of that? */
static bool stands_beside(const struct hello *h, const struct hello *of)
{
    return strcmp(h->as, of->site) == 0 && of->store_count && !(of->flags & HELLO_PAIR);
}

static const char *accept(struct peer *p, const struct hello *h)
{
    static char why[LINK_WHY_BYTES];
    uint64_t beside = 0;
    _Static_assert(LINK_SITES_MAX <= 64, "a bit for each");
    for (unsigned i = 0; i <= link_all.count; i++) {
        const struct peer *other = i < link_all.count ? &link_all.sites[i].peer : NULL;
        const struct hello *there = other ? &other->hello : &link_all.self.hello;
        uint32_t zone;
        if (other && (other == p || other->state != LINK_LIVE))
            continue;
        if (strcmp(there->site, h->site) == 0) {
            snprintf(why, sizeof(why), "%s is the name of another site here", h->site);
            return why;
        }
        if (stands_beside(h, there)) {
            snprintf(why, sizeof(why), "%s has no other copy, and %s is not home in its place",
                     there->site, h->site);
            return why;
        }
        if (other && stands_beside(there, h)) { /* the other one was there first: */
            beside |= 1ull << i;                /* what it claims is no reason against this one */
            continue;
        }
        if (same_zone(there, h, &zone) && !newer_home(link_all.sites + i, there, h)) {
            snprintf(why, sizeof(why), "zone %u of %s's store is that of %s's: a new store gets "
                     "another by scripts/run --zone N", zone, h->site, there->site);
            return why;
        }
    }
    for (unsigned i = 0; i < link_all.count; i++)
        if (beside >> i & 1)
            peer_end(&link_all.sites[i].peer, "the site in whose place it says to be home is here",
                     now_ns());
    zones_hear(p, h);
    return NULL;
}

static void left_end(struct site *s)
{
    if (s->left)
        kd_call3(KD_BADGE_END, link_all.port, (long)s->left, 0);
    s->left = 0;
}

static void on_live(struct peer *p)
{
    struct site *s = (struct site *)p;
    say("site %s: LIVE by %s", p->hello.site, s->stream);
    left_end(s);
    if (s->agent.running)
        agent_end(s); /* of the session before */
}

static void on_end(struct peer *p)
{
    struct site *s = (struct site *)p;
    say("site %s: LOST: %s", p->hello.site, p->why);
    if (s->remote.badge) {
        s->remote.over = p->hold = true; /* SI6 */
        serve_end(&s->remote, -ECONNRESET);
    }
    if (s->agent.running)
        s->agent.over = true;
    if (s->copy.badge) {
        s->copy.over = true;
        serve_end(&s->copy, -ECONNRESET);
    }
}

static bool wanted(struct peer *p, unsigned to)
{
    struct site *s = (struct site *)p;
    const struct client *c = client_of(s, to);
    return to == FRAME_HOME ? link_all.agent[0] : c->badge && !c->over;
}

static void arrived(struct peer *p, unsigned to)
{
    if (to == FRAME_HOME)
        agent_needed((struct site *)p);
}

static void answer(uint64_t token, int error)
{
    struct kd_message m = {.status = error, .handle = -1};
    kd_call3(KD_PORT_REPLY, (long)token, (long)&m, 0);
}

const struct peer_ops site_ops = {nonce, accept, on_live, on_end, wanted, arrived, answer};

/* ---- ends */

void client_gone(struct site *s, struct client *c, const char *why)
{
    bool over = c->over;
    kd_call3(KD_BADGE_END, link_all.port, (long)c->badge, 0);
    serve_end(c, -ECONNRESET);
    if (c == &s->remote) {
        *c = (struct client){0};
        peer_release(&s->peer);
    } else if (c == &s->copy) {
        *c = (struct client){0};
    }
    if (!over)
        peer_end(&s->peer, why, now_ns());
}

static void child_ended(int pid)
{
    if (pid == link_all.witness_pid)
        link_all.witness_pid = 0;
    if (pid == link_all.remote_pid) {
        for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
            if (s->remote.badge && s->remote.pid == pid)
                peer_end(&s->peer, "remote ended here", now_ns()); /* its managers end now: SI6 */
        remote_again();
        return;
    }
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        if (!s->agent.running || s->agent.pid != pid)
            continue;
        bool over = s->agent.over;
        left_end(s);
        s->left = s->agent.badge;
        s->agent = (struct client){0};
        if (!over)
            peer_end(&s->peer, "its agent ended here", now_ns());
        else if (s->peer.state == LINK_LIVE)
            left_end(s); /* the site has begun anew */
        agent_needed(s);
        return;
    }
}

void programs_look(void)
{
    int status;
    if (link_all.remote_due && now_ns() >= link_all.remote_due)
        remote_start();
    copy_look();
    for (long pid; (pid = kd_call3(KD_PROCESS_WAIT, -1, (long)&status, KD_WAIT_NOHANG)) > 0;)
        child_ended((int)pid);
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        if (s->agent.running && s->agent.over &&
            (s->agent.end_by || now_ns() >= s->peer.dying_until))
            agent_end(s);
        if (s->left && now_ns() >= s->peer.dying_until)
            left_end(s);
        if (s->remote.badge &&
            kd_call3(KD_BADGE_USED, link_all.port, (long)s->remote.badge, 0) == 0)
            client_gone(s, &s->remote, "its client ended here");
        if (s->copy.badge && kd_call3(KD_BADGE_USED, link_all.port, (long)s->copy.badge, 0) == 0)
            client_gone(s, &s->copy, "its copy of a store ended here");
    }
}

uint64_t programs_deadline(void)
{
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
        if (s->remote.badge || s->agent.running || s->left || s->copy.badge)
            return now_ns() + LOOK_NS;
    return link_all.remote_pid > 0 ? now_ns() + 4 * LOOK_NS
           : link_all.remote_due   ? link_all.remote_due : TIME_NEVER;
}
