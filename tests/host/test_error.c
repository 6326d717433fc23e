/*
 * test_error.c - what ps_strerror says: every error that a public header names has a text, and an
 * error that several layers have is explained by the one that gave it.
 */
#include "fake_box.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>

/* Does the header name this error, as a whole word? */
static int names(const char *header, const char *error)
{
    const size_t length = strlen(error);
    for (const char *at = header; (at = strstr(at, error)); at += length)
        if (!strchr("_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", at[length]) && !isupper(at[-1]))
            return 1;
    return 0;
}

static void each_error_of_a_public_header_has_a_text(void **state)
{
    (void)state;
    glob_t headers;
    static char text[1 << 16];
    assert_int_equal(glob("libpstore/*.h", 0, NULL, &headers), 0);
    assert_int_equal(glob("libpstore/structures/*.h", GLOB_APPEND, NULL, &headers), 0);
    for (unsigned i = 0; i < headers.gl_pathc; i++) {
        FILE *header = fopen(headers.gl_pathv[i], "r");
        text[fread(text, 1, sizeof text - 1, header)] = 0;
        fclose(header);
        for (int error = 1; error < 134; error++)
            if (strerrorname_np(error) && names(text, strerrorname_np(error)) &&
                !strcmp(ps_strerror(-error), strerror(error)))
                fail_msg("%s: %s", headers.gl_pathv[i], strerrorname_np(error));
    }
    globfree(&headers);
}

/* An error that several layers have reads as that of the one that gave it. */
static void an_error_is_explained_by_the_layer_that_gave_it(void **state)
{
    (void)state;
    static const struct { enum error_call call; int error; const char *word; } told[] = {
        {ERROR_AREA, EPERM, "allow names"}, {ERROR_AREA, ENOTCONN, "area"},
        {ERROR_LATCH, EPERM, "latch"}, {ERROR_LATCH, EOWNERDEAD, "ps_latch_repaired"},
        {ERROR_ASK, ETIMEDOUT, "task"}, {ERROR_INDEX, EPERM, "index"},
        {ERROR_INDEX, E2BIG, "1,024"}, {ERROR_INDEX, EUCLEAN, "index"},
        {ERROR_SPREAD, EUCLEAN, "segment"}, {ERROR_PARALLEL, EMFILE, "queries"},
        {ERROR_SITE, EACCES, "store export"}, {ERROR_SITE, ENOTCONN, "have joined"},
        {ERROR_SITE, EISDIR, "one of its containers"},
    };
    for (unsigned i = 0; i < sizeof told / sizeof told[0]; i++) {
        error_told(told[i].call, -told[i].error);
        assert_non_null(strstr(ps_strerror(told[i].error), told[i].word));
        error_told(ERROR_OTHER, -told[i].error);
        assert_null(strstr(ps_strerror(told[i].error), told[i].word));
    }
    error_forget();
}

static int returns(void *error) { return *(int *)error; }
static int frees_its_root(void *root) { return (void)root, ps_free(ps_root(container)); }
static int allocates_much(void *unused)
{
    (void)unused;
    return ps_alloc(container, 2ull << 30, NULL) ? 0 : -errno;
}

/* The library's reasons for an error are given if the library returned it: those of that call. */
static void an_error_of_the_programs_own_is_not_explained_by_the_library(void **state)
{
    (void)state;
    static int own[] = {-ENOENT, -EINVAL, -EBUSY, -ENOSPC, -EEXIST, -EIO, -EACCES};
    assert_null(ps_open("nothing", PS_WRITE, NULL));
    assert_non_null(strstr(ps_strerror(errno), "PS_CREATE"));
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_int_equal(ps_transaction(returns, &own[i]), own[i]);
        assert_true(strlen(ps_strerror(own[i])) < 40);
    }
    int result = ps_transaction(frees_its_root, NULL);
    assert_int_equal(result, -EBUSY);
    assert_non_null(strstr(ps_strerror(result), "root"));
    result = ps_transaction(allocates_much, NULL);
    assert_int_equal(result, -ENOSPC);
    assert_non_null(strstr(ps_strerror(result), "1 GiB"));
    assert_int_equal(ps_delete("nothing"), -ENOENT);
    assert_null(strstr(ps_strerror(ENOENT), "PS_CREATE"));
}

/* A right that is missing is named, with what it is of and how it is given. */
static void a_right_that_is_missing_is_named(void **state)
{
    (void)state;
    enum { R = WIRE_MAY_READ, W = WIRE_MAY_WRITE, D = WIRE_MAY_DELETE, G = WIRE_MAY_GRANT };
    static const struct {
        uint64_t word[STORE_REQUEST_WORDS];
        const char *path, *to;
        int named;
        const char *text;
    } told[] = {
        {{W, R, 0}, "todo", NULL, 0, "todo may only be read here: WRITE is missing; whoever has "
         "WRITE and GRANT gives it by another name of it: `cap give THAT-NAME NEW-NAME rw`"},
        {{W, R, 0}, "todo", NULL, 1, "todo may only be read here: WRITE is missing; whoever has "
         "WRITE and GRANT gives it by `run --only todo:rw PROGRAM`"},
        {{D | G, R | W, 0}, "a/b", NULL, 0, "a/b may only be read and written here: DELETE and "
         "GRANT are missing; whoever has DELETE and GRANT gives it by another name of it: `cap "
         "give THAT-NAME NEW-NAME rwdg`"},
        {{W, R, 1}, "a/b", NULL, 0, "a may only be read here: WRITE is missing; whoever has WRITE "
         "and GRANT gives it by another name of it: `cap give THAT-NAME NEW-NAME rw`"},
        {{W, R, 1}, "b", NULL, 0, "this program's root directory may only be read here: WRITE is "
         "missing; whoever has WRITE and GRANT gives it by `with DIR:rw PROGRAM`"},
        {{W, R, 1 | WIRE_LACK_TO}, "a/b", "c/d", 0, "c may only be read here: WRITE is missing; "
         "whoever has WRITE and GRANT gives it by another name of it: `cap give THAT-NAME "
         "NEW-NAME rw`"},
        {{R, 0, 9}, "a/b", NULL, 0, "this program's root directory was not given to this program: "
         "READ is missing; whoever has READ and GRANT gives it by `with DIR:r PROGRAM`"},
        {{G, R, WIRE_LACK_HANDLE}, "a/b", NULL, 0, "what the handle is of may only be read here: "
         "GRANT is missing; whoever gave the handle can give one with more (ps_handle)"},
    };
    for (unsigned i = 0; i < sizeof told / sizeof told[0]; i++) {
        lack_told(told[i].word);
        error_told(ERROR_NAMES, lack_at(-EACCES, told[i].path, told[i].to, told[i].named));
        assert_string_equal(ps_strerror(EACCES), told[i].text);
        error_forget();                     /* the next one is the program's own */
        assert_true(strlen(ps_strerror(EACCES)) < 40);
    }
    static const uint64_t nothing[STORE_REQUEST_WORDS];
    lack_told(nothing);                     /* a store that does not say it */
    error_told(ERROR_OPEN, lack_at(-EACCES, "todo", NULL, 0));
    assert_non_null(strstr(ps_strerror(EACCES), "run --only NAME"));
    assert_int_equal(ps_lacks(KD_RIGHT_LOOK), -EPERM);
    assert_non_null(strstr(ps_strerror(EPERM), "allow look"));
    ps_lacks(KD_RIGHT_DISKS);
    assert_non_null(strstr(ps_strerror(EPERM), "allow disks"));
    error_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_right_that_is_missing_is_named),
        TEST(each_error_of_a_public_header_has_a_text),
        TEST(an_error_is_explained_by_the_layer_that_gave_it),
        TEST(an_error_of_the_programs_own_is_not_explained_by_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
