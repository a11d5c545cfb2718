#include "daemon/access/rule.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/stream_name.h"

static const struct {
    const char *word;
    unsigned actions;
} actions[] = {{"publish", RULE_PUBLISH}, {"play", RULE_PLAY}, {"all", RULE_PUBLISH | RULE_PLAY}};

static const struct {
    const char *word;
    enum rule_way way;
    bool may_name, must_name;
} ways[] = {{"allow", RULE_ALLOW, false, false}, {"deny", RULE_DENY, false, false},   {"user", RULE_USER, true, false},
            {"token", RULE_TOKEN, true, true},   {"secret", RULE_SECRET, true, true}, {"cert", RULE_CERT, true, true}};

/* The next word between blanks; NULL: there is none. */
static char *next_word(char **text) {
    char *word;
    do
        word = strsep(text, " \t");
    while (word && !*word);
    return word;
}

static const char *read_actions(struct rule *rule, char *words) {
    for (char *word; (word = strsep(&words, ","));) {
        size_t i = 0;
        while (i < sizeof actions / sizeof *actions && strcmp(actions[i].word, word) != 0)
            i++;
        if (i == sizeof actions / sizeof *actions)
            return "expected publish, play or all at the beginning";
        rule->actions |= actions[i].actions;
    }
    return NULL;
}

static const char *read_ranges(struct rule *rule, char *words) {
    for (char *word; (word = strsep(&words, ","));) {
        if (rule->range_count == RULE_RANGES)
            return "at most 16 ranges in a rule";
        if (cidr_parse(word, &rule->ranges[rule->range_count++]) < 0)
            return "expected an address or a range such as 10.0.0.0/8 or fd00::/8 behind \"from\"";
    }
    return NULL;
}

static const char *read_way(struct rule *rule, char *word) {
    char *name = strchr(word, '=');
    size_t i = 0;
    if (name)
        *name++ = '\0';
    while (i < sizeof ways / sizeof *ways && strcmp(ways[i].word, word) != 0)
        i++;
    if (i == sizeof ways / sizeof *ways)
        return "expected allow, deny, user, user=NAME, token=KEY, secret=KEY or cert=NAME at the end";
    if (rule->way_count == RULE_WAYS)
        return "at most 16 ways in a rule";
    if (name && (!*name || !ways[i].may_name))
        return "expected a name behind \"user=\", \"token=\", \"secret=\" and \"cert=\" alone";
    if (!name && ways[i].must_name)
        return "expected a name: token=KEY, secret=KEY, cert=NAME";
    rule->ways |= ways[i].way;
    rule->way[rule->way_count].way = ways[i].way;
    rule->way[rule->way_count++].name = name;
    return NULL;
}

static const char *read_ways(struct rule *rule, char *words) {
    const char *wrong = NULL;
    for (char *word; !wrong && (word = strsep(&words, ","));)
        wrong = read_way(rule, word);
    if (!wrong && rule->ways & (RULE_ALLOW | RULE_DENY) && rule->way_count > 1)
        wrong = "allow and deny stand alone";
    return wrong;
}

static const char *read_rule(struct rule *rule) {
    static const char expected[] = "expected ACTIONS STREAM [from RANGES] WAYS";
    char *rest = rule->text, *first = next_word(&rest), *pattern = next_word(&rest), *last = next_word(&rest);
    if (!last)
        return expected;
    const char *wrong = read_actions(rule, first);
    rule->pattern = pattern;
    if (!wrong && !stream_pattern_is_valid(pattern, strlen(pattern)))
        wrong = "expected a stream's name, in which * stands for any characters, behind the actions";
    if (!wrong && strcmp(last, "from") == 0) {
        char *ranges = next_word(&rest);
        last = next_word(&rest);
        wrong = last ? read_ranges(rule, ranges) : expected;
    }
    if (!wrong)
        wrong = read_ways(rule, last);
    return wrong || !next_word(&rest) ? wrong : expected;
}

static void clear_rule(struct rule *rule) {
    free(rule->said);
    free(rule->where);
    free(rule->text);
}

const char *rules_add(struct rules *rules, const char *text, const char *where) {
    if (rules->count == RULES_MAX)
        return "more than 1000 rules";
    struct rule *list = reallocarray(rules->list, rules->count + 1, sizeof *list);
    if (!list)
        return "out of memory";
    rules->list = list;
    struct rule *rule = &list[rules->count];
    *rule = (struct rule){.said = strdup(text), .where = strdup(where), .text = strdup(text)};
    const char *wrong = rule->said && rule->where && rule->text ? read_rule(rule) : "out of memory";
    if (wrong)
        clear_rule(rule);
    else
        rules->count++;
    return wrong;
}

void rules_clear(struct rules *rules) {
    for (size_t i = 0; i < rules->count; i++)
        clear_rule(&rules->list[i]);
    free(rules->list);
    *rules = (struct rules){0};
}

static bool is_from(const struct rule *rule, const struct cidr_address *peer) {
    for (size_t i = 0; i < rule->range_count; i++)
        if (cidr_has(&rule->ranges[i], peer))
            return true;
    return rule->range_count == 0;
}

const struct rule *rules_find(const struct rules *rules, enum rule_action action, const char *stream, size_t length,
                              const struct cidr_address *peer) {
    for (size_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->list[i];
        if (rule->actions & action && is_from(rule, peer) && stream_pattern_fits(rule->pattern, stream, length))
            return rule;
    }
    return NULL;
}

/* Whether @pattern may fit names that are @path, or begin with it and a slash. @ret_all: it fits
 * all of these */
static bool may_fit(const char *pattern, const char *path, size_t length, bool *ret_all) {
    size_t begin = strcspn(pattern, "*"), common = begin < length ? begin : length;
    bool is_whole = pattern[begin] == '\0';
    *ret_all = strcmp(pattern + begin, "*") == 0 && begin <= length;
    if (memcmp(pattern, path, common) != 0)
        return false;
    if (is_whole && begin == length)
        return true;
    if (length == 0 || (!is_whole && begin <= length))
        return true;
    if (begin <= length || pattern[length] != '/')
        return false;
    *ret_all = strcmp(pattern + length, "/*") == 0;
    return true;
}

const struct rule *rules_find_below(const struct rules *rules, const struct rule *from, enum rule_action action,
                                    const char *path, size_t length, const struct cidr_address *peer,
                                    bool *ret_certain) {
    for (const struct rule *rule = from ? from : rules->list; rule < rules->list + rules->count; rule++)
        if (rule->actions & action && is_from(rule, peer) && may_fit(rule->pattern, path, length, ret_certain))
            return rule;
    return NULL;
}

/* Whether a rule fits all addresses that another one fits. */
static bool has_addresses(const struct rule *rule, const struct rule *other) {
    struct cidr ranges[RULE_RANGES];
    if (rule->range_count == 0)
        return true;
    memcpy(ranges, rule->ranges, sizeof ranges);
    for (size_t i = 0; i < other->range_count; i++)
        if (!cidr_cover(ranges, rule->range_count, &other->ranges[i]))
            return false;
    return other->range_count > 0;
}

/* The first rule before another one that fits all that it fits; NULL: there is none. */
static const struct rule *find_shadow(const struct rules *rules, size_t at, enum rule_action action) {
    const struct rule *rule = &rules->list[at];
    for (size_t i = 0; i < at; i++) {
        const struct rule *earlier = &rules->list[i];
        /* A star of its pattern is a character that only stars fit. */
        if (earlier->actions & action && stream_pattern_fits(earlier->pattern, rule->pattern, strlen(rule->pattern)) &&
            has_addresses(earlier, rule))
            return earlier;
    }
    return NULL;
}

void rules_each_shadowed(const struct rules *rules, rule_shadowed_fn *call, void *user) {
    for (size_t at = 0; at < rules->count; at++) {
        const struct rule *rule = &rules->list[at], *earlier = NULL;
        bool shadowed = true;
        for (unsigned action = RULE_PUBLISH; action <= RULE_PLAY && shadowed; action <<= 1) {
            if (!(rule->actions & action))
                continue;
            earlier = find_shadow(rules, at, (enum rule_action)action);
            shadowed = earlier;
        }
        if (shadowed)
            call(rule, earlier, user);
    }
}

bool rule_names_user(const struct rule *rule, const char *name) {
    for (size_t i = 0; i < rule->way_count; i++)
        if (rule->way[i].way == RULE_USER && (!rule->way[i].name || strcmp(rule->way[i].name, name) == 0))
            return true;
    return false;
}

bool rule_names_certificate(const struct rule *rule, const char *name) {
    for (size_t i = 0; i < rule->way_count; i++)
        if (rule->way[i].way == RULE_CERT && strcmp(rule->way[i].name, name) == 0)
            return true;
    return false;
}
