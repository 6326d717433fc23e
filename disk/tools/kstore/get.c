/*
 * get.c - kstore get: a file of a container's bytes; pages that were never written are holes.
 */
#include "kstore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct argp_option options[] = {
    COMMON_FORCE("FILE if it exists"), COMMON_QUIET,
    { 0 },
};
static const struct argp argp = { options, common_parse, "IMAGE CONTAINER FILE",
    "Writes the bytes of a container to FILE: page N of it at byte N * 4096. Pages that were never "
    "written are holes."
    "\vStatus 1: pages were lost; they are holes, too, and the lines that begin with `lost` name "
    "them. `kstore put` makes a container of such a file.", NULL, NULL, NULL };

/* Pages of one extent; *lost counts. 0 or -errno of the file. */
static int leaf_get(struct kview *view, const struct kleaf *leaf, int file, uint64_t counts[2])
{
    uint8_t bytes[BLOCK_BYTES];
    for (uint32_t p = 0; p < view->super.extent_pages; p++) {
        uint64_t page = leaf->index * view->super.extent_pages + p;
        if (!(leaf->mask >> p & 1))
            continue;
        if (kview_page(view, &view->model, leaf, p, bytes)) {
            printf("lost: page %llu\n", (unsigned long long)page);
            counts[1]++;
        } else if (pwrite(file, bytes, sizeof bytes, (off_t)(page * sizeof bytes)) !=
                   (ssize_t)sizeof bytes) {
            return errno ? -errno : -ENOSPC;
        } else {
            counts[0]++;
        }
    }
    return 0;
}

static int container_get(struct kview *view, const struct kcontainer *c, int file)
{
    const struct kmodel *model = &view->model;
    uint64_t counts[2] = { 0 };
    int error = 0;
    for (uint32_t i = 0; i < model->leaf_count && !error; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        if (leaf && leaf->object == c->object)
            error = leaf_get(view, leaf, file, counts);
    }
    if (error)
        return fprintf(stderr, "kstore: writing: %s\n", strerror(-error)), CANNOT;
    printf("%llu pages of %.63s, %llu lost\n", (unsigned long long)counts[0], c->disk.name,
           (unsigned long long)counts[1]);
    return counts[1] ? DAMAGED : SOUND;
}

const struct kcontainer *container_named(const struct kview *view, const char *name)
{
    const struct kmodel *model = &view->model;
    for (uint32_t i = 0; i < model->container_count; i++)
        if (strlen(name) < STORE_NAME_BYTES &&
            strncmp(model->containers[i].disk.name, name, STORE_NAME_BYTES) == 0)
            return &model->containers[i];
    fprintf(stderr, "kstore: there is no container %s; `kstore info` lists them\n", name);
    return NULL;
}

int get_main(int count, char **words)
{
    struct common wish = { .wanted = 3 };
    struct image image;
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&image, wish.files[0], &view);
    if (status > DAMAGED)
        return status;
    const struct kcontainer *c = container_named(&view, wish.files[1]);
    int file = c ? open(wish.files[2], O_WRONLY | O_CREAT | O_CLOEXEC |
                        (wish.force ? O_TRUNC : O_EXCL), 0644) : -1;
    if (c && file < 0)
        fprintf(stderr, "kstore: %s: %s\n", wish.files[2],
                errno == EEXIST ? "exists; --force overwrites it" : strerror(errno));
    int got = file < 0 ? CANNOT : container_get(&view, c, file);
    if (file >= 0 && close(file) && got < CANNOT) {
        perror(wish.files[2]);
        got = CANNOT;
    }
    image_unview(&image, &view);
    return got > status ? got : status;
}
