#include "daemon/cluster/cluster_commands.h"

#include <stdlib.h>

void cluster_commands_init(struct cluster_commands *commands) {
    *commands = (struct cluster_commands){0};
    for (size_t i = 0; i < CLUSTER_COMMANDS_MAX; i++)
        commands->free[i] = (uint16_t)i;
}

static size_t most_for(enum cluster_purpose purpose) {
    size_t most = CLUSTER_COMMANDS_MAX;
    if (purpose == CLUSTER_FOR_CLAIM || purpose == CLUSTER_FOR_LOCATE)
        most -= CLUSTER_COMMANDS_RESERVED;
    return purpose == CLUSTER_FOR_LOCATE ? most - CLUSTER_COMMANDS_CLAIMS : most;
}

struct cluster_record *cluster_commands_add(struct cluster_commands *commands, enum cluster_purpose purpose,
                                            size_t count) {
    if (commands->count >= most_for(purpose))
        return NULL;
    struct cluster_record *record = calloc(1, sizeof *record + count * sizeof record->items[0]);
    if (!record)
        return NULL;
    size_t place = commands->free[commands->count++];
    record->tag = ++commands->sequence * CLUSTER_COMMANDS_MAX + place;
    record->purpose = purpose;
    record->count = count;
    commands->records[place] = record;
    commands->of[purpose]++;
    return record;
}

static struct cluster_record *take(struct cluster_commands *commands, size_t place) {
    struct cluster_record *record = commands->records[place];
    commands->records[place] = NULL;
    commands->free[--commands->count] = (uint16_t)place;
    commands->of[record->purpose]--;
    return record;
}

struct cluster_record *cluster_commands_take(struct cluster_commands *commands, uint64_t tag) {
    size_t place = tag % CLUSTER_COMMANDS_MAX;
    struct cluster_record *record = commands->records[place];
    return record && record->tag == tag ? take(commands, place) : NULL;
}

struct cluster_record *cluster_commands_take_any(struct cluster_commands *commands) {
    for (size_t place = 0; commands->count > 0 && place < CLUSTER_COMMANDS_MAX; place++)
        if (commands->records[place])
            return take(commands, place);
    return NULL;
}
