/*
 * info.c - kstore info: what a store holds, as recovery would leave it.
 */
#include "kstore.h"

static const struct argp_option options[] = { COMMON_JSON, COMMON_QUIET, { 0 } };
static const struct argp argp = { options, common_parse, "IMAGE...",
    "Says what a store is and what it "
    "holds, as recovery would leave it. Nothing is written; data pages are not read.",
    NULL, NULL, NULL };

static const char *state_text(const struct kview *view)
{
    return view->result.damage_lsn || view->result.error ? "damaged"
         : view->result.was_clean ? "closed properly" : "not closed";
}

/* ---- as text */

static void container_print(const struct kview *view, const struct kcontainer *c)
{
    const struct layout_disk *layout = &c->disk.layout;
    printf("container %-24.63s id %llu at %#llx, %llu pages of %llu", c->disk.name,
           (unsigned long long)c->object, (unsigned long long)kview_address(view, c, 0),
           (unsigned long long)c->pages_present,
           (unsigned long long)kcontainer_pages(&c->disk));
    form_show(&c->disk, false);
    if (layout->type[0])
        printf(", root %#llx %.63s version %u%s (%u bytes)",
               (unsigned long long)le64_get(layout->root), layout->type,
               le32_get(layout->version) & INT32_MAX,
               le32_get(layout->version) > INT32_MAX ? ", being made by ps_upgrade" : "",
               le32_get(layout->bytes));
    printf("\n");
    names_show(&view->model, c->object, false);
}

static void view_print(const struct kview *view)
{
    const struct kslot *s = &view->super;
    char uuid[33], disk[32], log[32], extent[32];
    uuid_text(s->uuid, uuid);
    printf("store %s, format %u, zone %u, generation %llu, epoch %u, %s\n", uuid, s->version,
           s->zone, (unsigned long long)s->generation, s->epochs[s->epoch_count - 1].epoch,
           state_text(view));
    printf("disk %s, log %s, %llu extents of %s, %llu used\n", size_text(s->disk_bytes, disk),
           size_text(s->log_bytes, log), (unsigned long long)s->extents,
           size_text(s->extent_bytes, extent), (unsigned long long)view->model.live_leaves);
    printf("log from LSN %llu to %llu: %llu groups, %llu transactions to replay%s\n",
           (unsigned long long)view->result.redo_lsn, (unsigned long long)view->result.end_lsn,
           (unsigned long long)view->result.groups, (unsigned long long)view->result.transactions,
           view->result.torn_tail ? ", then a torn group" : "");
    for (uint32_t i = 0; i < view->model.doubt_count; i++)
        printf("%s: %llu pages\n", view->model.doubts[i].kept ? "decision kept for other stores"
               : "prepared transaction that waits for its coordinator",
               (unsigned long long)view->model.doubts[i].pages);
    for (uint32_t i = 0; i < view->model.container_count; i++)
        container_print(view, &view->model.containers[i]);
}

/* ---- as JSON */

static void container_json(const struct kview *view, const struct kcontainer *c)
{
    const struct layout_disk *layout = &c->disk.layout;
    json_begin("", '{');
    json_number("id", c->object);
    json_text("name", c->disk.name, STORE_NAME_BYTES);
    json_number("flags", le32_get(c->disk.flags));
    form_show(&c->disk, true);
    json_number("address", kview_address(view, c, 0));
    json_number("pages", kcontainer_pages(&c->disk));
    json_number("pages_present", c->pages_present);
    json_number("created", le64_get(c->disk.created));
    json_text("type", layout->type, STORE_NAME_BYTES);
    json_number("version", le32_get(layout->version));
    json_number("root", le64_get(layout->root));
    names_show(&view->model, c->object, true);
    json_end();
}

static void view_json(const struct kview *view)
{
    const struct kslot *s = &view->super;
    char uuid[33];
    uuid_text(s->uuid, uuid);
    json_begin("", '{');
    json_text("uuid", uuid, 32);
    json_number("format", s->version);
    json_text("state", state_text(view), 32);
    json_number("zone", s->zone);
    json_number("generation", s->generation);
    json_number("epoch", s->epochs[s->epoch_count - 1].epoch);
    json_number("disk_bytes", s->disk_bytes);
    json_number("log_bytes", s->log_bytes);
    json_number("extent_bytes", s->extent_bytes);
    json_number("extents", s->extents);
    json_number("extents_used", view->model.live_leaves);
    json_number("pages", view->model.pages_present);
    json_number("redo_lsn", view->result.redo_lsn);
    json_number("end_lsn", view->result.end_lsn);
    json_number("groups", view->result.groups);
    json_number("transactions", view->result.transactions);
    json_number("in_doubt", view->model.doubt_count);
    json_bool("torn_tail", view->result.torn_tail);
    json_bool("older_checkpoint", view->result.older_checkpoint);
    json_number("damage_lsn", view->result.damage_lsn);
    json_begin("containers", '[');
    for (uint32_t i = 0; i < view->model.container_count; i++)
        container_json(view, &view->model.containers[i]);
    json_end();
    json_end();
}

int info_main(int count, char **words)
{
    struct common wish = { .wanted = 1 };
    struct image image;
    struct kview view;
    command_parse(&argp, count, words, &wish);
    int status = image_view(&image, wish.files[0], &view);
    if (status > DAMAGED)
        return status;
    objects_sort(&view.model);
    if (wish.json)
        view_json(&view);
    else
        view_print(&view);
    image_unview(&image, &view);
    return status;
}
