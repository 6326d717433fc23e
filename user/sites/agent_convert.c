/*
 * agent_convert.c - a site whose data look otherwise than the home's: what it declared when it
 * opened a container, and its pages, converted at GRANT and COMMIT (types.md).
 *
 * Owns      struct convert of a container; images: pages as the site has them, where that is not
 *           what a GRANT would bring (bytes between fields, what lay in freed objects). The
 *           differences of a COMMIT are against these bytes.
 * Not here  descriptions and the conversion of a page (agent_types.c).
 *
 * Locks     agent_lock for all of struct convert but its types, which do not change.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "agent_types.h"
#include "katydid/call.h"
#include "pstore.h"
#include "site.h"

enum {
    IMAGES_MAX = 1024,                  /* of all containers: 4 MiB */
    SAID_MAX = 32,                      /* lines of a session in the log: a site may try for ever */
};

struct convert_image {
    struct convert_image *next;
    struct convert *of;
    uint64_t page, serial;
    bool same;                          /* as what a GRANT would bring: need not be kept */
    uint8_t bytes[SITE_PAGE_BYTES];
};
struct convert {
    struct convert_image *images;
    size_t text_bytes;
    char text[TYPES_TEXT_MAX];          /* what the site declared */
    struct types_pair types;
};
static unsigned images;

/* ---- opening ---- */

int convert_declared(uint8_t *request, size_t *bytes, struct convert **declared)
{
    struct wire_open open;
    size_t head = sizeof open;
    *declared = NULL;
    memcpy(&open, request, sizeof open);
    if (!open.name[0]) {
        const uint8_t *end = memchr(request + head, 0, *bytes - head);
        head = end ? (size_t)(end - request) + 1 : *bytes;
    }
    if (*bytes <= head) return 0;
    struct convert *v = calloc(1, sizeof *v);
    if (!v || *bytes - head > sizeof v->text) {
        free(v);
        return v ? -E2BIG : -ENOMEM;
    }
    v->text_bytes = *bytes - head;
    memcpy(v->text, request + head, v->text_bytes);
    if (types_parse(&v->types.site, v->text, v->text_bytes)) {
        free(v);
        return -EBADMSG;
    }
    memset(open.type, 0, sizeof open.type); /* its root is a type as any, and matched as they are */
    open.version = open.bytes = 0;
    memcpy(request, &open, sizeof open);
    *bytes = head;
    *declared = v;
    return 0;
}

struct text { uint64_t at; char text[TYPES_TEXT_MAX]; };
static int text_read(void *text)
{
    struct text *t = text;
    memcpy(t->text, (const void *)t->at, sizeof t->text);
    return 0;
}

int convert_known(struct convert *v, uint64_t at, char refused[TYPE_NAME_BYTES])
{
    static struct text t; /* one thread opens */
    t.at = at;
    snprintf(refused, TYPE_NAME_BYTES, "the container");
    if (!at || at % KD_PAGE_BYTES > KD_PAGE_BYTES - sizeof t.text) return -EPROTOTYPE;
    int error = ps_site_transaction(text_read, &t, -1, 0, (struct ps_options){0});
    if (error) return error;
    if (types_parse(&v->types.home, t.text, strnlen(t.text, sizeof t.text))) return -EPROTOTYPE;
    return types_match(&v->types, refused);
}

bool convert_same(const struct convert *a, const struct convert *b)
{
    if (!a || !b) return a == b;
    return a->text_bytes == b->text_bytes && !memcmp(a->text, b->text, a->text_bytes);
}

void convert_free(struct convert *v)
{
    while (v && v->images) {
        struct convert_image *next = v->images->next;
        free(v->images);
        v->images = next;
        images--;
    }
    free(v);
}

/* ---- images ---- */

static struct convert_image **image_at(struct convert *v, uint64_t page)
{
    struct convert_image **i = &v->images;
    while (*i && (*i)->page != page) i = &(*i)->next;
    return i;
}

static void image_drop(struct convert_image **at)
{
    struct convert_image *i = *at;
    if (!i) return;
    *at = i->next;
    free(i);
    images--;
}

/* Those of pages that the site has no more. */
static void images_sweep(struct convert *v)
{
    for (struct convert_image **at = &v->images; *at;) {
        const struct site_page *p = pages_find(&agent.pages, (*at)->page);
        if (p && p->right != SITE_NO)
            at = &(*at)->next;
        else
            image_drop(at);
    }
}

static struct convert_image *image_new(struct convert *v, uint64_t page, uint64_t serial)
{
    if (images >= IMAGES_MAX) images_sweep(v);
    struct convert_image *i = images < IMAGES_MAX ? calloc(1, sizeof *i) : NULL;
    if (!i) return NULL;
    images++;
    i->of = v;
    i->page = page;
    i->serial = serial;
    return i;
}

/* ---- GRANT ---- */

static void said(uint64_t page, uint32_t type, int error)
{
    static unsigned lines;
    char line[160];
    agent_lock();
    bool more = lines < SAID_MAX && ++lines;
    agent_unlock();
    if (!more) return;
    int n = snprintf(line, sizeof line, "agent: page 0x%llx cannot be converted, type %08x: %s",
                     (unsigned long long)page, type, strerror(-error));
    kd_call3(KD_KERNEL_LOG, (long)line, n, 0);
}

int convert_page(uint64_t page, uint8_t contents[SITE_PAGE_BYTES])
{
    uint8_t home[SITE_PAGE_BYTES];
    uint32_t type;
    agent_lock();
    struct convert *v = container_at(page)->types; /* a GET keeps it open */
    agent_unlock();
    if (!v) return 0;
    memcpy(home, contents, sizeof home);
    int error = types_out(&v->types, page, home, contents, &type);
    if (error) said(page, type, error);
    return error;
}

void convert_granted(const struct site_page *p, bool contents)
{
    struct convert *v = container_at(p->page)->types;
    struct convert_image **at = v ? image_at(v, p->page) : NULL;
    if (!at || !*at) return;
    if (contents)
        image_drop(at);
    else
        (*at)->serial = p->serial;
}

/* ---- COMMIT ---- */

/* The page as the site has it before the commit. */
static int image_begin(struct convert_image *i, const uint8_t *before, uint32_t *type)
{
    agent_lock();
    const struct convert_image *was = *image_at(i->of, i->page);
    bool kept = was && was->serial == i->serial;
    if (kept) memcpy(i->bytes, was->bytes, sizeof i->bytes);
    agent_unlock();
    return kept ? 0 : types_out(&i->of->types, i->page, before, i->bytes, type);
}

/* Only what differs is stored: the rest of the page is not this commit's. */
static void page_store(uint8_t *page, const uint8_t *before, const uint8_t *after)
{
    for (unsigned at = 0; at < SITE_PAGE_BYTES; at += 8)
        if (memcmp(before + at, after + at, 8)) memcpy(page + at, after + at, 8);
}

/* The runs of one page, beginning with `r`; what comes behind them is in `next`. */
static int page_convert(struct convert_image *i, const struct site_run *r,
                        const struct fields_in *behind)
{
    uint8_t before[SITE_PAGE_BYTES], after[SITE_PAGE_BYTES];
    uint32_t type = 0;
    struct fields_in in = *behind;
    struct site_run more = *r;
    memcpy(before, (const void *)i->page, sizeof before);
    int error = image_begin(i, before, &type);
    do
        memcpy(i->bytes + more.offset, more.data, more.bytes);
    while (run_next(&in, &more) && more.page == i->page);
    if (!error) error = types_in(&i->of->types, i->page, before, i->bytes, after, &type);
    if (!error) page_store((uint8_t *)i->page, before, after);
    if (!error) error = types_out(&i->of->types, i->page, after, before, &type);
    i->same = !error && memcmp(before, i->bytes, sizeof before) == 0;
    if (error) said(i->page, type, error);
    return error;
}

void convert_stored(struct convert_image **made, bool committed)
{
    while (*made) {
        struct convert_image *i = *made;
        *made = i->next;
        if (committed) image_drop(image_at(i->of, i->page));
        if (committed && !i->same) {
            i->next = i->of->images;
            i->of->images = i;
        } else {
            free(i);
            images--;
        }
    }
}

/* The page has this run alone: its kernel need not look for what differs, nor be called by a fault
 * (kernel/store/holders.md). 0 or -errno. */
static int run_declare(const struct site_run *r, struct fields_in behind)
{
    struct site_run next;
    if (run_next(&behind, &next) && next.page == r->page) return 0;
    return (int)kd_call3(KD_TXN_HINT, (long)(r->page + r->offset), r->bytes, KD_HINT_WRITE);
}

int convert_store(const struct site_message *m, bool converts, struct convert_image **made)
{
    struct fields_in in = message_runs(m);
    struct site_run r;
    uint64_t page = 0;
    struct convert *v = NULL;
    int error = 0;
    if (*made) {                        /* it runs again */
        agent_lock();
        convert_stored(made, false);
        agent_unlock();
    }
    while (!error && run_next(&in, &r)) {
        bool again = r.page == page;
        if (!again && !converts) {
            error = run_declare(&r, in);
        } else if (!again) {
            agent_lock();
            v = container_at(r.page)->types; /* the commit keeps it open */
            struct convert_image *i = v ? image_new(v, r.page, r.serial) : NULL;
            if (i) {
                i->next = *made;
                *made = i;
            }
            agent_unlock();
            if (v && !i) return -ENOMEM;
            error = i ? page_convert(i, &r, &in) : run_declare(&r, in);
        }
        if (!v && !error) memcpy((char *)r.page + r.offset, r.data, r.bytes);
        page = r.page;
    }
    return error;
}
