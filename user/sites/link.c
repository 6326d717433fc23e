/*
 * link.c - the connections with other sites: frames, sessions, leases.
 *
 *     link [again] < OPTIONS   started by init in a machine that is a site (user/sites/sites.md)
 *
 * One thread waits at one port, for streams, clients and the clock. `again`: another link has ended
 * in this machine; until its last lease is over nothing is said. Options are lines:
 *     site=NAME            this site's name
 *     streams=N            connections to other sites that the machine has, site.1 to site.N
 *     lease=MS             L: a session that is silent for so long has ended (250)
 *     away=MS              so long a store that is made waits for sites that are not there (1500)
 *     agent=PROGRAM        started for sites that use what is at home here (/bin/agent)
 *     remote=PROGRAM       started once, for programs here that use what is elsewhere (/bin/remote)
 *     witness=A,B          this site has the record which of A and B is home (witness.c)
 *     key=TEXT             what the other sites must have, too
 *     open=all             any program may open a session: for tests
 */
#include "link_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "store_protocol.h"

#define LEASE_MS 250
#define LINK_NICE (-15)                 /* who waits behind programs is silent to other sites */
#define ZONE_MS 30000
#define AWAY_MS 1500
enum { LINE_BYTES = 256, STREAM_TRIES = 500, TRY_MS = 10 };
struct link link_all = {.agent = "/bin/agent", .remote = "/bin/remote"};
static unsigned streams;
static uint64_t away_ms = AWAY_MS;

static uint64_t now;                    /* 0: it is to be looked at */

uint64_t now_ns(void) { return now ? now : clock_look(); }

uint64_t clock_look(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void say(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    kd_call3(KD_KERNEL_LOG, (long)line, n < LINE_BYTES ? n : LINE_BYTES - 1, 0);
}

/* ---- options */

static bool number_of(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return !errno && *text && !*end && *number >= least && *number <= most;
}

static bool option(const char *name, const char *value)
{
    struct hello *h = &link_all.self.hello;
    uint64_t number;
    if (strcmp(name, "site") == 0 && site_name_good(value)) {
        strcpy(h->site, value);
    } else if (strcmp(name, "streams") == 0 && number_of(value, 0, LINK_SITES_MAX, &number)) {
        streams = (unsigned)number;
    } else if (strcmp(name, "lease") == 0 && number_of(value, 1, 60000, &number)) {
        h->lease_ns = number * 1000000;
    } else if (strcmp(name, "away") == 0 && number_of(value, 0, 600000, &number)) {
        away_ms = number;
    } else if (strcmp(name, "agent") == 0 && strlen(value) < sizeof(link_all.agent)) {
        strcpy(link_all.agent, value);
    } else if (strcmp(name, "remote") == 0 && strlen(value) < sizeof(link_all.remote)) {
        strcpy(link_all.remote, value);
    } else if (strcmp(name, "witness") == 0 && strlen(value) < sizeof(link_all.witness)) {
        strcpy(link_all.witness, value);
    } else if (strcmp(name, "open") == 0 && strcmp(value, "all") == 0) {
        link_all.open_to_all = true;
    } else if (strcmp(name, "key") == 0 && *value) {
        key_make(link_all.self.key, value);
        link_all.self.has_key = true;
    } else {
        return false;
    }
    return true;
}

static bool options_read(void)
{
    char line[LINE_BYTES];
    link_all.self.hello.lease_ns = LEASE_MS * 1000000ull;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, '=');
        if (value)
            *value++ = 0;
        if (!value || !option(line, value)) {
            say("the option %s is not understood", line);
            return false;
        }
    }
    return link_all.self.hello.site[0];
}

/* ---- what this site is */

static void store_add(const char *name)
{
    struct hello *h = &link_all.self.hello;
    struct kd_message m = {.kind = STORE_HELLO, .word = {STORE_PROTOCOL_VERSION}, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    if (port < 0)
        return;
    if (kd_call3(KD_PORT_CALL, port, (long)&m, 0) == 0 && m.status == 0) {
        struct link_store *s = &h->stores[h->store_count++];
        snprintf(s->name, sizeof(s->name), "%s", name);
        s->zone = (uint32_t)m.word[2];
        s->term = 1;
    }
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void self_make(void)
{
    static const char *const stores[LINK_STORES_MAX] = {"store", "store2", "store3", "store4"};
    struct hello *h = &link_all.self.hello;
    struct timespec t;
    for (unsigned i = copy_of_pair(); i < LINK_STORES_MAX; i++) /* a copy says when it is home */
        store_add(stores[i]);
    clock_gettime(CLOCK_REALTIME, &t);
    if (getrandom(&h->boot, sizeof(h->boot), 0) != sizeof(h->boot))
        h->boot = 0;
    h->boot ^= (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (access(link_all.agent, X_OK))
        link_all.agent[0] = 0;
    if (access(link_all.remote, X_OK))
        link_all.remote[0] = 0;
    h->flags = (link_all.agent[0] ? HELLO_HAS_AGENT : 0) | (copy_of_pair() ? HELLO_PAIR : 0);
    h->protocol = LINK_PROTOCOL;
}

/* The device says after the boot which streams there are. */
static bool streams_open(void)
{
    struct kd_message m;
    for (unsigned tries = 0; link_all.count < streams; tries++) {
        while (link_all.count < streams &&
               stream_open(&link_all.sites[link_all.count], link_all.count))
            link_all.count++;
        if (link_all.count == streams)
            break;
        if (tries == STREAM_TRIES)
            return false;
        m = (struct kd_message){.handle = -1};
        kd_call3(KD_PORT_RECEIVE, link_all.port, (long)&m, TRY_MS);
    }
    for (unsigned i = 0; i < link_all.count; i++) /* a notice may have been one of these */
        link_all.sites[i].readable = link_all.sites[i].writable = true;
    return true;
}

/* ---- the loop */

static void notice(const struct kd_message *m)
{
    uint64_t bits = m->kind == (uint32_t)KD_MSG_NOTIFY ? m->word[0] : 0;
    for (unsigned i = 0; i < link_all.count; i++)
        if (bits >> i & 1)
            link_all.sites[i].readable = link_all.sites[i].writable = true;
    if (bits & KD_NOTIFY_CUT)
        programs_look();
}

/* A refusal is told once. */
static void refusal_tell(struct site *s)
{
    const struct peer *p = &s->peer;
    char *told = s->told[strncmp(p->why, LINK_THEY_SAY, strlen(LINK_THEY_SAY)) == 0];
    if (p->state == LINK_LIVE)
        s->told[0][0] = s->told[1][0] = 0;
    if (p->state != LINK_REFUSED || strcmp(told, p->why) == 0)
        return;
    memcpy(told, p->why, sizeof(p->why));
    say("site %s: refused: %s", p->hello.site[0] ? p->hello.site : s->stream, p->why);
}

static bool work(void)
{
    bool more = false;
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        more |= stream_work(s);
        serve_late(s);
        refusal_tell(s);
    }
    serve_opens();
    return more;
}

/* How long to wait for a message, in milliseconds; -1: for ever. */
static long wait_ms(void)
{
    uint64_t due = programs_deadline();
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++) {
        uint64_t d = peer_deadline(&s->peer);
        due = d < due ? d : due;
    }
    uint64_t at = now_ns();
    return due == TIME_NEVER ? -1 : due <= at ? 1 : (long)((due - at + 999999) / 1000000);
}

static uint64_t ticks(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* Who keeps a call acts for its caller until he receives, in his time and with his priority: so
 * then link receives first, and does its own work behind that. */
static void loop(void)
{
    struct waiting *incoming = NULL;
    bool kept = false;
    for (uint64_t looked = 0;;) {
        bool more = kept || work();
        if (!kept && now_ns() - looked > 50000000) {
            looked = now_ns();
            programs_look();
        }
        if (!incoming && !(incoming = waiting_new(KD_DATA_MAX)))
            return;
        struct kd_message m = {.buffer = incoming->frame, .buffer_bytes = KD_DATA_MAX,
                               .handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, link_all.port, (long)&m, more ? 0 : wait_ms());
        uint64_t began = ticks();
        now = 0;
        kept = r == 0 && m.token && serve(&m, &incoming);
        if (r == 0 && m.token)
            link_all.served += ticks() - began;
        else if (r == 0)
            notice(&m);
    }
}

/* Whoever has heard an older claim hears the new one. */
static void claim_say(void)
{
    say("claims zone %u for its store", link_all.self.hello.claim);
    for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
        peer_anew(&s->peer, "it claims another zone", now_ns());
    link_all.claims_anew = false;
}

/* Before the site has a store: agrees with the others which zone it gets, and ends with its number
 * (link_zone.c). */
static int zone_agree(void)
{
    struct hello *own = &link_all.self.hello;
    uint64_t began = now_ns();
    own->flags = HELLO_CLAIMS;
    own->claim = zone_choose(own->site, 0);
    link_all.agent[0] = link_all.remote[0] = 0;
    for (bool settled = false; !settled;) {
        bool more = work();
        if (link_all.claims_anew)
            claim_say();
        if (now_ns() - began > (ZONE_MS + away_ms) * 1000000ull) {
            say("all zones are taken: this site gets no store");
            return 1;
        }
        struct kd_message m = {.handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, link_all.port, (long)&m, more ? 0 : 20);
        clock_look();
        if (r == 0 && m.token)
            kd_call3(KD_PORT_REPLY, (long)m.token, (long)&(struct kd_message){
                .status = -EAGAIN, .handle = -1}, 0);
        else if (r == 0)
            notice(&m);
        settled = !link_all.claims_anew;
        for (struct site *s = link_all.sites; s < link_all.sites + link_all.count; s++)
            settled &= zone_settled(&s->peer, own, (now_ns() - began) / 1000000, away_ms);
    }
    say("its store gets zone %u", own->claim);
    return (int)own->claim;
}

int main(int argc, char **argv)
{
    bool zone = argc == 2 && strcmp(argv[1], "zone") == 0;
    bool again = argc == 2 && strcmp(argv[1], "again") == 0;
    if (argc > 1 && !again && !zone) {
        fputs("link: init starts it, in a machine of `scripts/run --site NAME`; `sites` shows what "
              "it does\n", stderr);
        return 2;
    }
    setpriority(PRIO_PROCESS, 0, LINK_NICE);
    clock_look();
    link_all.port = (int)kd_call3(KD_PORT_CREATE, KD_PORT_TELLS, 0, 0);
    if (!options_read())
        return 2;
    self_make();
    if (zone)
        return streams_open() ? zone_agree() : 2;
    if (kd_call3(KD_NAME_SET, (long)LINK_NAME, link_all.port, 0) < 0) {
        say("its name is taken, or it may not have one");
        return 2;
    }
    if (!streams_open()) {
        say("the machine has no stream site.%u", link_all.count + 1);
        return 2;
    }
    for (unsigned i = 0; i < link_all.count && again; i++)
        peer_later(&link_all.sites[i].peer, clock_look() + link_all.self.hello.lease_ns);
    say("site %s: %u streams, lease %llu ms", link_all.self.hello.site, streams,
        (unsigned long long)link_all.self.hello.lease_ns / 1000000);
    remote_start();
    loop();
    return 1;
}
