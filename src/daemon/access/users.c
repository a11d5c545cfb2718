#include "daemon/access/users.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct users {
    char text[SECRET_FILE_MAX + 1]; /* that names and passwords lie in */
    struct user list[USERS_MAX];
    size_t count;
};

static unsigned take_rights(char **line) {
    static const struct {
        const char *word;
        unsigned rights;
    } words[] = {{"publish ", USER_MAY_PUBLISH}, {"play ", USER_MAY_PLAY}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(*line, words[i].word, strlen(words[i].word)) == 0) {
            *line += strlen(words[i].word);
            return words[i].rights;
        }
    }
    return USER_MAY_PUBLISH | USER_MAY_PLAY;
}

/* What is wrong with the line, or NULL. */
static const char *take_line(struct users *users, char *line) {
    struct user user = {.rights = take_rights(&line)};
    char *colon = strchr(line, ':');
    if (!colon || colon == line || !colon[1])
        return "expected NAME:PASSWORD";
    *colon = '\0';
    if (strpbrk(line, " \t\""))
        return "a name has no blanks and quotes; before it may be \"publish\" or \"play\"";
    if (users_find(users, line, strlen(line)))
        return "a second line for that name";
    if (users->count == USERS_MAX)
        return "more than 1000 users";
    user.name = line;
    user.password = colon + 1;
    users->list[users->count++] = user;
    return NULL;
}

int users_load(const char *path, struct users **ret_users, char error[USERS_ERROR]) {
    struct users *users = calloc(1, sizeof *users);
    if (!users) {
        snprintf(error, USERS_ERROR, "%s: out of memory", path);
        return -ENOMEM;
    }
    int result = secret_file_read(path, users->text, error);
    unsigned number = 0;
    for (char *rest = users->text, *line; result == 0 && (line = strsep(&rest, "\n"));) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        const char *wrong = *line && *line != '#' ? take_line(users, line) : NULL;
        if (wrong) {
            snprintf(error, USERS_ERROR, "%s:%u: %s", path, number, wrong);
            result = -EINVAL;
        }
    }
    if (result == 0 && users->count == 0) {
        snprintf(error, USERS_ERROR, "%s: no user in it", path);
        result = -EINVAL;
    }
    if (result < 0) {
        users_free(users);
        return result;
    }
    *ret_users = users;
    return 0;
}

void users_free(struct users *users) {
    if (!users)
        return;
    explicit_bzero(users, sizeof *users);
    free(users);
}

const struct user *users_find(const struct users *users, const char *name, size_t length) {
    for (size_t i = 0; i < users->count; i++)
        if (strlen(users->list[i].name) == length && memcmp(users->list[i].name, name, length) == 0)
            return &users->list[i];
    return NULL;
}

bool users_equal(const struct users *a, const struct users *b) {
    if (!a || !b || a->count != b->count)
        return a == b;
    for (size_t i = 0; i < a->count; i++) {
        const struct user *one = &a->list[i], *other = &b->list[i];
        if (strcmp(one->name, other->name) != 0 || strcmp(one->password, other->password) != 0 ||
            one->rights != other->rights)
            return false;
    }
    return true;
}

const struct user *users_first(const struct users *users) {
    return &users->list[0];
}
