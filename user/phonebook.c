/*
 * phonebook.c - a phone book: people in memory that persists, found by name and by number.
 *
 * A person is one object. Two B+-trees lead to it: by name, which several people may share, and by
 * number, which only one has. Each command is one transaction, so that all three change together or
 * not at all.
 */
#include <pstore.h>
#include <stdio.h>
#include <string.h>
#include <structures/tree.h>

struct person { char number[24]; char name[]; };
PS_STRING_TREE(by_name, struct person *);
PS_STRING_TREE(by_number, struct person *);
struct book { struct by_name_head names; struct by_number_head numbers; };     /* the root object */

static ps_container *container;
static struct by_name names = {.name = "names", .flags = PS_DUPLICATES};
static struct by_number numbers = {.name = "numbers"};

/* The two instances; the first transaction of all sets their trees up. */
static int book_open(void) {
    struct book *book = ps_root(container);
    if (!book)
        return -errno;
    names.head = &book->names;
    numbers.head = &book->numbers;
    names.memory = numbers.memory = ps_in(container);
    int error = by_name_set_up(&names);
    if (error == 0)
        error = by_number_set_up(&numbers);
    return error == -EEXIST ? 0 : error;
}

static int add(char **words) {
    PS_ACCESS(by_name_keyed, name, &names, PS_CHANGE);
    PS_ACCESS(by_number_keyed, number, &numbers, PS_CHANGE);
    if (strlen(words[1]) >= sizeof((struct person *)0)->number)
        return -EOVERFLOW;
    struct person *person = ps_alloc(container, sizeof *person + strlen(words[0]) + 1, NULL);
    if (!person)
        return -errno;
    strcpy(person->number, words[1]);
    strcpy(person->name, words[0]);
    int error = by_number_insert(&number, person->number, &person);
    return error ? error : by_name_insert(&name, person->name, &person);
}

static int show(const char *from, const char *to) {
    PS_ACCESS(by_name_range, range, &names, from, to, PS_UP, PS_LOOK);
    struct person *const *found = by_name_next(&range);
    int none = !found;
    for (; found; found = by_name_next(&range))
        printf("%-20s %s\n", (*found)->name, (*found)->number);
    return errno ? -errno : none && from ? -ENOENT : 0;
}
static int list(char **words) { (void)words; return show(NULL, NULL); }
static int find(char **words) { return show(words[0], words[0]); }
static int range(char **words) { return show(words[0], words[1]); }

static int whose(char **words) {
    PS_ACCESS(by_number_keyed, number, &numbers, PS_LOOK);
    struct person *const *found = by_number_find(&number, words[0]);
    return found ? printf("%s\n", (*found)->name), 0 : -errno;
}

/* Of the people with that name it is the one with that number who leaves. */
static int removed(char **words) {
    PS_ACCESS(by_number_keyed, number, &numbers, PS_CHANGE);
    struct person *const *found = by_number_find(&number, words[0]);
    if (!found)
        return -errno;
    struct person *person = *found;
    by_number_remove(&number, words[0]);
    PS_ACCESS(by_name_range, range, &names, person->name, person->name, PS_UP, PS_CHANGE);
    do
        found = by_name_next(&range);
    while (found && *found != person);
    int error = by_name_drop(&range);
    return error ? error : ps_free(person);
}

static int check(char **words) {
    (void)words;
    PS_ACCESS(by_name_keyed, name, &names, PS_LOOK);
    PS_ACCESS(by_number_keyed, number, &numbers, PS_LOOK);
    struct ps_tree_stats a, b;
    const char *why;
    int error = ps_tree_check(&name.access, &a, &why);
    if (error == 0)
        error = ps_tree_check(&number.access, &b, &why);
    if (error)
        return fprintf(stderr, "phonebook: %s\n", why), error;
    return a.records == b.records ? printf("%d people, sound\n", (int)a.records), 0 : -EUCLEAN;
}

struct command { const char *name; int words; int (*run)(char **words); char **argv; };
static int transaction(void *arg) {
    const struct command *command = arg;
    int error = book_open();
    return error ? error : command->run(command->argv);
}

int main(int argc, char **argv) {
    struct command commands[] = { { "list", 0, list, 0 },   { "find", 1, find, 0 },
                                  { "whose", 1, whose, 0 }, { "range", 2, range, 0 },
                                  { "add", 2, add, 0 },     { "remove", 1, removed, 0 },
                                  { "check", 0, check, 0 }, { NULL, 0, NULL, 0 } };
    struct command *c = commands;
    while (c->name && (argc < 2 || argc != c->words + 2 || strcmp(argv[1], c->name) != 0))
        c++;
    if (!c->name)
        return fprintf(stderr, "use: phonebook add NAME NUMBER, find NAME, whose NUMBER, range "
                               "FROM TO, remove NUMBER,"
                               " list, check\n"),
               2;
    c->argv = argv + 2;
    container = ps_open("phonebook", PS_CREATE | PS_WRITE, PS_LAYOUT(struct book, 1));
    int error = container ? ps_transaction(transaction, c) : -errno;
    if (error)
        fprintf(stderr, "phonebook: %s\n", ps_strerror(error));
    return error != 0;
}
