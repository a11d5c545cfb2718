#include "daemon/admin/admin_query.h"

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <string.h>

#include "shared/text.h"

/* One parameter. False where it is none of these, or out of range. */
typedef bool take_fn(const char *key, const char *value, void *to);

static bool read_number(const char *value, uint64_t least, uint64_t most, uint32_t *ret_number) {
    uint64_t number;
    if (!text_number(text_of(value), most, &number) || number < least)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

static bool take_sort(const char *value, struct stream_page *page) {
    for (enum stream_sort sort = 0; sort < STREAM_SORTS; sort++)
        if (strcmp(value, stream_sort_name(sort)) == 0) {
            page->sort = sort;
            return true;
        }
    return false;
}

static bool take_page(const char *key, const char *value, void *to) {
    struct stream_page *page = to;
    if (strcmp(key, "search") == 0 && strlen(value) <= STREAM_SEARCH) {
        memcpy(page->search, value, strlen(value) + 1);
        return true;
    }
    if (strcmp(key, "sort") == 0)
        return take_sort(value, page);
    if (strcmp(key, "order") == 0) {
        page->descending = strcmp(value, "desc") == 0;
        return page->descending || strcmp(value, "asc") == 0;
    }
    if (strcmp(key, "offset") == 0)
        return read_number(value, 0, STREAM_PAGE_MOST_OFFSET, &page->offset);
    return strcmp(key, "limit") == 0 && read_number(value, 1, STREAM_PAGE_MOST, &page->limit);
}

static bool take_location(const char *key, const char *value, void *to) {
    struct cluster_stream_page *page = to;
    if (strcmp(key, "search") == 0 && strlen(value) < sizeof page->search) {
        memcpy(page->search, value, strlen(value) + 1);
        return true;
    }
    if (strcmp(key, "node") == 0 && strlen(value) < sizeof page->node) {
        memcpy(page->node, value, strlen(value) + 1);
        return true;
    }
    if (strcmp(key, "offset") == 0)
        return read_number(value, 0, STREAM_PAGE_MOST_OFFSET, &page->offset);
    return strcmp(key, "limit") == 0 && read_number(value, 1, ADMIN_LIST_MOST, &page->limit);
}

static bool take_players(const char *key, const char *value, void *to) {
    return strcmp(key, "players") == 0 && read_number(value, 1, ADMIN_LIST_MOST, to);
}

static bool take_limit(const char *key, const char *value, void *to) {
    return strcmp(key, "limit") == 0 && read_number(value, 1, ADMIN_LIST_MOST, to);
}

static bool read_all(const char *query, take_fn *take, void *to) {
    struct evkeyvalq parameters;
    bool good = true;
    if (!query)
        return true;
    if (evhttp_parse_query_str(query, &parameters) < 0)
        return false;
    for (const struct evkeyval *one = parameters.tqh_first; one; one = one->next.tqe_next)
        good = good && take(one->key, one->value, to);
    evhttp_clear_headers(&parameters);
    return good;
}

bool admin_query_page(const char *query, struct stream_page *page) {
    return read_all(query, take_page, page);
}

bool admin_query_locations(const char *query, struct cluster_stream_page *page) {
    return read_all(query, take_location, page);
}

bool admin_query_players(const char *query, uint32_t *players) {
    return read_all(query, take_players, players);
}

bool admin_query_limit(const char *query, uint32_t *limit) {
    return read_all(query, take_limit, limit);
}
