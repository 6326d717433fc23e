/*
 * copy_link.c - a copy of a store speaks with the other one and with the witness, through link.
 *
 * A session with each is opened again and again, as link has one. A thread for each receives. What
 * is sent is queued, and one thread at a time brings it to link, in this order: whoever has sealed
 * a group does so at once, without a lock, if it is small; else the sender.
 */
#include <stdlib.h>
#include <time.h>

#include "copy.h"
#include "copy_protocol.h"
#include "user/sites/link.h"
#include "user/sites/role_wire.h"

#define QUEUE_MOST (4u << 20)           /* bytes, to one of them */
#define SMALL      512u                 /* a message but for its group */
#define ROOM_LEAST 2048u                /* of a letter: for a commit or two */
#define AT_ONCE    (64u << 10)          /* link takes a frame as small without making us wait */
enum { TRY_MS = 10 };
_Static_assert(COPY_GROUP_MOST == ROLE_GROUP_MOST, "a group goes into a frame");

struct letter { struct letter *next; int to; size_t bytes, room; uint8_t frame[]; };

static pthread_mutex_t post = PTHREAD_MUTEX_INITIALIZER;    /* of all that follows */
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static struct letter *first, **last = &first;
static struct letter *spare;            /* of the least room; NULL: there is none */
static bool sending;                    /* somebody brings letters to link */
static bool corked;                     /* who queues them will, by copy_sends; the server's lock */
static struct channel {
    const char *site;
    int session;                        /* handle; -1: none */
    size_t waits;                       /* bytes in the queue */
    bool flooded;                       /* CY1: it is to end */
} channels[COPY_SITES] = {{.session = -1}, {.session = -1}};

static void moment(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TRY_MS * 1000000}, NULL);
}

/* ---- out ---- */

static struct letter *letter_new(size_t room)
{
    struct letter *l = room <= ROOM_LEAST ? spare : NULL;
    room = room > ROOM_LEAST ? room : ROOM_LEAST;
    if (l)
        spare = NULL;
    else if ((l = malloc(sizeof(*l) + room)))
        l->room = room;
    return l;
}

static void letter_free(struct letter *l)
{
    if (!spare && l->room == ROOM_LEAST)
        spare = l;
    else
        free(l);
}

void copy_send(void *unused, int to, const struct role_message *m)
{
    (void)unused;
    struct channel *c = &channels[to];
    size_t room = SMALL + m->used;
    pthread_mutex_lock(&post);
    bool takes = c->session >= 0 && !c->flooded;
    c->flooded |= takes && c->waits + room > QUEUE_MOST;
    struct letter *l = takes && !c->flooded ? letter_new(room) : NULL;
    if (l) {
        l->next = NULL;
        l->to = to;
        l->bytes = role_put(m, l->frame, room);
        c->waits += l->bytes;
        *last = l;
        last = &l->next;
    } else {
        c->flooded |= takes;            /* what follows would have a gap before it */
    }
    if (!corked || c->flooded) pthread_cond_signal(&posted);
    pthread_mutex_unlock(&post);
}

void copy_cork(bool on) { corked = on; }

static struct letter *letter_take(void)
{
    struct letter *l = first;
    first = l->next;
    if (!first) last = &first;
    channels[l->to].waits -= l->bytes;
    return l;
}

/* letters_drop drops the letters of a session that has ended. With `post` held. */
static void letters_drop(int to)
{
    struct letter **at = &first;
    for (struct letter *l; (l = *at);) {
        if (l->to != to) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        letter_free(l);
    }
    last = at;
    channels[to].waits = 0;
    channels[to].flooded = false;
}

/* send_first sends the first letter. With `post` held, dropped for link. */
static void send_first(void)
{
    struct letter *l = letter_take();
    int session = channels[l->to].session;
    pthread_mutex_unlock(&post);
    if (session >= 0 && l->bytes) (void)link_send(session, l->frame, l->bytes);
    pthread_mutex_lock(&post);
    letter_free(l);
}

void copy_sends(void)
{
    pthread_mutex_lock(&post);
    bool mine = !sending;
    sending = true;
    while (mine && first && first->bytes <= AT_ONCE) send_first();
    if (mine) sending = false;
    if (mine && first) pthread_cond_signal(&posted);
    pthread_mutex_unlock(&post);
}

static void *sender_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&post);
    for (;;) {
        for (struct channel *c = channels; c < channels + COPY_SITES; c++) {
            int session = c->flooded ? c->session : -1;
            if (session < 0) continue;
            c->session = -1;
            c->flooded = false;
            pthread_mutex_unlock(&post);
            struct kd_message m = {.kind = LINK_CLOSE, .handle = -1};
            (void)KD2(KD_PORT_CALL, session, &m);   /* the hearer hears that, and opens another */
            pthread_mutex_lock(&post);
        }
        if (first && !sending) {
            sending = true;
            send_first();
            sending = false;
        } else {
            pthread_cond_wait(&posted, &post);
        }
    }
    return NULL;
}

/* ---- what link tells the other sites ---- */

static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;  /* of what follows */
static struct {
    const char *as;                     /* in whose place this is home; NULL: it is not yet */
    uint32_t zone;
    uint64_t term;
    long knows;                         /* the process of the link that was told; 0 */
} home;

/* home_tell tells link of this home, and again when link was started anew. 0 or -errno. */
static int home_tell(int link)
{
    long pid = KD1(KD_PORT_OWNER, link), r = pid < 0 ? pid : 0;
    pthread_mutex_lock(&naming);
    if (home.as && pid > 0 && home.knows != pid) {
        struct kd_message m = {.kind = LINK_HOME, .word = {home.term, home.zone}, .data = home.as,
                               .data_bytes = strlen(home.as) + 1, .handle = -1};
        r = KD2(KD_PORT_CALL, link, &m);
        r = r < 0 ? r : m.status;
        home.knows = r == 0 ? pid : 0;
    }
    pthread_mutex_unlock(&naming);
    return (int)r;
}

/* ---- in ---- */

/* link_find returns the handle of link; waits until there is one. */
static int link_find(void)
{
    long link;
    while ((link = KD1(KD_NAME_FIND, LINK_NAME)) < 0) moment();
    return (int)link;
}

static int session_open(const char *site)
{
    struct link_session s;
    int link = link_find();
    (void)home_tell(link);
    int session = link_copy(link, site, &s);
    KD1(KD_HANDLE_CLOSE, link);
    return session;
}

static void session_is(struct channel *c, int session)
{
    pthread_mutex_lock(&post);
    c->session = session;
    if (session < 0) letters_drop((int)(c - channels));
    pthread_mutex_unlock(&post);
    copy_reached((int)(c - channels), session >= 0);
}

static void *hearer_main(void *channel)
{
    struct channel *c = channel;
    struct link_inbox inbox = {.memory = malloc(FRAME_BYTES_MAX)};
    struct role_message m;
    struct frame f;
    const uint8_t *at;
    uint8_t *group = malloc(ROLE_GROUP_MOST);
    if (!inbox.memory || !group) exit(1);
    for (;;) {
        int session = session_open(c->site);
        if (session < 0) {
            moment();
            continue;
        }
        inbox.at = inbox.bytes = 0;
        session_is(c, session);
        while (link_receive(session, &inbox, &f, &at) == 0)
            if (role_get(&m, &f, at, group)) copy_heard((int)(c - channels), &m);
        session_is(c, -1);
        link_close(session);
    }
}

bool copy_link_start(const char *const sites[COPY_SITES])
{
    bool ok = thread_make(sender_main);
    for (int i = 0; ok && i < COPY_SITES; i++) {
        channels[i].site = sites[i];
        ok = thread_make_with(hearer_main, &channels[i]);
    }
    return ok;
}

int copy_link_home(const char *as, uint32_t zone, uint64_t term)
{
    pthread_mutex_lock(&naming);
    home.as = as;
    home.zone = zone;
    home.term = term;
    pthread_mutex_unlock(&naming);
    int link = link_find(), r = home_tell(link);
    KD1(KD_HANDLE_CLOSE, link);
    return r;
}
