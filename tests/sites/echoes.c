/*
 * echoes.c - for tests of link: frames to another site and back, as agent and as client.
 *
 *     echoes SITE [frames=N] [size=BYTES] [seed=N] [again] [stay]
 *
 * sends N frames (100) of a length up to BYTES (a frame's most) that the seed says, several under
 * way, and looks whether each comes back as it was, in order. With `again` it opens another session
 * when one ends, and sends what had not come back once more; with `stay` it goes on until the
 * session ends (with both for ever), so that the other site can do its part. Link starts it as an
 * agent, too: with the other site's name alone; then it sends back what it receives.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "user/sites/link.h"

#include "katydid/call.h"

enum { KIND = FRAME_KIND_OTHERS };
static uint64_t frames = 100, size_most = FRAME_BYTES_MAX - FRAME_HEADER, seed = 1;
static bool again, stay;
static int link_port, session;
static const char *site;
static uint64_t back, bytes_back;       /* frames that came back, in order */
static uint8_t in[FRAME_BYTES_MAX] __attribute__((aligned(8)));

static uint64_t mixed(uint64_t x)
{
    x = (x ^ seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

/* Most are short, and one in eight is of any length. */
static size_t size_of(uint64_t number)
{
    uint64_t x = mixed(number);
    return x & 7 ? x / 8 % (size_most < 500 ? size_most + 1 : 500) : x / 8 % (size_most + 1);
}

static void fill(uint8_t *at, size_t bytes, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number + i * 7 + (i >> 8));
}

static bool filled(const uint8_t *at, size_t bytes, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(number + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* Of one session: the frames from `back` on, until one cannot be sent. */
static void *send_all(void *first)
{
    static uint8_t out[FRAME_BYTES_MAX];
    int r = 0;
    for (uint64_t number = *(uint64_t *)first; r == 0 && number < frames; number++) {
        struct fields_out o = frame_begin(out, sizeof(out));
        size_t bytes = size_of(number);
        fill(put_room(&o, bytes), bytes, number);
        r = link_send(session, out, frame_end(&o, KIND, number + 1, 0));
    }
    if (r && r != -ECONNRESET && r != -EOWNERDEAD)
        fprintf(stderr, "echoes: sending: %s\n", strerror(-r));
    return NULL;
}

static void tell(const struct link_session *s)
{
    printf("%s to %s: %llu frames, %llu bytes\n", s->own, s->site, (unsigned long long)back,
           (unsigned long long)bytes_back);
    fflush(stdout);
}

/* 0: all came back; -errno: the session ended. */
static int receive_all(const struct link_session *s)
{
    struct link_inbox inbox = {.memory = in};
    const uint8_t *at;
    struct frame f;
    while (back < frames) {
        int r = link_receive(session, &inbox, &f, &at);
        if (r)
            return r;
        if (f.answer_to != back + 1 || f.kind != KIND ||
            f.bytes - FRAME_HEADER != size_of(back) ||
            !filled(at + FRAME_HEADER, f.bytes - FRAME_HEADER, back)) {
            fprintf(stderr, "echoes: frame %llu came back as another one\n",
                    (unsigned long long)back + 1);
            exit(1);
        }
        back++;
        bytes_back += f.bytes;
    }
    tell(s);
    return stay ? link_receive(session, &inbox, &f, &at) : 0;
}

static int one_session(struct link_session *s)
{
    pthread_t sender;
    uint64_t first = back;
    session = link_open_by(link_port, site, s);
    if (session < 0)
        return session;
    if (pthread_create(&sender, NULL, send_all, &first))
        return -EAGAIN;
    int r = receive_all(s);
    pthread_join(sender, NULL);
    link_close(session);
    return r;
}

static int client(void)
{
    struct link_session s;
    link_port = (int)kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    int r = one_session(&s);
    while (again && (stay || back < frames) && r == -ECONNRESET)
        r = one_session(&s);
    if (back == frames && (r == 0 || r == -ECONNRESET))
        return 0;
    fprintf(stderr, "echoes: %llu of %llu frames, then: %s\n", (unsigned long long)back,
            (unsigned long long)frames, strerror(-r));
    return 1;
}

static int agent(void)
{
    struct link_inbox inbox = {.memory = in};
    const uint8_t *at;
    struct frame f;
    int r;
    while ((r = link_receive(LINK_HANDLE, &inbox, &f, &at)) == 0) {
        uint8_t *frame = inbox.memory + (at - inbox.memory);
        struct fields_out o = {frame, frame + f.bytes, frame + f.bytes, false};
        r = link_send(LINK_HANDLE, frame, frame_end(&o, f.kind, 0, f.number));
        if (r && r != -ECONNRESET)
            break;
    }
    return r ? 1 : 0;
}

static bool word(const char *text)
{
    struct { const char *name; uint64_t *number; } words[] = {
        {"frames=", &frames}, {"size=", &size_most}, {"seed=", &seed}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(text, words[i].name, strlen(words[i].name)) == 0) {
            *words[i].number = strtoull(text + strlen(words[i].name), NULL, 10);
            return true;
        }
    again |= strcmp(text, "again") == 0;
    stay |= strcmp(text, "stay") == 0;
    return again || stay;
}

int main(int argc, char **argv)
{
    struct link_session s;
    if (argc == 2 && link_session(LINK_HANDLE, &s) == 0)
        return agent();
    for (int i = 2; i < argc; i++)
        if (!word(argv[i]))
            argc = 0;
    if (argc < 2 || size_most > FRAME_BYTES_MAX - FRAME_HEADER) {
        fputs("usage: echoes SITE [frames=N] [size=BYTES] [seed=N] [again] [stay]\n", stderr);
        return 2;
    }
    site = argv[1];
    return client();
}
