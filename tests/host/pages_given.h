/* pages_given.h - the home of test_pages.c gives pages without its queue. Included by that test
 * alone. */
#ifndef KATYDID_PAGES_GIVEN_H
#define KATYDID_PAGES_GIVEN_H

/* ---- pages that nobody keeps from a client: it has them at once, and the next one too ---- */

static int is_free(int client, int page, int right)
{
    int blocked = w.waits[page];
    for (int s = 0; s < SITES; s++) blocked |= blocked_by(client, 0, page, right, s);
    return !blocked;
}

static void grant_push(int client, const struct site_page *e, uint64_t number)
{
    push(&w.to_client[client], (struct site_message){
        .kind = SITE_GRANT, .answer_to = number, .page = e->page, .right = e->right,
        .serial = e->serial, .count = (uint32_t)w.version[PAGE(e->page)]});
}

static void next_given(int client, int page)
{
    const struct site_page *e = pages_find(&w.agent[client], ADDRESS(page));
    if (!home_may_give(e) || !is_free(client, page, SITE_SHARED)) return;
    struct site_page *given = pages_make(&w.agent[client], ADDRESS(page));
    if (w.kernel[client][page] < SITE_SHARED) w.kernel[client][page] = SITE_SHARED;
    home_gave(given, ++w.serial[client]);
    grant_push(client, given, 0);
}

static int taken_now(int client, const struct site_message *m)
{
    int page = PAGE(m->page);
    if (!is_free(client, page, m->right)) return 0;
    struct site_page *e = pages_find(&w.agent[client], m->page);
    if (w.kernel[client][page] < m->right) w.kernel[client][page] = m->right;
    home_taken(e);
    int due = home_granted(e, m->right, ++w.serial[client]);
    grant_push(client, e, m->number);
    if (m->right == SITE_SHARED) next_given(client, (page + 1) % PAGES);
    call(client, page, due); /* frames keep their order */
    w.grants++;
    return 1;
}

#endif
