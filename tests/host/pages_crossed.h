/* pages_crossed.h - messages that cross, step by step, for test_pages.c: always page 0, client 0.
 * Included by that test alone. */
#ifndef KATYDID_PAGES_CROSSED_H
#define KATYDID_PAGES_CROSSED_H

static void asks(int right)
{
    struct site_page *e = pages_make(&w.client[0], ADDRESS(0));
    client_asked(e, ++w.number[0], client_wants(e, right, true));
    assert_int_equal(e->wanted, right);
    push(&w.to_home[0], (struct site_message){.kind = SITE_GET, .number = e->asked,
                                              .page = e->page, .right = (uint8_t)right});
    assert_true(at_home(0));
}

static void gets(int right)
{
    asks(right);
    assert_true(queue_step(0) && worker_notes(0, 0) && worker_ends(0, 0) && at_client(0));
    assert_int_equal(w.kernel[0][0], right);
}

/* crosses: the GET of an evicted page passes who waits; the answer to CALL is sent behind it. */
static void crosses(void)
{
    begin();
    gets(SITE_EXCLUSIVE);
    w.in_memory[0][0] = 0;
    wait_in(HOME, 0, 0, SITE_EXCLUSIVE);
    asks(SITE_EXCLUSIVE);
    assert_true(queue_step(0) && at_client(0) && recall_step(0, 0));
}

/* regranted: the client has GRANT and CALL, and answers; then who waits has the page. */
static void regranted(void)
{
    assert_true(at_client(0) && at_client(0) && recall_step(0, 0) && at_home(0));
    assert_true(queue_step(0));
    assert_int_equal(w.waits[0], 0);
    end();
}

static void passed_by_get(void **state)
{
    (void)state;
    crosses();
    assert_true(at_home(0) && w.passed && worker_notes(0, 0) && worker_ends(0, 0));
    regranted();
}

/* The answer comes when the page has been granted anew: it names an older grant. */
static void gone_of_older(void **state)
{
    (void)state;
    crosses();
    assert_true(worker_notes(0, 0) && worker_ends(0, 0) && at_home(0) && w.crossed == 1);
    assert_int_equal(w.kernel[0][0], SITE_EXCLUSIVE);
    regranted();
}

/* A GET is undone behind the kernel's word: others must not wait for what the client has not. */
static void undone_behind(void **state)
{
    (void)state;
    begin();
    gets(SITE_SHARED);
    asks(SITE_EXCLUSIVE);
    assert_true(queue_step(0));
    wait_in(HOME, 0, 0, SITE_SHARED);
    assert_true(worker_denied(0, 0) && at_client(0) && queue_step(0));
    assert_int_equal(w.waits[0], 0);
    assert_int_equal(w.kernel[0][0], SITE_SHARED);
    end();
}

/* The kernel gives more than was asked for, a neighbour, while the client has a GET of it open
 * behind who wants it at home: he must not wait for what the client has not. */
static void beyond_right(void **state)
{
    (void)state;
    begin();
    w.thread[HOME][1].used[0] = SITE_SHARED;
    wait_in(HOME, 0, 0, SITE_EXCLUSIVE);
    asks(SITE_EXCLUSIVE);
    w.kernel[0][0] = SITE_SHARED;
    tell_again(0, 0, SITE_NO);
    w.thread[HOME][1].used[0] = SITE_NO;
    assert_true(queue_step(0));
    assert_int_equal(w.thread[HOME][0].used[0], SITE_EXCLUSIVE);
    assert_int_equal(w.kernel[0][0], SITE_NO);
    end();
}

#endif
