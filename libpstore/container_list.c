/*
 * container_list.c - what is said of containers: where one lies, which program serves one
 * (ps_manager), and the list of all.
 *
 * Not here  opening them, names of containers (container.c).
 */
#include "pstore_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- where one lies ---- */

void *ps_segment(const ps_container *c, unsigned number, uint64_t *pages)
{
    uint64_t word[STORE_REQUEST_WORDS] = {0, number};
    int result = container_is_open(c) ? 0 : -EINVAL;
    if (result == 0) {
        word[0] = c->id;
        result = store_request(c->store, STORE_SEGMENT, word, NULL, 0, NULL, NULL);
    }
    if (result == 0 && pages)
        *pages = word[1];
    if (error_told(ERROR_SEGMENT, result) != 0)
        errno = -result;
    return result == 0 ? (void *)(uintptr_t)word[0] : NULL;
}

void *ps_address(const ps_container *c)
{
    return container_is_open(c) ? (void *)(uintptr_t)c->base : NULL;
}

/* ---- a program as a container's manager ---- */

/* manager_text writes program and arguments as the store wants them; the bytes, or -E2BIG. */
static long manager_text(char *text, const char *program, const char *const *arguments)
{
    size_t at = 0;
    for (const char *word = program; word; word = arguments ? *arguments++ : NULL) {
        size_t bytes = strlen(word) + 1;
        if (bytes > WIRE_MANAGER_BYTES - at)
            return -E2BIG;
        memcpy(text + at, word, bytes);
        at += bytes;
    }
    return (long)at;
}

int ps_manager(const char *name, const char *program, const char *const *arguments)
{
    char data[STORE_NAME_BYTES + WIRE_MANAGER_BYTES];
    uint64_t none;
    int result = tx_active() ? -EBUSY : store_name_copy(data, name);
    long bytes = result == 0 ? manager_text(data + STORE_NAME_BYTES, program, arguments) : result;
    if (bytes >= 0)
        result = manager_check(name, program, arguments);
    if (bytes >= 0 && result == 0)
        result = request_plain(STORE_MANAGER, data, STORE_NAME_BYTES + (size_t)bytes, &none);
    return error_told(ERROR_MANAGER, bytes < 0 ? (int)bytes : result);
}

static int managed(const char *name, char *text, size_t bytes)
{
    char data[STORE_NAME_BYTES], got[WIRE_MANAGER_BYTES + 1];
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    size_t length = WIRE_MANAGER_BYTES;
    int result = tx_active() ? -EBUSY : store_name_copy(data, name);
    if (result == 0)
        result = stores_ready();
    if (result == 0)
        result = store_request(store_of_opens(), STORE_MANAGED, word, data, sizeof data, got,
                               &length);
    if (result != 0 || length == 0)
        return result != 0 ? result : -EPROTO;
    for (size_t i = 0; i + 1 < length; i++)
        if (!got[i])
            got[i] = ' ';
    got[length - 1] = '\0';
    snprintf(text, bytes, "%s", got);
    return (int)length - 1;
}

int ps_manager_of(const char *name, char *text, size_t bytes)
{
    return error_told(ERROR_NAMES, managed(name, text, bytes));
}

int ps_checkpoint(void)
{
    uint64_t none;
    int result = tx_active() ? -EBUSY : request_plain(STORE_CHECKPOINT, NULL, 0, &none);
    return error_told(ERROR_OTHER, result);
}

static void info_fill(struct ps_info *out, const struct wire_entry *e)
{
    memcpy(out->name, e->name, sizeof out->name);
    memcpy(out->type, e->type, sizeof out->type);
    out->name[sizeof out->name - 1] = out->type[sizeof out->type - 1] = '\0';
    out->version = e->version;
    out->root_bytes = e->bytes;
    out->base = e->base;
    out->pages_used = e->pages_used;
    out->pages_max = e->pages_max;
    out->encoder = (int)e->form[WIRE_FORM_ENCODER];
    out->managed = e->kept != 0;
    out->locking = (int)e->form[WIRE_FORM_LOCKING];
    out->protection = (int)e->form[WIRE_FORM_PROTECTION];
    out->durability = (int)e->form[WIRE_FORM_DURABILITY];
}

static int list_all(struct ps_info *out, int count)
{
    enum { ENTRIES = 16 };
    struct wire_entry entries[ENTRIES];
    uint64_t all = 0, told = 0, last = 0;
    if (tx_active())
        return -EBUSY;
    if (count < 0 || (count > 0 && !out))
        return -EINVAL;
    int result = stores_ready();
    if (result != 0)
        return result;
    do {
        uint64_t word[STORE_REQUEST_WORDS] = {last, ENTRIES};
        size_t bytes = sizeof entries;
        result = store_request(store_of_opens(), STORE_LIST, word, NULL, 0, entries, &bytes);
        if (result != 0)
            return result;
        all = word[0];
        size_t got = bytes / sizeof entries[0];
        for (size_t i = 0; i < got && told < (uint64_t)count; i++)
            info_fill(&out[told++], &entries[i]);
        if (got == 0 || entries[got - 1].container <= last)
            break;
        last = entries[got - 1].container;
    } while (told < all && told < (uint64_t)count);
    return (int)all;
}

int ps_list(struct ps_info *out, int count)
{
    return error_told(ERROR_OTHER, list_all(out, count));
}
