/* todo.c - a to-do list in memory that persists. */
#include <pstore.h>
#include <stdio.h>
#include <string.h>

struct item { struct item *next; char text[]; };
struct list { struct item *first; };    /* the container's root object */
static ps_container *container;

/* Each of these three is run as a transaction: all of it happens, or nothing. */
static int add(void *text) {
    struct list *list = ps_root(container);
    struct item *item = ps_alloc(container, sizeof *item + strlen(text) + 1, list);
    if (!list || !item)
        return -errno;
    strcpy(item->text, text);
    item->next = list->first;
    list->first = item;
    return 0;
}

static int done(void *text) {
    struct list *list = ps_root(container);
    if (!list)
        return -errno;
    struct item **link = &list->first;  /* what points to the item looked at */
    while (*link && strcmp((*link)->text, text) != 0)
        link = &(*link)->next;
    struct item *item = *link;
    if (!item)
        return -ENOENT;
    *link = item->next;
    return ps_free(item);
}

static int show(void *unused) {
    (void)unused;
    struct list *list = ps_root(container);
    if (!list)
        return -errno;
    for (struct item *item = list->first; item; item = item->next)
        printf("- %s\n", item->text);
    return 0;
}

int main(int argc, char **argv) {
    int (*what)(void *);
    if (argc == 1) {
        what = show;
    } else if (argc == 3 && strcmp(argv[1], "add") == 0) {
        what = add;
    } else if (argc == 3 && strcmp(argv[1], "done") == 0) {
        what = done;
    } else {
        fprintf(stderr, "use: todo, todo add TEXT, todo done TEXT\n");
        return 2;
    }
    container = ps_open("todo", PS_CREATE | PS_WRITE, PS_LAYOUT(struct list, 1));
    int error = container ? ps_transaction(what, argc == 3 ? argv[2] : NULL) : -errno;
    if (error)
        fprintf(stderr, "todo: %s\n", ps_strerror(error));
    return error != 0;
}
