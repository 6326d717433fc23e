/* fire_lies.c - what a client may say to a manager that makes no sense (fire.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fire.h"
#include "manager.h"
#include "pstore.h"
#include "store_client.h"
#include "system.h"
#include "tap.h"
#include "user/managers/collected.h"

enum { CALL_OPEN = 1, CALL_USER };      /* as in manager_private.h */
enum { MESSAGES = 500, ROOM = 8192, HANDLES = 300, IDS = 20 };
static unsigned seed = 7;
static union { char bytes[ROOM]; uint64_t words[ROOM / 8]; } data;

static uint64_t any(void)
{
    uint64_t r = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed);
    return r % 4 == 0   ? r
           : r % 4 == 1 ? r % 8
           : r % 4 == 2 ? 0 - r % 8
                        : KD_STORE_BASE + r % (1ull << 42);
}

static long say(int port, uint32_t kind, const uint64_t words[KD_WORDS], uint64_t bytes, int handle)
{
    static char answer[ROOM];
    struct kd_message m = {.kind = kind, .data = &data, .data_bytes = bytes, .buffer = answer,
                           .buffer_bytes = sizeof answer, .handle = handle,
                           .handle_rights = handle >= 0 ? KD_RIGHT_CALL : 0};
    memcpy(m.word, words, sizeof m.word);
    return kd_call3(KD_PORT_CALL, port, (long)&m, 0);
}

/* A name that is none, or of an object that is not there. */
static long bad_names(int port)
{
    static const uint64_t writes[KD_WORDS] = {KM_READ | KM_WRITE};
    long good = 0;
    memset(&data, 'x', sizeof data);
    static const uint64_t sizes[] = {0, 1, 63, 64, 65, KM_MESSAGE_BYTES, KM_MESSAGE_BYTES + 1,
                                     ROOM};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        good |= say(port, CALL_OPEN, writes, sizes[i], -1) >= 0;
        data.bytes[sizes[i] ? sizes[i] - 1 : 0] = 0;
        good |= say(port, CALL_OPEN, writes, sizes[i], -1) >= 0;
        memset(&data, 'x', sizeof data);
    }
    return good;
}

/* Its own protocol, with what its messages' first word may say, and anything behind. The calls that
 * make sense do no harm to others. */
static long any_calls(const struct fire *f, int port, uint64_t object)
{
    long e = 0;
    for (int i = 0; i < MESSAGES && e != -EOWNERDEAD; i++) {
        uint64_t words[KD_WORDS], bytes = any() % (KM_MESSAGE_BYTES + 16);
        for (int w = 0; w < KD_WORDS; w++) words[w] = any();
        for (int w = 0; w < KM_MESSAGE_BYTES / 8; w++) data.words[w] = any();
        if (i % 2) words[0] = object;
        if (i % 4 == 1) bytes = (uint64_t)f->message_bytes;
        if (i % 8 == 1) data.words[0] %= 8;
        uint32_t kind = i % 2 ? CALL_USER : (uint32_t)any();
        if (i % 8 == 6) kind |= (uint32_t)KD_MSG_KERNEL;
        e = say(port, kind, words, bytes, -1);
        if (kind & (uint32_t)KD_MSG_KERNEL && e >= 0) return 1; /* it was taken for the kernel */
    }
    return e == -EOWNERDEAD;
}

/* A handle comes with each message: nobody wants it, and nobody keeps it. */
static long with_handles(int port)
{
    static const uint64_t words[KD_WORDS];
    int mine = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long e = mine < 0;
    for (int i = 0; i < HANDLES && !e; i++)
        e = say(port, i % 2 ? CALL_USER : CALL_OPEN, words, 0, mine) == -EOWNERDEAD;
    return e;
}

/* Of a store: containers that this process has not open. */
static long others_containers(int port)
{
    static const uint32_t kinds[] = {STORE_CLOSE, STORE_LEASE, STORE_SPACE, STORE_NAMED,
                                     STORE_FORM, STORE_NAMES, STORE_NEXT, STORE_DECIDE};
    long good = 0;
    memset(&data, 0, sizeof data);
    strcpy(data.bytes, "\1root");
    for (uint64_t id = 0; id < IDS; id++)
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            uint64_t words[KD_WORDS] = {id, 1};
            long e = say(port, kinds[k], words, kinds[k] == STORE_NAMED ? STORE_NAME_BYTES : 0, -1);
            good |= e >= 0;
        }
    return good;
}

/* /bin/collected: cells that lead to cells which nobody was given, more than there is room for. */
static long wild_cells(const struct fire *f)
{
    struct collected h = {.name = f->name};
    enum { CHUNK_CELLS = COLLECTED_CHUNK_PAGES * KM_PAGE_BYTES / sizeof(struct collected_cell),
           CHUNKS = 3 };
    uint64_t before = 0, wild;
    if (!km_open(f->name, f->name, KM_READ | KM_WRITE) || collected_flip(&h)) return 1;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        if (collected_say(&h, COLLECTED_CHUNK)) return 1;
        struct collected_cell *cell = collected_at(h.call.at);
        wild = h.call.at - (uint64_t)(chunk + 2) * CHUNKS * CHUNK_CELLS * sizeof *cell;
        for (int i = 0; i < CHUNK_CELLS; i++, before = (uint64_t)(uintptr_t)cell++)
            *cell = (struct collected_cell){wild + (uint64_t)i * sizeof *cell, before};
    }
    h.call.root[0] = before;
    if (collected_flip(&h)) return 1;
    while (collected_say(&h, COLLECTED_CHUNK) == 0) {}
    h.call.root[0] = 0;
    return collected_flip(&h);
}

int fire_lies(const struct fire *f)
{
    struct wire_opened opened;
    int port = -1;
    if (f->argv[0])
        port = (int)kd_call3(KD_NAME_FIND, (long)f->name, 0, 0);
    else if (!client_connect() && !client_open(f->name, PS_WRITE, NULL, 0, 0, &opened))
        port = client_reply.handle;
    struct kd_message m = {.kind = CALL_OPEN, .handle = -1, .data = f->name,
                           .data_bytes = strlen(f->name) + 1};
    if (port < 0) return FIRE_WRONG;
    long e;
    if (f->is_store) {
        e = others_containers(port);
        e = e ? e : with_handles(port);
    } else {
        e = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
        e = e ? e : bad_names(port);
        e = e ? e : any_calls(f, port, m.word[1]);
        e = e ? e : with_handles(port);
        if (!e && f->how == FIRE_CELLS) e = wild_cells(f);
    }
    if (e) printf("# %s, lies: %ld\n", f->program, e);
    return e ? FIRE_WRONG : FIRE_END;
}
