/*
 * hostile_agent.c - a site that lies to the agent of its home.
 *
 * Aim     whatever a site says of pages, serials, commits and requests: what it may not have it
 *         does not get, what cannot be ends its session, and the home's own programs go on. A site
 *         that takes no answers is heard all the same. A GET that waits is taken back.
 * Method  liar.h: the test speaks for the site, frame by frame, and is a program of the home's,
 *         too, which holds a page where a GET is to wait. `hostile_agent N`: other mutations.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "liar_home.h"
#include "system.h"
#include "tap.h"

enum { WORDS = 512, PAGES_MANY = 700, GRANTS_MANY = 400, GONES = 3000, MUTATIONS = 40,
       SURE_MS = 60000 };
struct page { uint64_t word[WORDS]; };
struct root { struct page *page[PAGES_MANY]; };
static ps_container *box, *own;
static struct page *secret;

/* ---- the home's own program ---- */

static int make(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    for (int i = 0; root && i < PAGES_MANY; i++)
        if (!(root->page[i] = ps_alloc(box, sizeof(struct page), NULL))) return -errno;
    secret = ps_alloc(own, sizeof *secret, NULL);
    if (secret) secret->word[0] = 42;
    return root && secret ? 0 : -errno;
}
static int export_all(void)
{
    const unsigned writes = PS_MAY_READ | PS_MAY_WRITE;
    int error = ps_directory_create("exports");
    if (!error) error = ps_directory_create("exports/liar");
    if (!error) error = ps_directory_create("room");
    if (!error) error = export_as("box", "exports/liar/box", writes);
    if (!error) error = export_as("room", "exports/liar/room", writes);
    return error ? error : export_as("room", "exports/liar/look", PS_MAY_READ);
}
static int where(void *to)
{
    const struct root *root = ps_root(box);
    for (int i = 0; i < PAGES_MANY; i++) ((uint64_t *)to)[i] = (uint64_t)(uintptr_t)root->page[i];
    return 0;
}
static int up(void *page) { return ++((struct page *)page)->word[0], 0; }
static int looks_secret(void *to) { return *(uint64_t *)to = secret->word[0], 0; }

static _Atomic int holds, lets_go;
static int hold(void *page)
{
    ((struct page *)page)->word[1]++;
    holds = 1;
    while (!lets_go) sched_yield();
    return 0;
}
static void *holder(void *page) { return (void *)(intptr_t)ps_transaction(hold, page); }

/* Until a GET waits in the kernel: a thread of the agent's, for another transaction. */
static void until_waits(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    bool waits = false;
    for (int ms = 0; ms < SURE_MS && !waits; ms++) {
        pause_ms(1);
        for (long i = kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0); i-- > 0;)
            waits |= list[i].pid != getpid() && (list[i].waits[0] | list[i].waits[1]);
    }
}

/* ---- the site ---- */

static uint64_t pages[PAGES_MANY];

/* The home's program gets the page, whatever the site had of it, when that is over or gives it. */
static bool home_goes_on(unsigned i)
{
    next_session();
    return ps_transaction(up, (void *)(uintptr_t)pages[i]) == 0;
}

static uint64_t number_of(const char *path)
{
    char data[WIRE_PATH_BYTES] = {0};
    struct wire_named named = {0};
    struct kd_message m = {.kind = STORE_LOOK, .data = data, .data_bytes = sizeof data,
                           .buffer = &named, .buffer_bytes = sizeof named, .handle = -1};
    strcpy(data, path);
    int store = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
    return named.container;
}

/* The agent has a container of its own open (agent_outcome.c). */
static void lies_of_notes(uint64_t write)
{
    static const uint32_t kinds[] = {STORE_LEASE, STORE_SPACE, STORE_NAMED, STORE_NAMES,
                                     STORE_NEXT, STORE_SEGMENT};
    uint64_t notes = number_of("outcomes/liar");
    char name[STORE_NAME_BYTES] = "mine";
    int refused = 0;
    struct { struct wire_op op; char name[8]; } set = {
        .op = {.kind = WIRE_NAME_SET, .op_bytes = sizeof set, .container = notes}, .name = "mine"};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct site_message m = {.kind = SITE_ASK, .request = kinds[i], .word = {notes, 1}};
        if (kinds[i] == STORE_NAMED) m.data = name, m.bytes = sizeof name;
        if (kinds[i] == STORE_SPACE) m.word[1] = 16;
        refused += asks(m) == EACCES;
    }
    is(notes ? refused : -1, (int)(sizeof kinds / sizeof *kinds),
       "of what the agent alone has open it gets nothing");
    is(commits(pages[1], write, 16, &set, sizeof set), EACCES, "and changes nothing there");
}

static void lies(void)
{
    uint64_t s = (uint64_t)(uintptr_t)secret, batch[8] = {~0ull, 3, 5};
    static const struct wire_op foreign = {.op_bytes = sizeof foreign, .container = 999};
    is(asks(GET(s, SITE_SHARED)), EACCES, "a page of what is not its own is denied");
    is(asks(GET(base + (1ull << 38), SITE_SHARED)), EACCES, "and one of nobody's");
    is(asks((struct site_message){.kind = SITE_ASK, .request = STORE_OPEN}), EINVAL,
       "to open nothing is refused");
    is(asks((struct site_message){.kind = SITE_ASK, .request = 77}), EOPNOTSUPP,
       "what no site may ask is refused");
    is(asks((struct site_message){.kind = SITE_ASK, .request = STORE_DELETE, .word = {opened}}),
       EOPNOTSUPP, "and what only programs here may ask");
    struct wire_opened o;
    static const struct wire_open made = {.flags = PS_CREATE | PS_WRITE};
    struct wire_open named = made;
    strcpy(named.name, "fresh");
    is(opens_as(named, "", &o), ENOENT, "it makes no container beside what was exported");
    is(opens_as(made, "fresh", &o), ENOENT, "by its other form of names neither");
    named = (struct wire_open){.name = "box", .flags = PS_CREATE | PS_EXCLUSIVE | PS_WRITE};
    is(opens_as(named, "", &o), EACCES, "nor one that is to be new, if there is one");
    is(opens_as(made, "look/fresh", &o), EACCES, "nor in a directory that it has to read");
    tap_ok(opens_as(made, "room/fresh", &o) == 0 && o.created &&
               ps_rights("room/fresh", NULL) == PS_MAY_ALL,
           "but in one that it has to write");
    is(ps_rights("exports/liar/fresh", NULL), -ENOENT, "nothing else is there");
    uint64_t read = granted(pages[0], SITE_SHARED), write = granted(pages[1], SITE_EXCLUSIVE);
    tap_ok(read && write, "pages that are its own are granted");
    is(commits(pages[0], read, 0, NULL, 0), EACCES, "a commit of a page to read is refused");
    is(commits(pages[1], write + 1, 0, NULL, 0), EACCES, "with a serial of nobody's");
    is(commits(pages[2], write, 0, NULL, 0), EACCES, "of a page that it has not");
    is(commits(s, write, 0, NULL, 0), EACCES, "of another container's");
    tap_ok(commits(pages[1], write, 16, batch, sizeof batch) > 0, "with a batch that is none");
    tap_ok(commits(pages[1], write, 16, &foreign, sizeof foreign) > 0, "... of another container");
    lies_of_notes(write);
    is(commits(pages[1], write, 16, NULL, 0), 0, "what it may it may still");
    (void)say((struct site_message){.kind = SITE_GONE, .page = pages[1], .serial = write + 9});
    is(commits(pages[1], write, 24, NULL, 0), 0, "GONE of another serial is nothing");
    (void)say((struct site_message){.kind = SITE_CANCEL, .page = pages[1]});
    (void)say((struct site_message){.kind = SITE_PROBED, .page = pages[1], .count = 1,
                                    .waits = {{3, 4}}});
    (void)say((struct site_message){.kind = SITE_GONE, .page = pages[1], .serial = write});
    is(commits(pages[1], write, 24, NULL, 0), EACCES, "what it gave back it has not");
    tap_ok(granted(pages[1], SITE_EXCLUSIVE) > write, "and has by another serial, if it asks");
    is(asks(GET(pages[1], SITE_SHARED)), ENDED, "to ask for less than it has ends the session");
    tap_ok(home_goes_on(1), "and then the home has the page");
}

/* ---- what the home does with what it may ---- */

enum { BOTH = 30, TURNS = 3 };
static int looks_both(void *same)
{
    const struct page *one = (void *)(uintptr_t)pages[BOTH],
                      *two = (void *)(uintptr_t)pages[BOTH + 1];
    return *(bool *)same = one->word[3] == 77 && two->word[3] == 77, 0;
}

static void give(uint64_t page, uint64_t serial)
{
    (void)say((struct site_message){.kind = SITE_GONE, .page = page, .serial = serial});
}

/* Each time a program of the home changes the page while the GET waits for it. */
static bool granted_anew(uint64_t page, uint64_t turn)
{
    pthread_t t;
    struct site_message m;
    holds = lets_go = 0;
    pthread_create(&t, NULL, holder, (void *)(uintptr_t)page);
    while (!holds) sched_yield();
    uint64_t get = say(GET(page, SITE_SHARED)), word = 0;
    until_waits();
    lets_go = 1;
    pthread_join(t, NULL);
    int error = hear_answer(get, &m);
    if (!error && m.data) memcpy(&word, (const uint8_t *)m.data + 8, sizeof word);
    if (!error) give(page, m.serial);
    return word == turn;
}

static void truths(void)
{
    static const uint64_t value = 77;
    bool same = false, new = true;
    struct site_message m;
    anew();
    uint64_t serial[2];
    for (int i = 0; i < 2; i++) serial[i] = granted(pages[BOTH + i], SITE_EXCLUSIVE);
    struct fields_out o = message_commit(out, sizeof out, 0, NULL, 0);
    for (int i = 0; i < 2; i++)
        run_put(&o, &(struct site_run){.page = pages[BOTH + i], .serial = serial[i], .offset = 24,
                                       .bytes = sizeof value, .data = (const void *)&value});
    send_frame(frame_end(&o, SITE_COMMIT, ++number, 0), FRAME_HOME, theirs);
    int error = hear_answer(number, &m);
    for (int i = 0; i < 2; i++) give(pages[BOTH + i], serial[i]);
    if (!error) error = ps_transaction(looks_both, &same);
    tap_ok(!error && same, "a commit of two pages is in both: %d", error);
    for (uint64_t turn = 1; turn <= TURNS; turn++)
        new &= granted_anew(pages[BOTH + 2], turn);
    tap_ok(new, "each GRANT has what was committed last");
    tap_ok(home_goes_on(BOTH + 2), "and the home goes on");
}

static void ends(void)
{
    static const uint8_t kinds[] = {SITE_TOLD, SITE_DENIED, SITE_CALL, SITE_DONE, SITE_PROBE};
    unsigned ended = 0;
    for (unsigned i = 0; i < sizeof kinds; i++) {
        anew();
        (void)say((struct site_message){.kind = kinds[i], .page = pages[0], .error = EIO});
        ended += hear_answer(~0ull, &(struct site_message){0}) == ENDED;
    }
    anew();
    ended += asks(GET(pages[0] + 8, SITE_SHARED)) == ENDED;
    anew();
    ended += asks(GET(pages[0], 3)) == ENDED;
    anew();
    uint64_t serial = granted(pages[3], SITE_EXCLUSIVE);
    ended += commits(pages[3], serial, 4090, NULL, 0) == ENDED;
    is((int)ended, (int)sizeof kinds + 3, "what no client says ends the session, each time");
    tap_ok(home_goes_on(3), "and the home goes on");
}

/* It wants the home to hold, and never says that it may go on. */
static void standstill(void)
{
    struct site_message m;
    anew();
    uint64_t name;
    int error, tries = 0;
    do { /* where the host is busy the store's commits do not stand still at once, and rest then */
        if (tries) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        name = say((struct site_message){.kind = SITE_SNAP, .right = 1});
        error = hear_answer(name, &m);
    } while (error == EAGAIN && ++tries < 50);
    is(error, 0, "the home holds for a snapshot of the site's");
    is(ps_transaction(up, (void *)(uintptr_t)pages[7]), 0, "and goes on, whatever the site does");
    is(asks((struct site_message){.kind = SITE_STILL, .serial = name}), EAGAIN,
       "and says that it has not stood still");
    is(asks((struct site_message){.kind = SITE_STILL, .serial = name + 1000}), ENOENT,
       "of a snapshot that is none it says so");
}

/* A page that a program of the home has: GETs of it wait. */
static void waits(void)
{
    pthread_t t;
    struct site_message m;
    void *page = (void *)(uintptr_t)pages[5];
    anew();
    holds = lets_go = 0;
    pthread_create(&t, NULL, holder, page);
    while (!holds) sched_yield();
    uint64_t get = say(GET(pages[5], SITE_SHARED));
    (void)say((struct site_message){.kind = SITE_CANCEL, .page = pages[5]});
    struct site_message cancel = {.kind = SITE_CANCEL, .page = pages[5], .number = get};
    size_t bytes = message_put(&cancel, out, sizeof out);
    send_frame(bytes, FRAME_HOME, theirs);
    is(hear_answer(get, &m), ECANCELED, "a GET that waits is taken back by its number");
    get = say(GET(pages[5], SITE_SHARED));
    is(asks(GET(pages[5], SITE_SHARED)), ENDED, "two of one page end the session");
    lets_go = 1;
    pthread_join(t, NULL);
    tap_ok(home_goes_on(5), "and the home goes on");
}

/* A COMMIT that waits for what others decide, here for a name that a part has: what the site says
 * meanwhile is heard, or nobody would decide. */
static void commit_waits(void)
{
    struct { struct wire_op op; struct wire_vote vote; struct wire_op set; char name[8]; } part = {
        .op = {.kind = WIRE_VOTE, .op_bytes = sizeof part.op + sizeof part.vote},
        .vote = {.id = {{1, 2, 3}}, .coordinator = {4}},
        .set = {.kind = WIRE_NAME_SET, .op_bytes = sizeof part.set + sizeof part.name,
                .address = pages[6]}, .name = "kept"};
    struct site_message undo = {.kind = SITE_DECIDE};
    memcpy(undo.word, &part.vote.id, sizeof part.vote.id);
    anew();
    part.set.container = opened;
    uint64_t one = granted(pages[6], SITE_EXCLUSIVE), two = granted(pages[7], SITE_EXCLUSIVE);
    is(commits(pages[6], one, 0, &part, sizeof part), 0, "a part with a name is voted for");
    (void)says_commit(pages[7], two, 0, &part.set, part.set.op_bytes);
    usleep(100000); /* it is heard alone, mostly, by who carries it out */
    is(asks(undo), ECANCELED, "a commit waits for it, and its outcome is heard");
    tap_ok(home_goes_on(6), "and the home goes on");
}

/* It closes the container while a GET of it waits: its other requests do not wait for that, and it
 * opens it again behind the close. */
static void closes(void)
{
    pthread_t t;
    struct site_message m;
    struct wire_open open = {.name = "box", .flags = PS_WRITE};
    anew();
    holds = lets_go = 0;
    pthread_create(&t, NULL, holder, (void *)(uintptr_t)pages[5]);
    while (!holds) sched_yield();
    (void)say(GET(pages[5], SITE_SHARED));
    (void)say((struct site_message){.kind = SITE_ASK, .request = STORE_CLOSE, .word = {opened}});
    is(asks((struct site_message){.kind = SITE_ASK, .request = STORE_FLUSH}), 0,
       "a container that is closed while a GET waits holds up no other request");
    uint64_t again = say((struct site_message){.kind = SITE_ASK, .request = STORE_OPEN,
                                               .data = &open, .bytes = sizeof open});
    is(asks((struct site_message){.kind = SITE_ASK, .request = STORE_FLUSH}), 0,
       "nor does one that is opened again");
    lets_go = 1;
    is(hear_answer(again, &m), 0, "which is open when the GET has ended");
    pthread_join(t, NULL);
    tap_ok(granted(pages[5], SITE_SHARED) && home_goes_on(5), "and the home goes on");
}

/* ---- circles: the site keeps the first page, which a program of the home wants, and wants what
 * that has ---- */

enum { FIRST = 20, FREE = 40, MOST = 8, PROBES = 3000 };   /* a probe: each 20 ms */
static _Atomic int circle_has, circle_goes, circle_runs, circle_pages;
static int circle(void *unused)
{
    (void)unused;
    circle_runs++;
    for (int i = 1; i <= circle_pages; i++) up((void *)(uintptr_t)pages[FIRST + i]);
    circle_has = 1;
    while (!circle_goes) sched_yield();
    return up((void *)(uintptr_t)pages[FIRST]);
}
static void *circler(void *lock)
{
    struct ps_options options = {.isolation = lock ? PS_CONTAINER_LOCK : PS_SERIALISABLE,
                                 .locked = lock ? box : NULL};
    circle_has = lock != NULL;
    return (void *)(intptr_t)ps_transaction_opt(circle, NULL, &options);
}

/* A GET of the site's transaction has waited: from now on that is older than who begins. */
static void wait_first(uint64_t ticket)
{
    pthread_t t;
    struct site_message m = GET(pages[5], SITE_SHARED);
    m.serial = ticket;
    holds = lets_go = 0;
    pthread_create(&t, NULL, holder, (void *)(uintptr_t)pages[5]);
    while (!holds) sched_yield();
    uint64_t get = say(m);
    until_waits();
    lets_go = 1;
    pthread_join(t, NULL);
    (void)hear_answer(get, &m);
}

/* The home wants the page back. */
static void hear_call(uint64_t page)
{
    struct frame f;
    struct site_message m = {0};
    for (unsigned beats = 0; !over && beats < BEATS && (m.kind != SITE_CALL || m.page != page);) {
        struct fields_in i = hear(&f);
        over = is_new_hello(&f, i);
        beats += f.kind == FRAME_BEAT;
        if (f.kind == FRAME_BEAT) beat();
        if (f.to != FRAME_CLIENT || !message_take(&m, &f, in)) m.kind = 0;
    }
}

/* The answer to the site's last GET; it says, each time it is asked, that who keeps the first page
 * waits for that one. */
static int circle_answer(uint64_t get, uint64_t ticket)
{
    struct frame f;
    struct site_message m;
    for (unsigned beats = 0, probes = 0; !over && beats < BEATS && probes < PROBES;) {
        struct fields_in i = hear(&f);
        over = is_new_hello(&f, i);
        beats += f.kind == FRAME_BEAT;
        if (f.kind == FRAME_BEAT) beat();
        if (over || f.to != FRAME_CLIENT || !message_take(&m, &f, in)) continue;
        if (m.answer_to == get) return m.error;
        if (m.kind != SITE_PROBE || m.page != pages[FIRST]) continue;
        probes++;
        struct site_message probed = {.kind = SITE_PROBED, .answer_to = m.serial, .page = m.page,
                                      .count = 1, .waits = {{get, ticket}}};
        (void)say(probed);
    }
    return over ? ENDED : SILENT;
}

/* The program has so many pages. One that is older than the site's transaction, if `young`. */
static void circle_of(int count, bool lock, bool young, const char *what)
{
    pthread_t t;
    anew();
    circle_pages = count;
    circle_has = circle_runs = 0;
    circle_goes = lock;
    wait_first(7);
    uint64_t serial = granted(pages[FIRST], SITE_EXCLUSIVE), ticket = young ? 1000 : 7, get = 0;
    pthread_create(&t, NULL, circler, lock ? box : NULL);
    while (!circle_has) sched_yield();
    if (lock) hear_call(pages[FIRST]);  /* so the lock's first look is over */
    for (int i = 1; i <= count + (count == MOST || lock); i++) {
        uint64_t page = pages[i <= count ? FIRST + i : FREE];
        struct site_message m = GET(page, SITE_SHARED);
        m.serial = ticket;
        get = say(m);
    }
    circle_goes = 1;
    int error = circle_answer(get, ticket);
    tap_ok(error == (young ? EDEADLK : 0), "%s: %d", what, error);
    if (!over) (void)say((struct site_message){.kind = SITE_GONE, .page = pages[FIRST],
                                               .serial = serial});
    bool on = home_goes_on(FIRST);
    pthread_join(t, NULL);
    tap_ok(on && (circle_runs > 1) == !young, "and the home goes on, after %d runs", circle_runs);
}

static void circles(void)
{
    circle_of(1, false, true, "of a circle through the site its younger GET is denied");
    circle_of(1, false, false, "or granted, if it is the older one");
    circle_of(MOST, false, true, "one that waits for a thread waits for all that these wait for");
    circle_of(0, true, true, "one of a container that is being locked waits for who locks it");
}

/* The site takes no answers: its BEATs say so. All that it says is received all the same. */
static void deaf(void)
{
    struct frame f;
    uint64_t sent = 0, freed = 0;
    unsigned grants = 0;
    anew();
    struct site_message closing = {.kind = SITE_GONE, .page = pages[0], .serial = 1ull << 60};
    uint64_t before = number;
    for (int i = 0; i < PAGES_MANY; i++) (void)say(GET(pages[i], SITE_SHARED));
    for (unsigned beats = 0; freed < (number - before) * FRAME_HEADER && beats < BEATS && !over;) {
        struct fields_in i = hear(&f);
        over = is_new_hello(&f, i);
        grants += f.kind == SITE_GRANT;
        if (f.kind != FRAME_BEAT) continue;
        beats++;
        uint64_t now = take_u64(&i);
        if (now > freed) beats = 0;
        freed = now;
        beat();
        for (; grants > GRANTS_MANY && sent < GONES; sent++) (void)say(closing);
    }
    sent = (number - before) * FRAME_HEADER; /* more than that */
    tap_ok(freed >= sent && !over, "who takes no answers is heard: %llu of more than %llu bytes, "
           "%u GRANTs", (unsigned long long)freed, (unsigned long long)sent, grants);
    tap_ok(home_goes_on(0), "and the home goes on");
}

static uint64_t seed = 1;
static unsigned any(unsigned below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % below;
}

/* One byte of a message of a random kind is another one. */
static void mutated(void)
{
    unsigned ended = 0;
    static const uint8_t kinds[] = {SITE_GET, SITE_GONE, SITE_CANCEL, SITE_PROBED, SITE_COMMIT,
                                    SITE_ASK};
    anew();
    for (unsigned n = 0; n < MUTATIONS; n++) {
        if (over) anew();
        struct site_message m = {.kind = kinds[any(sizeof kinds)], .page = pages[8 + any(8)],
                                 .number = ++number, .right = 1, .serial = any(20), .count = 1,
                                 .request = STORE_LEASE, .word = {opened, 1}};
        size_t bytes = message_put(&m, out, sizeof out);
        for (unsigned k = 0; k < 1 + any(2) && bytes > FRAME_HEADER; k++)
            out[FRAME_HEADER + any((unsigned)bytes - FRAME_HEADER)] ^= (uint8_t)(1u << any(8));
        send_frame(bytes, FRAME_HOME, theirs);
        if (any(4) == 0) /* is it heard still? */
            ended += asks((struct site_message){.kind = SITE_ASK, .request = 77}) == ENDED;
    }
    tap_ok(home_goes_on(9), "%u mutated messages, %u ended sessions: the home goes on", MUTATIONS,
           ended);
}

int main(int argc, char **argv)
{
    uint64_t value = 0;
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    tap_plan(59);
    liar_begin();
    box = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    own = ps_open("own", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = !box || !own ? -errno : ps_transaction(make, NULL);
    if (!error) error = export_all();
    if (!error) error = ps_transaction(where, pages);
    tap_ok(stream >= 0 && !error, "a container is exported to the site: %s", ps_strerror(error));
    if (error) return 1;
    hear_hello();
    begin();
    is(opens(), 0, "which opens it");
    lies();
    truths();
    ends();
    standstill();
    waits();
    commit_waits();
    closes();
    circles();
    deaf();
    mutated();
    tap_ok(ps_transaction(looks_secret, &value) == 0 && value == 42 &&
               kd_call3(KD_CHECK, 0, 0, 0) == 0,
           "what was not exported is as it was; kcheck is clean");
    return tap_end();
}
