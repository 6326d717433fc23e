/*
 * salvage.c - kstore salvage: copies what verifies from a damaged store into a new one.
 *
 * Containers keep ids, names, addresses, layouts and roots, so that pointers stay true. What is
 * copied is what a recovery would leave, as far as it can be had: where no checkpoint is whole,
 * the parts of both; where a page's home is damaged, its bytes from a part of the log that is not
 * needed any more but still there. A page that is lost is reported, reads as zeros, and stays
 * its owner's, since pointers may lead there.
 */
#include "salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct salvage {
    struct common common;
    uint64_t mib;
};

static const struct argp_option options[] = {
    { "size", 's', "MIB", 0, "size of the new image (default: that of the old store)", 0 },
    COMMON_FORCE("NEW if it exists"), COMMON_QUIET,
    { 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct salvage *salvage = state->input;
    if (key == 's' && !number_parse(value, 20, &salvage->mib))
        argp_error(state, "%s is no size", value);
    return key == 's' ? 0 : common_parse(key, value, state);
}

static const struct argp argp = { options, parse, "DAMAGED NEW", "Copies what verifies from a "
    "damaged store into a new one. DAMAGED is not changed."
    "\vStatus 0: nothing was lost. 1: the lines that begin with `lost` say what was.",
    NULL, NULL, NULL };

static void __attribute__((format(printf, 2, 3))) lost(struct copy *copy, const char *text, ...)
{
    va_list values;
    progress_end();
    va_start(values, text);
    printf("lost: ");
    vprintf(text, values);
    printf("\n");
    va_end(values);
    copy->losses++;
}

/* ---- containers */

static int container_copy(struct copy *copy, const struct kcontainer *c)
{
    const struct container_disk *disk = &c->disk;
    uint64_t zone = store_zone_base(copy->from->super.zone);
    struct store_layout layout = { .version = le32_get(disk->layout.version),
                                   .bytes = le32_get(disk->layout.bytes) };
    struct store_op op = { .type = STORE_OP_CREATE,
                           .name = disk->name,
                           .flags = le32_get(disk->flags),
                           .encoder = (enum store_encoder)le16_get(disk->encoder),
                           .locking = (enum store_locking)le16_get(disk->locking),
                           .protection = le16_get(disk->protection),
                           .durability = durability_asked(le16_get(disk->durability)),
                           .want_object = c->object,
                           .want_address = kview_address(copy->from, c, 0) };
    int error = copy_op(copy, &op);
    for (uint32_t s = 1; s < le32_get(disk->segment_count) && !error; s++) {
        op = (struct store_op){ .type = STORE_OP_GROW, .object = c->object, .want_address = zone +
                                le32_get(disk->segments[s].first_gib) * STORE_SEGMENT_UNIT };
        error = copy_op(copy, &op);
    }
    if (!error && disk->layout.type[0]) {
        memcpy(layout.type, disk->layout.type, sizeof layout.type);
        op = (struct store_op){ .type = STORE_OP_LAYOUT, .object = c->object, .layout = &layout,
                                .address = le64_get(disk->layout.root) };
        error = copy_op(copy, &op);
    }
    return error;
}

static int names_copy(struct copy *copy, const struct kcontainer *c)
{
    const struct kmodel *model = &copy->from->model;
    int error = 0;
    for (uint32_t i = 0; i < model->name_count && !error; i++) {
        const struct kname *name = &model->names[i];
        struct store_op op = { .type = STORE_OP_NAME_SET, .object = c->object,
                               .name = name->value.name,
                               .address = le64_get(name->value.address),
                               .bytes = le64_get(name->value.bytes) };
        if (name->object == c->object)
            error = copy_op(copy, &op);
    }
    return error;
}

/* Ids are never given twice, not even those of containers that are gone. */
static int ids_pass(struct copy *copy)
{
    const struct kmodel *model = &copy->from->model;
    uint64_t last = 0;
    for (uint32_t i = 0; i < model->container_count; i++)
        if (model->containers[i].object > last)
            last = model->containers[i].object;
    if (model->next_object <= last + 1)
        return 0;
    struct store_op op = { .type = STORE_OP_CREATE, .name = "salvage: ids up to here are taken",
                           .want_object = model->next_object - 1 };
    int error = copy_op(copy, &op);
    struct store_op gone = { .type = STORE_OP_DELETE, .object = op.object };
    return error ? error : copy_op(copy, &gone);
}

static int containers_copy(struct copy *copy)
{
    struct kmodel *model = &copy->from->model;
    objects_sort(model);
    for (uint32_t i = 0; i < model->container_count; i++) {
        const struct kcontainer *c = &model->containers[i];
        int error = container_copy(copy, c);
        if (!error)
            error = names_copy(copy, c);
        if (error == -EEXIST || error == -EINVAL || error == -ENOENT)
            lost(copy, "%.63s (container %llu): its name or place is taken", c->disk.name,
                 (unsigned long long)c->object);
        else if (error)
            return error;
    }
    return ids_pass(copy);
}

/* ---- pages */

static int page_copy(struct copy *copy, struct kleaf *leaf, uint32_t p)
{
    uint8_t bytes[BLOCK_BYTES];
    struct kview *from = copy->from;
    uint64_t page = leaf->index * from->super.extent_pages + p;
    struct kcontainer *c = kmodel_container(&from->model, leaf->object);
    if (!c)
        return 0;                       /* its container was reported */
    int error = kview_page(from, &from->model, leaf, p, bytes);
    if (error && error != -ENOMEM && past_find(copy, leaf, p, bytes)) {
        error = 0;
        copy->from_past++;
    }
    if (error == -ENOMEM)
        return error;
    if (error) {
        lost(copy, "%.63s (container %llu), page %llu at address %#llx: %s", c->disk.name,
             (unsigned long long)leaf->object, (unsigned long long)page,
             (unsigned long long)kview_address(from, c, page),
             error == -EUCLEAN ? "its bytes do not match their CRC" : "it cannot be read");
        leaf->claimed |= 1u << p;
        return 0;
    }
    error = copy_page(copy, leaf->object, page, bytes);
    return error == -ENOENT ? 0 : error;
}

/* Pages that belong to somebody without having been written, or that are lost. */
static int claims_copy(struct copy *copy, const struct kleaf *leaf)
{
    uint32_t n = copy->from->super.extent_pages;
    int error = 0;
    for (uint32_t p = 0, count; p < n && !error; p += count) {
        for (count = 0; p + count < n && leaf->claimed >> (p + count) & 1; count++)
            ;
        struct store_op op = { .type = STORE_OP_PAGE_CLAIM, .object = leaf->object,
                               .page = leaf->index * n + p, .count = count };
        error = count ? copy_op(copy, &op) : 0;
        count = count ? count : 1;
    }
    return error == -ENOENT ? 0 : error;        /* its container was reported */
}

static int pages_copy(struct copy *copy)
{
    struct kview *from = copy->from;
    struct kmodel *model = &from->model;
    int error = 0;
    for (uint32_t i = 0; i < model->leaf_count && !error; i++) {
        struct kleaf *leaf = kmodel_leaf_at(model, i);
        progress_show(NULL, "pages", i, model->leaf_count);
        for (uint32_t p = 0; leaf && p < from->super.extent_pages && !error; p++)
            if (leaf->mask >> p & 1)
                error = page_copy(copy, leaf, p);
        if (leaf && !error)
            error = claims_copy(copy, leaf);
    }
    return error;
}

/* ---- the new store */

static int target_make(struct image *image, const struct image *source, const struct kview *from,
                       const struct salvage *wish)
{
    uint64_t bytes = wish->mib ? wish->mib << 20 : from->super.disk_bytes;
    struct store_options format = { .log_bytes = from->super.log_bytes,
                                    .extent_bytes = from->super.extent_bytes,
                                    .zone = from->super.zone };
    if (!wish->common.force && access(wish->common.files[1], F_OK) == 0) {
        fprintf(stderr, "kstore: %s exists; give a new name, or --force to overwrite it\n",
                wish->common.files[1]);
        return CANNOT;
    }
    int status = image_open(image, wish->common.files[1],
                            O_RDWR | O_CREAT | (wish->common.force ? 0 : O_EXCL));
    if (status)
        return status;
    if (images_share(image, source)) {
        fprintf(stderr, "kstore: %s is the damaged store itself; give a new name\n", image->path);
        return WRONG_USE;
    }
    if (!uuid_random(format.uuid) || image_resize(image, 0) || image_resize(image, bytes)) {
        fprintf(stderr, "kstore: %s: %s\n", image->path, strerror(errno));
        return CANNOT;
    }
    struct disk_io io = image_disk_io(image);
    int error = store_format(&io, &host_memory, &format);
    if (error)
        fprintf(stderr, "kstore: %s: cannot create a store: %s\n", image->path, strerror(-error));
    return error ? CANNOT : SOUND;
}

static int copy_all(struct copy *copy)
{
    int error = copy_begin(copy);
    if (!error)
        error = containers_copy(copy);
    if (!error)
        error = pages_copy(copy);
    int end = copy_end(copy, true, error);
    return error ? error : end;
}

static int salvage(struct kview *from, struct image *image, int status)
{
    struct copy copy = { .from = from, .to_image = image };
    if (from->result.damage_lsn)
        lost(&copy, "what was committed from LSN %llu on",
             (unsigned long long)from->result.damage_lsn);
    else if (from->result.error)
        lost(&copy, "whatever the damaged metadata told of");
    int error = copy_all(&copy);
    progress_end();
    past_free(&copy);
    if (error) {
        fprintf(stderr, "kstore: %s: %s\n", image->path, error == -ENOSPC
                    ? "it is too small; try a larger --size" : strerror(-error));
        return CANNOT;
    }
    printf("saved: %u containers, %llu pages (%llu of them from older parts of the log); %llu "
           "losses\n", from->model.container_count, (unsigned long long)copy.pages,
           (unsigned long long)copy.from_past, (unsigned long long)copy.losses);
    return copy.losses ? DAMAGED : status == DAMAGED ? SOUND : status;
}

int salvage_main(int count, char **words)
{
    struct salvage wish = { .common.wanted = 2 };
    struct image from, to = { .count = 0 };
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&from, wish.common.files[0], &view);
    if (status > DAMAGED)
        return status;
    int made = target_make(&to, &from, &view, &wish);
    status = made ? made : salvage(&view, &to, status);
    image_close(&to);
    image_unview(&from, &view);
    return status;
}
