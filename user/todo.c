/* todo.c - a to-do list in memory that persists: todo, todo add TEXT, todo done TEXT */
#include <pstore.h>
#include <stdio.h>
#include <string.h>
struct item { struct item *next; char text[]; };
static ps_container *c; /* its root is the head of the list, an item without text */
static int add(void *text) {
    struct item *head = ps_root(c), *item = ps_alloc(c, sizeof *item + strlen(text) + 1, head);
    if (!head || !item) return -errno;
    strcpy(item->text, text);
    item->next = head->next;
    head->next = item;
    return 0;
}
static int done(void *text) {
    struct item *at = ps_root(c), *item = NULL;
    while (at && (item = at->next) && strcmp(item->text, text) != 0) at = item;
    return item ? (at->next = item->next, ps_free(item)) : -ENOENT;
}
static int list(void *dash) {
    struct item *at = ps_root(c), *i = at ? at->next : NULL;
    for (; i; i = i->next) printf("%s %s\n", (char *)dash, i->text);
    return 0;
}
int main(int argc, char **argv) {
    c = ps_open("todo", PS_CREATE | PS_WRITE, PS_LAYOUT(struct item, 1));
    int (*what)(void *) = argc < 3 ? list : strcmp(argv[1], "add") == 0 ? add : done;
    int error = c ? ps_transaction(what, argc < 3 ? "-" : argv[2]) : -errno;
    return error ? fprintf(stderr, "todo: %s\n", ps_strerror(error)), 1 : 0;
}
