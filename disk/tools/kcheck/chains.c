/*
 * chains.c - chains, and transactions of several stores. SPILL and PREPARED records stand outside
 * of transactions. A chain counts if a commit names it; what is prepared stays until a DECIDED
 * record of its id, and so does a decision that is kept.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* ---- chains */

static struct kchain *chain_get(struct kmodel *model, uint64_t number)
{
    for (uint32_t i = 0; i < model->chain_count; i++)
        if (model->chains[i].number == number)
            return &model->chains[i];
    return NULL;
}

int kchain_extend(struct kmodel *model, const struct kgroup *group, uint64_t number)
{
    struct kchain *chain = chain_get(model, number);
    if (!chain) {
        if (!karray_room((void **)&model->chains, model->chain_count, &model->chain_room,
                         sizeof *model->chains))
            return -ENOMEM;
        chain = &model->chains[model->chain_count++];
        *chain = (struct kchain){ .number = number, .head_lsn = group->lsn,
                                  .crc = (uint32_t)number };
    }
    if (chain->groups && chain->last_lsn == group->lsn)
        return 0;
    le32 crc = le32_of(group->crc);
    chain->last_lsn = group->lsn;
    chain->groups++;
    chain->crc_before = chain->crc;
    chain->crc = kcheck_crc(chain->crc, &crc, sizeof crc);
    return 0;
}

const char *kchain_end(struct kmodel *model, const struct record_disk *commit)
{
    const struct chain_disk *end = (const void *)(commit + 1);
    if (!le32_get(commit->data_bytes))
        return NULL;
    if (le32_get(commit->data_bytes) != sizeof *end)
        return "a commit record has a wrong size";
    struct kchain *chain = chain_get(model, le64_get(end->chain));
    if (!chain)
        return "its chain is not in the log";
    if (chain->head_lsn != le64_get(end->head_lsn) || chain->groups != le32_get(end->groups) ||
        chain->crc != le32_get(end->crc))
        return "its chain is not the one that was committed";
    *chain = model->chains[--model->chain_count];
    return NULL;
}

/* ---- what is in doubt */

static struct kdoubt *doubt_get(struct kmodel *model, const uint8_t *id)
{
    for (uint32_t i = 0; i < model->doubt_count; i++)
        if (!memcmp(model->doubts[i].id, id, sizeof model->doubts[i].id))
            return &model->doubts[i];
    return NULL;
}

static void doubt_drop(struct kmodel *model, struct kdoubt *doubt)
{
    free(doubt->table);
    *doubt = model->doubts[--model->doubt_count];
}

void kdoubts_free(struct kmodel *model)
{
    while (model->doubt_count)
        doubt_drop(model, model->doubts);
    free(model->doubts);
}

bool kdoubt_alone(const struct record_disk *record)
{
    uint64_t what = le64_get(record->page);
    unsigned type = le16_get(record->type);
    return type == RECORD_PREPARED ||
           (type == RECORD_DECIDED && what != DECIDED_COMMIT && what != DECIDED_KEPT);
}

/* doubt_enter notes a transaction in doubt; a newer record of it takes the place of an older
 * one. */
static int doubt_enter(struct kmodel *model, const uint8_t *id, bool kept, struct kdoubt **out,
                       const char **why)
{
    struct kdoubt *doubt = doubt_get(model, id);
    uint32_t same = 0;
    *why = "its id is that of something else in doubt";
    if (doubt && doubt->kept != kept)
        return -EUCLEAN;
    if (doubt)
        doubt_drop(model, doubt);
    for (uint32_t i = 0; i < model->doubt_count; i++)
        same += model->doubts[i].kept == kept;
    *why = "too much is in doubt";
    if (same >= (kept ? STORE_DECISIONS_MAX : STORE_PREPARED_MAX))
        return -EUCLEAN;
    if (!karray_room((void **)&model->doubts, model->doubt_count, &model->doubt_room,
                     sizeof *model->doubts))
        return -ENOMEM;
    *out = &model->doubts[model->doubt_count++];
    **out = (struct kdoubt){ .kept = kept };
    memcpy((*out)->id, id, sizeof (*out)->id);
    return 0;
}

/* The chain as it was before this group. */
static bool chain_holds(struct kmodel *model, const struct kgroup *group,
                        const struct chain_disk *told)
{
    const struct kchain *chain = chain_get(model, le64_get(told->chain));
    uint64_t groups = 0, head = 0;
    uint32_t crc = (uint32_t)le64_get(told->chain);
    if (chain) {
        bool here = chain->last_lsn == group->lsn;
        groups = chain->groups - here;
        crc = here ? chain->crc_before : chain->crc;
        head = groups ? chain->head_lsn : 0;
    }
    return groups == le32_get(told->groups) && crc == le32_get(told->crc) &&
           head == le64_get(told->head_lsn);
}

static int prepared_apply(struct kmodel *model, const struct kgroup *group,
                          const struct record_disk *record, uint64_t scan_lsn, const char **why)
{
    const struct prepared_disk *p = (const void *)(record + 1);
    uint64_t pages = le64_get(record->page), bytes = le32_get(record->data_bytes);
    struct kdoubt *doubt;
    *why = "a prepared record has a wrong size, or chain";
    if (bytes < sizeof *p || pages > (bytes - sizeof *p) / sizeof *doubt->table ||
        le64_get(p->chain.chain) != le64_get(record->base))
        return -EUCLEAN;
    uint64_t head = le64_get(p->chain.head_lsn);
    if (head && head < scan_lsn)        /* at the redo LSN it was over, or had been written again */
        return 0;
    *why = "a prepared transaction's chain is not the one that was prepared";
    if (!chain_holds(model, group, &p->chain))
        return -EUCLEAN;
    int error = doubt_enter(model, p->id, false, &doubt, why);
    if (error)
        return error;
    doubt->pages = pages;
    doubt->table = malloc((pages + 1) * sizeof *doubt->table);
    if (!doubt->table)
        return -ENOMEM;
    memcpy(doubt->table, p + 1, pages * sizeof *doubt->table);
    memcpy(doubt->coordinator, p->coordinator, sizeof doubt->coordinator);
    return 0;
}

static int decided_apply(struct kmodel *model, const struct record_disk *record, bool before,
                         const char **why)
{
    const struct decided_disk *d = (const void *)(record + 1);
    uint64_t what = le64_get(record->page), count = le64_get(record->base);
    struct kdoubt *doubt;
    *why = "a record of a decision is out of range";
    if (what >= DECIDED_COUNT || count > STORE_PARTICIPANTS_MAX ||
        le32_get(record->data_bytes) != sizeof *d + count * sizeof(struct participant_disk))
        return -EUCLEAN;
    if (what == DECIDED_KEPT || what == DECIDED_AGAIN)
        return doubt_enter(model, d->id, true, &doubt, why);
    doubt = doubt_get(model, d->id);
    *why = "a decision is about nothing that is in doubt";
    if (doubt && doubt->kept == (what == DECIDED_FORGET))
        doubt_drop(model, doubt);
    else if (!before)
        return -EUCLEAN;
    return 0;
}

int kdoubt_apply(struct kmodel *model, const struct kgroup *group,
                 const struct record_disk *record, uint64_t scan_lsn, const char **why)
{
    *why = "a record of a transaction in doubt has a wrong size";
    if (le32_get(record->data_bytes) < sizeof(struct decided_disk))
        return -EUCLEAN;
    return le16_get(record->type) == RECORD_PREPARED
               ? prepared_apply(model, group, record, scan_lsn, why)
               : decided_apply(model, record, scan_lsn != 0, why);
}

int kdoubts_count(struct kview *view, struct kmodel *model)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < model->doubt_count; i++)
        sum += crc32c(model->doubts[i].kept, model->doubts[i].id, sizeof model->doubts[i].id);
    bool same = !model->doubts_sum || model->doubts_sum == (model->doubt_count ? sum | 1 : 0);
    if (model->doubts_counted || (model->doubt_count == model->doubts_told && same)) {
        model->doubts_counted = true;
        return 0;
    }
    kview_find(view, KCHECK_DAMAGE, "TP5", "the checkpoint tells of %u transactions and decisions "
               "in doubt, and the log before it of %u, or others", model->doubts_told,
               model->doubt_count);
    return -EUCLEAN;
}

/* ---- at the end of the log */

static const char *page_wrong(struct kview *view, const struct kdoubt *doubt, uint64_t i,
                              uint8_t *bytes)
{
    const struct prepared_page_disk *p = &doubt->table[i];
    uint64_t lsn = le64_get(p->lsn), object = le64_get(p->object), page = le64_get(p->page);
    const struct kcontainer *container = kmodel_container(&view->model, object);
    if (!container || page >= kcontainer_pages(&container->disk))
        return "is of no container";
    if (lsn % BLOCK_BYTES || lsn < view->super.checkpoints[view->base].scan_lsn ||
        lsn >= view->result.end_lsn)
        return "has its image in no part of the log";
    for (const struct kdoubt *other = view->model.doubts; other <= doubt; other++)
        for (uint64_t x = 0; !other->kept && x < (other == doubt ? i : other->pages); x++)
            if (le64_get(other->table[x].object) == object &&
                le64_get(other->table[x].page) == page)
                return "is prepared twice";
    if (kunlogged(container))
        return NULL;
    if (kview_read(view, view->super.log_start + lsn % view->super.log_bytes, bytes, BLOCK_BYTES))
        return "has an image that cannot be read";
    return kcheck_crc(0, bytes, BLOCK_BYTES) == le32_get(p->crc) ? NULL : "has a damaged image";
}

int kdoubts_end(struct kview *view)
{
    uint8_t bytes[BLOCK_BYTES];
    const struct kmodel *model = &view->model;
    for (uint32_t d = 0; d < model->doubt_count; d++) {
        const struct kdoubt *doubt = &model->doubts[d];
        const char *why = NULL;
        uint64_t i = 0;
        if (doubt->pages > view->super.log_bytes / BLOCK_BYTES)
            why = "is one too many for the log";
        while (i < doubt->pages && !why)
            why = page_wrong(view, doubt, i++, bytes);
        if (!why)
            continue;
        kview_find(view, KCHECK_DAMAGE, "TP2", "a page of a prepared transaction %s", why);
        return -EUCLEAN;
    }
    return 0;
}

void kdoubts_tell(struct kview *view)
{
    for (uint32_t d = 0; d < view->model.doubt_count; d++) {
        const struct kdoubt *doubt = &view->model.doubts[d];
        char id[2 * sizeof doubt->id + 1];
        for (uint32_t i = 0; i < sizeof doubt->id; i++) {
            id[2 * i] = "0123456789abcdef"[doubt->id[i] >> 4];
            id[2 * i + 1] = "0123456789abcdef"[doubt->id[i] & 15];
        }
        id[2 * sizeof doubt->id] = 0;
        if (doubt->kept)
            kview_find(view, KCHECK_NOTE, "TP1", "transaction %s was committed, and other stores "
                       "may still ask for that", id);
        else
            kview_find(view, KCHECK_NOTE, "TP1", "transaction %s is prepared: its %llu pages wait "
                       "for the word of its coordinator", id, (unsigned long long)doubt->pages);
    }
}
