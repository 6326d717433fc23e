/*
 * role_rig.c - see role_rig.h.
 */
#include "role_rig.h"

#include "crew.h"
#include "internal.h"
#include "store_made.h"
#include "user/sites/role_wire.h"

#define COMMITS  20000u
#define LETTERS  4096u
#define WITNESS  2u

struct machine machines[2];
struct link links[3];
struct role_record record;
bool witness_up, faults;
uint64_t now_us, way_us;
uint32_t commits;
uint64_t opened_count, copied_count, acked_count;

static struct letter {
    uint64_t at;
    uint32_t from, to, generation;
    uint8_t *frame;
    size_t bytes;
} letters[LETTERS];
static uint32_t letter_first, letter_last;
static uint64_t witness_back_us, random_seed, slot_b_offset;
static uint32_t parent[COMMITS], acked;         /* parent: the commit before one, at its home */

uint64_t chance(uint64_t limit) { return random_below(&random_seed, limit); }
static uint32_t link_of(uint32_t a, uint32_t b) { return a + b - 1; }   /* 0: of the copies */

/* ---- messages */

static void letter_send(uint32_t from, uint32_t to, const struct role_message *m)
{
    uint32_t link = link_of(from, to);
    if (!links[link].up || letter_last - letter_first == LETTERS)
        return;
    struct letter *l = &letters[letter_last++ % LETTERS];
    *l = (struct letter){ .at = now_us + way_us + chance(faults ? 2000 : 100), .from = from,
                          .to = to, .generation = links[link].generation };
    size_t room = 1024 + m->bytes;
    l->frame = malloc(room);
    require(l->frame);
    require(role_put(m, l->frame, room) && !role_put(m, l->frame, FRAME_HEADER + 7));
    l->bytes = role_put(m, l->frame, room);
}

static void copy_sends(void *context, int to, const struct role_message *m)
{
    uint32_t i = (uint32_t)((struct machine *)context - machines);
    letter_send(i, to == ROLE_TO_WITNESS ? WITNESS : !i, m);
}

static void letter_arrives(struct letter *l)
{
    static uint8_t group[ROLE_GROUP_MOST];
    struct role_message m, answer;
    struct frame f;
    uint32_t link = link_of(l->from, l->to);
    require(frame_head(&f, l->frame, l->bytes) && role_get(&m, &f, l->frame, group));
    bool lost = !links[link].up || links[link].silent || links[link].generation != l->generation;
    if (!lost && l->to == WITNESS && witness_up) {
        role_witness(&record, &m, &answer);
        letter_send(WITNESS, l->from, &answer);
    } else if (!lost && l->to != WITNESS && machines[l->to].up) {
        role_receive(&machines[l->to].role,
                     l->from == WITNESS ? ROLE_TO_WITNESS : ROLE_TO_OTHER, &m, now_us);
    }
    free(l->frame);
    l->frame = NULL;
}

/* In order on each link: the oldest that is due, but none before one that it follows. */
static void letters_arrive(void)
{
    while (letter_first != letter_last && letters[letter_first % LETTERS].at <= now_us)
        letter_arrives(&letters[letter_first++ % LETTERS]);
}

/* ---- the home's work */

static bool has_commit(uint32_t head, uint32_t commit)
{
    while (head > commit)
        head = parent[head];
    return head == commit;
}

static void page_make(uint8_t *bytes, uint32_t commit)
{
    for (uint32_t i = 0; i < STORE_PAGE_BYTES; i += 4)
        memcpy(bytes + i, &commit, 4);
}

static void store_opened(void *context, struct store *store, const struct store_report *report)
{
    struct machine *m = context;
    struct store_container c;
    uint8_t bytes[STORE_PAGE_BYTES];
    const char *why;
    (void)report;
    require(store_check(store, &why) == 0);
    require(store_container_find(store, "c", &c) == 0);
    m->object = c.object;
    m->head = m->flying_count = 0;
    m->checkpoints = false;
    for (uint32_t i = 0; i < PAGES; i++) {
        require(store_page_read(store, c.object, i, bytes) == 0);
        memcpy(&m->value[i], bytes, 4);
        m->head = MAX(m->head, m->value[i]);
    }
    for (uint32_t i = 0, at; i < PAGES; i++) {  /* the newest of each in one history */
        for (at = m->head; at && at % PAGES != i; at = parent[at])
            ;
        if (m->value[i] != at)
            crew_fail("page %u has commit %u, not %u", i, m->value[i], at);
    }
    if (!has_commit(m->head, acked))
        crew_fail("a home has commit %u, and not %u, which was acknowledged", m->head, acked);
    acked = m->head;                    /* whoever looks sees it */
    opened_count++;
}

static void store_closing(void *context, struct store *store)
{
    (void)store;
    ((struct machine *)context)->flying_count = 0;
}

void machine_commits(struct machine *m)
{
    struct store *store = m->role.store;
    struct store_group *group;
    uint8_t bytes[STORE_PAGE_BYTES];
    uint32_t position, number = commits + 1;
    if (m->flying_count == ROLE_GROUPS || number == COMMITS || store_group_begin(store, &group))
        return;
    page_make(bytes, number);
    store_txn_begin(group, number);
    store_txn_page(group, m->object, number % PAGES, bytes);
    if (store_txn_end(group, &position)) {
        store_group_cancel(group);
        m->checkpoints = true;
        return;
    }
    require(store_group_seal(group) == 0);
    parent[++commits] = m->head;
    m->head = number;
    role_sealed(&m->role, group, now_us);
    require(store_group_write(group) == 0);
    m->flying[m->flying_count].commit = number;
    m->flying[m->flying_count].end = group->lsn + group->bytes;
    m->flying[m->flying_count++].group = group;
    role_flushed(&m->role, group->lsn + group->bytes);
}

void commits_land(struct machine *m)
{
    while (m->flying_count && role_sure(&m->role) >= m->flying[0].end) {
        require(store_group_apply(m->flying[0].group) == 0);
        m->value[m->flying[0].commit % PAGES] = m->flying[0].commit;
        require(has_commit(m->flying[0].commit, acked));
        acked = m->flying[0].commit;
        acked_count++;
        m->flying[0] = m->flying[1];
        m->flying_count--;
    }
}

static void checkpoint(struct machine *m)
{
    struct store *store = m->role.store;
    struct disk_io io = device_io(&m->disk.device);
    uint64_t object, page, lsn, offset;
    uint8_t bytes[STORE_PAGE_BYTES];
    int error;
    m->checkpoints = false;
    require(store_checkpoint_begin(store) == 0);
    while (store_checkpoint_next(store, &object, &page, &lsn) == 0) {
        page_make(bytes, m->value[page]);
        require(store_page_home(store, object, page, &offset) == 0);
        require(io.write(io.context, offset, bytes, sizeof bytes) == 0);
        require(store_page_cleaned(store, object, page, lsn, crc32c(0, bytes, sizeof bytes)) == 0);
    }
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        require(store_checkpoint_write(store) == 0);
    require(error == 0 && store_checkpoint_write(store) == 0 && store_checkpoint_apply(store) == 0);
}

static void home_works(struct machine *m)
{
    if (!m->role.store)
        return;
    commits_land(m);
    if (!role_serves(&m->role, now_us))
        return;
    if (!has_commit(m->head, acked))
        crew_fail("%u serves, and lacks commit %u", (uint32_t)(m - machines), acked);
    m->checkpoints |= store_should_checkpoint(m->role.store) || chance(6000) == 0;
    if (m->checkpoints && !m->flying_count)
        checkpoint(m);
    else if (!m->checkpoints && chance(80) == 0)
        machine_commits(m);
}

/* ---- losses */

void machine_starts(uint32_t i)
{
    struct machine *m = &machines[i];
    m->up = true;
    memset(&m->role, 0, sizeof m->role);
    m->role.calls = (struct role_calls){ m, copy_sends, store_opened, store_closing };
    m->role.io = device_io(&m->disk.device);
    m->role.memory = &test_memory;
    m->role.own = 1 + i;
    m->role.other = 2 - i;
    m->role.lease_us = ROLE_LEASE_US;
    power_on(&m->disk);
    role_start(&m->role, now_us);
    role_link(&m->role, links[0].up && machines[!i].up, now_us);
}

void link_breaks(uint32_t link)
{
    links[link].generation++;
    for (uint32_t i = 0; link == 0 && i < 2; i++)
        if (machines[i].up && (!faults || chance(2)))
            role_link(&machines[i].role, false, now_us);
}

static void machine_crashes(uint32_t i)
{
    struct machine *m = &machines[i];
    m->up = false;
    m->starts_us = now_us + 20000 + chance(2000000);
    power_off(&m->disk, &random_seed, chance(4) ? 0 : slot_b_offset);
    role_end(&m->role);
    m->flying_count = 0;
    link_breaks(0);
    links[1 + i].generation++;
    crew_add(CRASHES, 1);
}

static void fault(void)
{
    uint32_t which = (uint32_t)chance(3);
    switch (chance(8)) {
    case 0:
    case 1:
    case 2:
        if (which < 2 && machines[which].up)
            machine_crashes(which);
        break;
    case 3:
        if (links[which].up) {
            links[which].up = false;
            links[which].back_us = now_us + chance(1000000);
            link_breaks(which);
        }
        break;
    case 4:                             /* nobody is told; the stream is found to be dead later */
        links[which].silent = true;
        links[which].back_us = now_us + chance(700000);
        break;
    case 5:
        witness_up = false;
        witness_back_us = now_us + chance(1500000);
        break;
    default:
        break;
    }
}

void mends(bool all)
{
    for (uint32_t i = 0; i < 3; i++) {
        if ((links[i].up && !links[i].silent) || (!all && now_us < links[i].back_us))
            continue;
        if (links[i].silent)
            link_breaks(i);
        links[i].up = true;
        links[i].silent = false;
        for (uint32_t k = 0; i == 0 && k < 2; k++)
            if (machines[k].up && machines[!k].up)
                role_link(&machines[k].role, true, now_us);
    }
    if (all || now_us >= witness_back_us)
        witness_up = true;
    for (uint32_t i = 0; i < 2; i++)
        if (!machines[i].up && (all || now_us >= machines[i].starts_us)) {
            machine_starts(i);
            if (machines[!i].up && links[0].up)
                role_link(&machines[!i].role, true, now_us);
        }
}

/* What a person does, or the manager: a copy that cannot follow is made anew. */
static void copy_anew(uint32_t i)
{
    struct machine *m = &machines[i], *home = &machines[!i];
    if (!m->up || m->role.is != ROLE_OUT || m->role.error != -ESTALE || !home->up ||
        !role_serves(&home->role, now_us) || home->flying_count)
        return;
    role_end(&m->role);
    m->disk.device.recording = false;
    memcpy(m->disk.device.image, home->disk.device.image, home->disk.device.bytes);
    machine_starts(i);
    copied_count++;
}

/* ---- time */

void time_passes(uint64_t us)
{
    for (uint64_t until = now_us + us; now_us < until;) {
        now_us += STEP_US;
        letters_arrive();
        uint32_t serving = 0;
        for (uint32_t i = 0; i < 2; i++) {
            if (!machines[i].up)
                continue;
            if (now_us % ROLE_TICK_US == 0)
                role_tick(&machines[i].role, now_us);
            if (machines[i].role.error && machines[i].role.error != -ESTALE)
                crew_fail("%u: error %d", i, machines[i].role.error);
            home_works(&machines[i]);
            copy_anew(i);
            serving += role_serves(&machines[i].role, now_us);
        }
        if (serving > 1)
            crew_fail("two homes serve at %llu us", (unsigned long long)now_us);
        if (faults && now_us % 20000 == 0) {
            mends(false);
            if (chance(12) == 0)
                fault();
        }
    }
}

void machines_begin(uint64_t seed)
{
    uint64_t object;
    random_seed = seed;
    now_us = 1000000;
    way_us = WAY_LEAST_US;
    faults = false;
    witness_up = true;
    commits = acked = 0;
    opened_count = copied_count = acked_count = 0;
    letter_first = letter_last = 0;
    record = (struct role_record){ 1, 1, 0 };
    memset(links, 0, sizeof links);
    memset(machines, 0, sizeof machines);
    for (uint32_t i = 0; i < 3; i++)
        links[i].up = true;
    for (uint32_t i = 0; i < 2; i++)
        device_open(&machines[i].disk.device, 4 << 20);
    struct disk_io io = device_io(&machines[0].disk.device);
    struct store *store = store_made(&io, 1 << 20, &object);
    require(store != NULL);
    slot_b_offset = store->super.slot_b_offset;
    require(store_close(store) == 0);
    memcpy(machines[1].disk.device.image, machines[0].disk.device.image, 4 << 20);
    for (uint32_t i = 0; i < 2; i++)
        machine_starts(i);
    role_link(&machines[0].role, true, now_us);
}

void machines_end(void)
{
    for (; letter_first != letter_last; letter_first++)
        free(letters[letter_first % LETTERS].frame);
    for (uint32_t i = 0; i < 2; i++) {
        if (machines[i].up)
            role_end(&machines[i].role);
        device_close(&machines[i].disk.device);
        free(machines[i].disk.before);
    }
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
}

bool pair_stands(void)
{
    for (uint32_t i = 0; i < 2; i++)
        if (machines[i].up && machines[i].role.is == ROLE_HOME && machines[i].role.named &&
            role_serves(&machines[i].role, now_us) && machines[!i].role.is == ROLE_SPARE &&
            machines[!i].role.named)
            return true;
    return false;
}
