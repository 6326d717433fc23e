/* list.h - doubly linked circular lists whose links lie inside their elements. */
#ifndef KERNEL_LIST_H
#define KERNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list { struct list *next, *prev; };

#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define list_first(l, type, member) container_of((l)->next, type, member)
#define list_for(p, l) for (struct list *p = (l)->next; p != (l); p = p->next)
/* list_each visits each element; the element must stay in the list meanwhile. */
#define list_each(type, v, l, member)                              \
    for (type *v = list_first(l, type, member); &v->member != (l); \
         v = list_first(&v->member, type, member))
#define list_for_safe(p, l)                                         \
    for (struct list *p = (l)->next, *p##_next = p->next; p != (l); \
         p = p##_next, p##_next = p->next)

#define LIST_INIT(l) {&(l), &(l)}
static inline void list_init(struct list *l) { l->next = l->prev = l; }
static inline bool list_empty(const struct list *l) { return l->next == l; }
static inline void list_insert_before(struct list *at, struct list *n)
{
    n->next = at;
    n->prev = at->prev;
    at->prev->next = n;
    at->prev = n;
}
static inline void list_push_back(struct list *l, struct list *n) { list_insert_before(l, n); }
static inline void list_push_front(struct list *l, struct list *n)
{
    list_insert_before(l->next, n);
}
/* Removing leaves the element linked to itself, so that removing twice is harmless. */
static inline void list_remove(struct list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->next = n->prev = n;
}
static inline struct list *list_pop(struct list *l)
{
    struct list *n = l->next;
    if (n == l)
        return NULL;
    list_remove(n);
    return n;
}
/* list_move_all appends all elements of a list to another one. */
static inline void list_move_all(struct list *from, struct list *to)
{
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}
/* list_take takes the first element out and returns it, or NULL. */
#define list_take(type, l, member)                                                                \
    ({ struct list *n_ = list_pop(l); n_ ? container_of(n_, type, member) : NULL; })

#endif
