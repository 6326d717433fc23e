/*
 * objects.c - what info and dump both show of containers: their order, encoders, named objects.
 */
#include "kstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTING = '\3', MANAGER_PIECE = 60, MANAGER_BYTES = 8 * MANAGER_PIECE + STORE_NAME_BYTES };

static int by_id(const void *a, const void *b)
{
    const struct kcontainer *x = a, *y = b;
    return x->object < y->object ? -1 : x->object > y->object;
}

static int by_owner(const void *a, const void *b)
{
    const struct kname *x = a, *y = b;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return strncmp(x->value.name, y->value.name, STORE_NAME_BYTES);
}

void objects_sort(struct kmodel *model)
{
    if (model->container_count)
        qsort(model->containers, model->container_count, sizeof *model->containers, by_id);
    if (model->name_count)
        qsort(model->names, model->name_count, sizeof *model->names, by_owner);
}

static const char *encoder_text(const struct container_disk *container)
{
    static const char *const texts[STORE_ENCODER_COUNT] = {
        [STORE_ENCODER_DIFF] = "difference", [STORE_ENCODER_FULL] = "full",
        [STORE_ENCODER_RANGES] = "ranges", [STORE_ENCODER_ADAPTIVE] = "adaptive",
        [STORE_ENCODER_COMPRESSED] = "compressed", [STORE_ENCODER_OPERATIONS] = "operations",
    };
    return texts[le16_get(container->encoder)];     /* kcontainer_valid */
}

static const char *locking_text(const struct container_disk *container)
{
    return le16_get(container->locking) == STORE_LOCKING_ITEM ? "item" : "page";
}

static const char *protection_text(const struct container_disk *container)
{
    static const char *const texts[STORE_PROTECTION_COUNT] = {
        "none", [STORE_PROTECT_GUARD] = "guard", [STORE_PROTECT_CODEWORDS] = "codewords",
        [STORE_PROTECT_GUARD | STORE_PROTECT_CODEWORDS] = "guard and codewords",
    };
    return texts[le16_get(container->protection)];  /* kcontainer_valid */
}

static const char *durability_text(const struct container_disk *container)
{
    static const char *const texts[STORE_DURABILITY_COUNT] = {
        [STORE_DURABILITY_FULL] = "durable", [STORE_DURABILITY_LAZY] = "lazy",
        [STORE_DURABILITY_VOLATILE] = "volatile", [STORE_DURABILITY_REBUILD] = "rebuild",
        [STORE_DURABILITY_LOST] = "lost",
    };
    return texts[le16_get(container->durability)];  /* kcontainer_valid */
}

void form_show(const struct container_disk *container, bool json)
{
    bool protected = le16_get(container->protection);
    if (!json) {
        printf(", encoder %s%s%s%s%s%s", encoder_text(container),
               le16_get(container->locking) ? ", locked by items" : "",
               protected ? ", protected by " : "", protected ? protection_text(container) : "",
               le16_get(container->durability) ? ", " : "",
               le16_get(container->durability) ? durability_text(container) : "");
        return;
    }
    json_text("encoder", encoder_text(container), 16);
    json_text("locking", locking_text(container), 16);
    json_text("protection", protection_text(container), 32);
    json_text("durability", durability_text(container), 16);
}

enum store_durability durability_asked(uint32_t durability)
{
    return durability == STORE_DURABILITY_LOST ? STORE_DURABILITY_REBUILD
                                               : (enum store_durability)durability;
}

static void name_show(const struct name_value_disk *name, bool json)
{
    if (!json) {
        printf("    %-24.63s %#llx, %llu bytes\n", name->name,
               (unsigned long long)le64_get(name->address),
               (unsigned long long)le64_get(name->bytes));
        return;
    }
    json_begin("", '{');
    json_text("name", name->name, STORE_NAME_BYTES);
    json_number("address", le64_get(name->address));
    json_number("bytes", le64_get(name->bytes));
    json_end();
}

/* Names in which the store manager keeps a setting (user/store/kept.c). */
bool name_is_setting(const char *name)
{
    return name[0] == SETTING;
}

/* Program and arguments of the container's manager, from pieces that may come in any order. */
static bool manager_text(const struct kmodel *model, uint64_t object, char text[MANAGER_BYTES])
{
    bool any = false;
    memset(text, 0, MANAGER_BYTES);
    for (uint32_t i = 0; i < model->name_count; i++) {
        const char *name = model->names[i].value.name;
        size_t at = (size_t)(name[1] - 'A') * MANAGER_PIECE;
        if (model->names[i].object != object || !name_is_setting(name) ||
            at + STORE_NAME_BYTES > MANAGER_BYTES)
            continue;
        memcpy(text + at, name + 2, strnlen(name + 2, MANAGER_PIECE));
        any = true;
    }
    for (size_t i = strlen(text); i-- > 0;)
        text[i] = text[i] != '\n' ? text[i] : text[i + 1] ? ' ' : '\0';
    return any;
}

void names_show(const struct kmodel *model, uint64_t object, bool json)
{
    char text[MANAGER_BYTES];
    if (manager_text(model, object, text)) {
        if (json)
            json_text("manager", text, sizeof text);
        else
            printf("    manager %s\n", text);
    }
    if (json)
        json_begin("names", '[');
    for (uint32_t i = 0; i < model->name_count; i++)
        if (model->names[i].object == object && !name_is_setting(model->names[i].value.name))
            name_show(&model->names[i].value, json);
    if (json)
        json_end();
}
