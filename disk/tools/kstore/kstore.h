/*
 * kstore.h - what the subcommands of kstore share: exit status, images as disks, options, JSON.
 *
 * Only create, put, import, grow, upgrade, scrub, restore and salvage use the store's own code; the
 * others read an image through kcheck/view.h, which is the format chapter's reading of it, and so
 * also show damaged ones.
 */
#ifndef KATYDID_KSTORE_H
#define KATYDID_KSTORE_H

#include <argp.h>
#include <stdio.h>

#include "../kcheck/span.h"
#include "../kcheck/view.h"
#include "tools/lib/tools.h"

/* Exit status of every subcommand; `kstore --help` prints them. */
enum { SOUND = 0, DAMAGED = 1, WRONG_USE = 2, CANNOT = 3, NO_STORE = 4 };

/* ---- subcommands, one file each; words[0] is "kstore NAME" */

int create_main(int count, char **words);
int info_main(int count, char **words);
int put_main(int count, char **words);
int check_main(int count, char **words);
int dump_main(int count, char **words);
int log_main(int count, char **words);
int objects_main(int count, char **words);
int leaks_main(int count, char **words);
int map_main(int count, char **words);
int salvage_main(int count, char **words);
int grow_main(int count, char **words);
int upgrade_main(int count, char **words);
int scrub_main(int count, char **words);
int get_main(int count, char **words);
int backup_main(int count, char **words);
int archive_main(int count, char **words);
int restore_main(int count, char **words);
int export_main(int count, char **words);
int import_main(int count, char **words);

/* ---- command.c */

/* Options of most commands; a command's own parser hands keys it does not know to common_parse.
 * files[] are the arguments that are no options; too many or too few of them end the program. Where
 * one image is wanted there may be several, which become one argument with commas. */
struct common {
    const char *files[3];
    int  count, wanted, images;     /* images: more than one */
    bool json, quiet, force;
};
error_t common_parse(int key, char *value, struct argp_state *state);
#define COMMON_JSON  { "json", 'j', NULL, 0, "print JSON for programs", 0 }
#define COMMON_FORCE(WHAT) { "force", 'f', NULL, 0, "overwrite " WHAT, 0 }
#define COMMON_QUIET { "quiet", 'q', NULL, 0, "no progress bar", 0 }
/* Parses; wrong use ends the program with status 2, --help with 0. `input` begins with a common. */
void command_parse(const struct argp *argp, int count, char **words, void *input);
/* A number with K, M, G or T behind it; false: not one. */
bool size_parse(const char *text, uint64_t *bytes);
/* The same in units of 2^shift bytes, unless it names its own: 64 and 64M are the same --size. */
bool number_parse(const char *text, uint32_t shift, uint64_t *number);
const char *size_text(uint64_t bytes, char out[32]);

/* ---- image.c */

struct image_file {
    char    *path;
    int      descriptor;
    uint64_t bytes;             /* whole blocks */
};
/* An image, or those of all disks of a store. */
struct image {
    const char *path;           /* as it was given */
    uint32_t count;
    struct image_file file[SPAN_DISKS_MAX];
    uint64_t bytes;             /* of the whole */
    struct span span;           /* several: how the store sees them, and how kcheck does */
    struct disk_io span_io;
    struct kspan own;
    struct kcheck_io own_io;
};
/* 0, or another status after a message on stderr. For writing it must not be in use. A PATH that is
 * no file may be several with commas between them (a comma in a name is doubled): the disks of one
 * store, in any order; then *image must stay where it is. With O_CREAT nothing is looked for in
 * what is there. image_close in any case. */
int  image_open(struct image *image, const char *path, int flags);
void image_close(struct image *image);
/* One more file of an image that begins as zeros. */
int  image_add(struct image *image, const char *path, int flags);
/* Of one file. */
int  image_resize(struct image *image, uint64_t bytes);
bool images_share(const struct image *a, const struct image *b);    /* a file, under any name */
struct disk_io file_disk_io(struct image_file *file);
/* The names in a PATH as above, ended by NULL; the caller frees each. False: too many. */
bool paths_split(const char *path, char *names[SPAN_DISKS_MAX + 1]);
struct kcheck_io image_kcheck_io(struct image *image);
struct disk_io image_disk_io(struct image *image);
extern const struct disk_memory host_memory;
int  error_status(int error);           /* exit status for an error of opening a store */
const char *error_text(int error);
const char *image_error_text(struct image *image, int error);   /* also of what lies there */
/* Opens an image for a tool that shows what there is: findings go to stderr.
 * SOUND or DAMAGED: the view can be used (damage may have made it incomplete). */
int  image_view(struct image *image, const char *path, struct kview *view);
void image_unview(struct image *image, struct kview *view);
bool uuid_random(uint8_t uuid[16]);
void uuid_text(const uint8_t uuid[16], char out[33]);

/* backup.c */
/* Copies the store that `from` has open for reading; its log up to *end_lsn. A status. */
int image_backup(struct image *from, struct image *to, uint64_t *end_lsn);
int image_is_store(struct image *image);        /* SOUND, or another status after a message */

/* get.c: the container, or NULL after a message */
const struct kcontainer *container_named(const struct kview *view, const char *name);

/* ---- objects.c */

void objects_sort(struct kmodel *model);        /* containers by id, names by owner */
/* how it is logged, locked, protected, and when durable */
void form_show(const struct container_disk *container, bool json);
/* What a copy is to have: a lost one is one to be rebuilt. */
enum store_durability durability_asked(uint32_t durability);
/* A name of the store manager's own, which is none of an object. */
bool name_is_setting(const char *name);
/* the manager and the named objects of one */
void names_show(const struct kmodel *model, uint64_t object, bool json);

/* ---- progress.c: a bar on stderr if that is a terminal */

void progress_show(void *context, const char *what, uint64_t done, uint64_t of);
void progress_end(void);
extern bool progress_off;
/* Findings as lines on stdout or stderr (context is the FILE *). */
void finding_print(void *context, enum kcheck_level level, const char *label, const char *text);

/* ---- json.c: a writer that keeps commas and nesting; "" as key inside lists */

void json_begin(const char *key, char bracket);
void json_end(void);
void json_number(const char *key, uint64_t value);
void json_bool(const char *key, bool value);
void json_text(const char *key, const char *value, size_t most);
void json_hex(const char *key, uint32_t value);

#endif
