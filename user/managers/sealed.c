/*
 * sealed.c - a container whose pages are stored encrypted: a manager that stands on the store.
 *
 *     sealed NAME KEY &     serves NAME (1 MiB); the sealed pages lie in the container NAME.sealed
 *
 * The key is in this process's memory alone. A client's transaction and what it changes here are
 * one commit (km_below): a death of either, or a power cut, leaves all of it or nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "manager.h"
#include "pstore.h"

enum { PAGES = 256, WORDS = KM_PAGE_BYTES / 4, BLOCK_WORDS = 16, KEY_BYTES = 32 };

/* In the store: each page as it was sealed last, and its nonce then; 0: it is all zero. */
struct root { uint64_t nonce[PAGES]; uint32_t (*sealed)[WORDS]; };
static ps_container *box;
static struct root *root;
static uint32_t key[KEY_BYTES / 4];

/* ---- ChaCha20 (Bernstein 2008): a stream of 64-byte blocks from key, nonce and number ---- */

static uint32_t turn(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b, *d = turn(*d ^ *a, 16);
    *c += *d, *b = turn(*b ^ *c, 12);
    *a += *b, *d = turn(*d ^ *a, 8);
    *c += *d, *b = turn(*b ^ *c, 7);
}

static void block(uint32_t out[BLOCK_WORDS], uint64_t nonce, uint64_t number)
{
    uint32_t in[BLOCK_WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    memcpy(in + 4, key, sizeof key);
    memcpy(in + 12, &number, 8);
    memcpy(in + 14, &nonce, 8);
    memcpy(out, in, sizeof in);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) quarter(out + i, out + 4 + i, out + 8 + i, out + 12 + i);
        for (int i = 0; i < 4; i++)
            quarter(out + i, out + 4 + (i + 1) % 4, out + 8 + (i + 2) % 4, out + 12 + (i + 3) % 4);
    }
    for (int i = 0; i < BLOCK_WORDS; i++) out[i] += in[i];
}

/* A nonce is drawn each time a page is sealed: a number that is counted in the store would come
 * again where the store is put back, by a backup or by a power cut. 0: there is none. */
static uint64_t nonce_new(void)
{
    uint64_t nonce = 0;
    return getrandom(&nonce, sizeof nonce, 0) == sizeof nonce ? nonce : 0;
}

/* Seals or opens: the same. No two pages have the same stream. */
static void turn_page(uint32_t *to, const uint32_t *from, uint64_t page, uint64_t nonce)
{
    uint32_t stream[BLOCK_WORDS];
    for (int at = 0; at < WORDS; at += BLOCK_WORDS) {
        block(stream, nonce, page << 32 | (unsigned)at / BLOCK_WORDS);
        for (int i = 0; i < BLOCK_WORDS; i++) to[at + i] = from[at + i] ^ stream[i];
    }
}

/* ---- the policy ---- */

/* In a snapshot of the store. */
static void open_page(uint32_t *to, uint64_t page)
{
    if (root->nonce[page])
        turn_page(to, root->sealed[page], page, root->nonce[page]);
    else
        memset(to, 0, KM_PAGE_BYTES);
}

static void page(struct km_request *r)
{
    uint32_t words[WORDS];
    open_page(words, r->page);
    km_answer(r, words, 1, 0);
}

/* In a transaction of the store's that becomes part of the client's. */
struct opened { uint64_t page; uint32_t words[WORDS]; };
static int change(const struct km_run *r, void *opened)
{
    struct opened *p = opened;
    if (p->page != r->page) open_page(p->words, r->page);
    p->page = r->page;
    memcpy((char *)p->words + r->offset, r->data, r->bytes);
    if (!(r->flags & KM_RUN_LAST)) return 0;
    uint64_t nonce = root->nonce[r->page] = nonce_new();
    if (nonce) turn_page(root->sealed[r->page], p->words, r->page, nonce);
    return nonce ? 0 : -EIO;
}

static int commit(struct km_object *o, uint64_t view)
{
    return km_diff_each(o, view, change, &(struct opened){.page = ~0ull});
}

/* ---- start ---- */

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(box);
    if (!root->sealed) root->sealed = ps_alloc(box, sizeof *root->sealed * PAGES, NULL);
    return root->sealed ? 0 : -errno;
}

static int start(const char *name, const char *text)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    memcpy(key, text, strnlen(text, KEY_BYTES));
    int error = km_below_own(name, "sealed", PS_LAYOUT(struct root, 2), &box);
    if (!error) error = ps_transaction(set_up, NULL);
    if (!error)
        error = km_create(name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    return error ? error : km_serve(2);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: allow names sealed NAME KEY &\n"
                        "Serves NAME, 1 MiB, whose pages lie encrypted in the container "
                        "NAME.sealed.\n");
        return 2;
    }
    int error = start(argv[1], argv[2]);
    fprintf(stderr, "sealed: %s: %s\n", argv[1], ps_strerror(error));
    return 1;
}
