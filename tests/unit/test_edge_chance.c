/*
 * Publishers, players and the engine of a cluster do anything in any order, from a seed: no player
 * is sent a frame of an older epoch behind one of a newer, and what has been claimed is released.
 * SLUICE_TEST_SEED is the first seed, SLUICE_TEST_SEEDS how many follow.
 */
#include "support/cluster_rig.h"

static const char secret[] = "the secret of the cluster";
static const char name[] = "live/a";

enum {
    SEEDS = 4,
    STEPS = 120,
    PUBLISHERS = 64, /* in one run */
    PLAYERS = 8,
    EACH = 1000, /* frames of one publisher, at most */
    TURNS = 6,   /* between two frames */
};

struct source {
    struct rig_peer peer; /* fd -1: it has gone */
    struct rig_node *node;
    unsigned sent;
    uint64_t epochs[EACH]; /* with which each was published; 0: it was not, as far as can be said */
};

struct chance {
    struct cluster_rig rig;
    uint64_t random;
    struct source sources[PUBLISHERS];
    unsigned source_count;
    struct rig_peer players[PLAYERS];
    bool is_player[PLAYERS];
    unsigned checked; /* frames */
};

static uint32_t roll(struct chance *chance, uint32_t sides) {
    return random_between(&chance->random, 0, sides - 1);
}

static struct rig_node *any_node(struct chance *chance) {
    return &chance->rig.nodes[roll(chance, (uint32_t)chance->rig.count)];
}

/* Of a publisher that is live on its node; 0: it is not. */
static uint64_t epoch_of(const struct source *source) {
    const struct stream *stream = rig_find_stream(source->node, name);
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    char port[16];
    if (source->peer.fd < 0 || !stream || !stream->live || stream->source.is_remote)
        return 0;
    assert_int_equal(getsockname(source->peer.fd, (struct sockaddr *)&address, &size), 0);
    snprintf(port, sizeof port, ":%u", ntohs(address.sin_port));
    const char *colon = strrchr(stream->source.peer, ':');
    return colon && strcmp(colon, port) == 0 ? stream->cluster.epoch : 0;
}

static void leave(struct chance *chance, struct source *source) {
    if (source->peer.fd < 0)
        return;
    if (roll(chance, 2))
        sockets_reset_on_close(source->peer.fd);
    rig_hang_up(&source->peer);
}

static void publish_anywhere(struct chance *chance) {
    if (chance->source_count == PUBLISHERS)
        return;
    struct source *source = &chance->sources[chance->source_count++];
    source->node = any_node(chance);
    source->sent = 0;
    source->peer = rig_publish(source->node, name);
}

/* One frame of each that is there; those that have been refused go. */
static void send_frames(struct chance *chance) {
    uint64_t before[PUBLISHERS];
    for (unsigned i = 0; i < chance->source_count; i++) {
        struct source *source = &chance->sources[i];
        before[i] = epoch_of(source);
        if (source->peer.fd >= 0 && rig_status(&source->peer) != 0)
            rig_hang_up(&source->peer);
        if (source->peer.fd >= 0)
            rig_send(&source->peer, source->sent * 40, 'p', i * EACH + source->sent);
    }
    for (unsigned i = 0; i < TURNS; i++)
        rig_turn(&chance->rig);
    for (unsigned i = 0; i < chance->source_count; i++) {
        struct source *source = &chance->sources[i];
        if (source->peer.fd < 0)
            continue;
        const uint64_t after = epoch_of(source);
        source->epochs[source->sent++] = after == before[i] ? after : 0;
        assert_true(source->sent < EACH);
    }
}

static void check_player(struct chance *chance, struct rig_peer *player) {
    static struct rig_frames frames;
    uint64_t newest = 0;
    rig_get_frames(player, &frames);
    for (size_t i = 0; i < frames.count; i++) {
        const struct rig_frame *frame = &frames.list[i];
        const struct source *source = &chance->sources[frame->number / EACH];
        const uint64_t epoch = source->epochs[frame->number % EACH];
        assert_true(i == 0 || frame->time > frames.list[i - 1].time);
        assert_true(epoch == 0 || epoch >= newest);
        newest = epoch > newest ? epoch : newest;
        chance->checked += epoch > 0;
    }
}

static void end_player(struct chance *chance, unsigned i) {
    if (!chance->is_player[i])
        return;
    check_player(chance, &chance->players[i]);
    rig_hang_up(&chance->players[i]);
    chance->is_player[i] = false;
}

static void toggle_player(struct chance *chance) {
    const unsigned i = roll(chance, PLAYERS);
    if (chance->is_player[i]) {
        end_player(chance, i);
    } else {
        chance->players[i] = rig_play(any_node(chance), name);
        chance->is_player[i] = true;
    }
}

/* The engine answers late, or refuses, or forgets who has the stream, or goes back to what was
 * before. */
static void trouble_engine(struct chance *chance) {
    struct cluster_rig *rig = &chance->rig;
    struct rig_stream *stream = rig_stream(rig, name);
    switch (roll(chance, 6)) {
    case 0:
        rig->is_silent = true;
        break;
    case 1:
        rig->is_down = !rig->is_down;
        break;
    case 2:
        rig->is_mute = !rig->is_mute;
        break;
    case 3:
        stream->node = NULL;
        stream->claims = 0;
        break;
    case 4:
        stream->epoch -= stream->epoch > 1001;
        break;
    default:
        rig_answer_all(rig);
        break;
    }
}

static void step(struct chance *chance, bool has_trouble) {
    struct source *source = chance->source_count > 0 ? &chance->sources[roll(chance, chance->source_count)] : NULL;
    switch (roll(chance, 10)) {
    case 0:
    case 1:
        publish_anywhere(chance);
        break;
    case 2:
        if (source)
            leave(chance, source);
        break;
    case 3:
    case 4:
        toggle_player(chance);
        break;
    case 5:
        if (has_trouble)
            trouble_engine(chance);
        break;
    default:
        break;
    }
    send_frames(chance);
}

static void open_chance(struct chance *chance, uint64_t seed) {
    static const char *const ways[] = {"refuse", "take-over", "resume"};
    rig_open(&chance->rig);
    chance->random = seed;
    chance->source_count = 0;
    for (unsigned i = 0; i < RIG_NODES; i++) {
        const char *parents = seed & 1 && i > 1 ? roll(chance, 2) ? "a,b" : "c,b" : NULL;
        const char *const more[] = {"--same-name",
                                    ways[seed % 3],
                                    "--wait",
                                    seed & 4 ? "0" : "30",
                                    "--resume",
                                    "1",
                                    "--linger",
                                    roll(chance, 2) ? "0" : "1",
                                    parents ? "--cluster-parent" : NULL,
                                    parents,
                                    NULL};
        (void)rig_add(&chance->rig, (char[]){(char)('a' + i), 0}, secret, more);
    }
}

/* The engine is well again, and everybody leaves. */
static void close_chance(struct chance *chance, bool had_trouble) {
    struct cluster_rig *rig = &chance->rig;
    rig->is_down = rig->is_mute = false;
    rig_answer_all(rig);
    for (unsigned i = 0; i < PLAYERS; i++)
        end_player(chance, i);
    for (unsigned i = 0; i < chance->source_count; i++)
        leave(chance, &chance->sources[i]);
    for (size_t i = 0; i < rig->count; i++) {
        struct rig_node *node = &rig->nodes[i];
        RIG_UNTIL(rig, !rig_find_stream(node, name));
        RIG_UNTIL(rig, node->granted == node->released);
    }
    if (!had_trouble)
        assert_null(rig_stream(rig, name)->node);
    rig_close(rig);
}

static void run(bool has_trouble) {
    static struct chance chance;
    unsigned checked = 0;
    const char *first = getenv("SLUICE_TEST_SEED"), *seeds = getenv("SLUICE_TEST_SEEDS");
    const uint64_t begin = first ? strtoull(first, NULL, 10) : 1, count = seeds ? strtoull(seeds, NULL, 10) : SEEDS;
    for (uint64_t seed = begin; seed < begin + count; seed++) {
        chance = (struct chance){.source_count = 0};
        print_message("seed %llu\n", (unsigned long long)seed);
        open_chance(&chance, seed);
        for (unsigned i = 0; i < STEPS; i++)
            step(&chance, has_trouble);
        close_chance(&chance, has_trouble);
        checked += chance.checked;
    }
    print_message("%u frames\n", checked);
    assert_true(checked > count);
}

static void anything_in_any_order(void **state) {
    (void)state;
    run(false);
}

static void with_an_engine_in_trouble(void **state) {
    (void)state;
    run(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_in_any_order),
        cmocka_unit_test(with_an_engine_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
