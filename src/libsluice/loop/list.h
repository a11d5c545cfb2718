/*
 * A list with links inside its elements. The head is a link too; a link of all zero is in no list.
 */
#ifndef SLUICE_LOOP_LIST_H
#define SLUICE_LOOP_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct loop_list {
    struct loop_list *next, *prev;
} loop_list;

/* The structure that has the link as this member. */
#define LIST_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void loop_list_init(loop_list *head) {
    head->next = head->prev = head;
}

static inline bool loop_list_is_empty(const loop_list *head) {
    return head->next == head;
}

static inline void loop_list_remove(loop_list *link) {
    if (!link->next)
        return;
    link->next->prev = link->prev;
    link->prev->next = link->next;
    link->next = link->prev = NULL;
}

/* At the end; out of the list that it is in. */
static inline void loop_list_add(loop_list *head, loop_list *link) {
    loop_list_remove(link);
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

/* Takes out the first; NULL when there is none. */
static inline loop_list *loop_list_pop(loop_list *head) {
    loop_list *link = head->next;
    if (link == head)
        return NULL;
    loop_list_remove(link);
    return link;
}

/* All of @from go to the end of @to. */
static inline void loop_list_join(loop_list *to, loop_list *from) {
    if (loop_list_is_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    loop_list_init(from);
}

#endif
