/* Streams that another node has: servers of one process, with an engine that is the test's. */
#include "support/cluster_rig.h"

#include "daemon/cluster/cluster_command.h"
#include "daemon/cluster/cluster_sign.h"
#include "shared/text.h"

static const char secret[] = "the secret of the cluster";
static const char name[] = "live/a";
static const char *const no_wait[] = {"--wait", "0", NULL};

enum { PLAYERS = 40, FRAMES = 20 };

/* A player at b gets what is published at a: one pull for all of b's players, which ends some time
 * after the last. */
static void one_pull_for_all_players(void **state) {
    struct cluster_rig rig;
    struct rig_peer players[PLAYERS];
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, no_wait);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    for (size_t i = 0; i < PLAYERS; i++)
        players[i] = rig_play(b, name);
    for (unsigned n = 1; n < FRAMES; n++) {
        rig_send(&publisher, n * 40, 'a', n);
        rig_wait(&rig, 5);
    }
    for (size_t i = 0; i < PLAYERS; i++) {
        RIG_UNTIL(&rig, rig_has(&players[i], 'a', FRAMES - 1));
        assert_true(rig_check_order(&players[i], "a") > 0);
    }
    assert_true(rig_is_live(b, name, true));
    assert_int_equal(b->connects, 1);
    assert_int_equal(b->located, 1);
    assert_int_equal(rig_players(a, name), 1);
    assert_int_equal(rig_players(b, name), PLAYERS);
    assert_string_equal(rig_find_stream(a, name)->players->protocol, "cluster");
    assert_true(rig_find_stream(b, name)->cluster.epoch == rig_stream(&rig, name)->epoch);
    for (size_t i = 0; i < PLAYERS; i++)
        rig_hang_up(&players[i]);
    RIG_UNTIL(&rig, rig_players(b, name) == 0);
    assert_true(rig_is_live(b, name, true));
    RIG_UNTIL(&rig, !rig_find_stream(b, name));
    assert_int_equal(b->forgotten, 1);
    RIG_UNTIL(&rig, rig_players(a, name) == 0);
    rig_hang_up(&publisher);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    assert_int_equal(a->granted, 1);
    assert_int_equal(a->released, 1);
    rig_close(&rig);
}

/* Whatever --wait says, a player waits for the answer; and no longer, where there is none. */
static void players_wait_for_the_lookup(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, no_wait);
    rig.is_silent = true;
    struct rig_peer player = rig_play(b, name), other = rig_play(b, "live/other");
    rig_wait(&rig, 1200);
    assert_int_equal(rig_status(&player), 0);
    assert_int_equal(rig_status(&other), 0);
    rig_answer_all(&rig);
    RIG_UNTIL(&rig, rig_status(&player) == 404);
    RIG_UNTIL(&rig, rig_status(&other) == 404);
    rig_hang_up(&player);
    rig_hang_up(&other);

    /* It is there, and its first media take their time. */
    struct rig_peer publisher = rig_publish(a, name);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    rig_wait(&rig, 1000);
    player = rig_play(b, name);
    rig_wait(&rig, 1200);
    assert_int_equal(rig_status(&player), 0);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* A player that came first is sent the stream when it begins anywhere. */
static void a_player_may_be_first(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL);
    struct rig_peer player = rig_play(b, name);
    RIG_UNTIL(&rig, rig_find_stream(b, name) && rig_find_stream(b, name)->cluster.search == STREAM_SEARCH_FAILED);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    assert_int_equal(b->located, 1);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

static const char *const take_over[] = {"--same-name", "take-over", NULL};

/* The publisher goes from node to node; the players of all go on, and times rise. */
static void players_follow_the_publisher(void **state) {
    struct cluster_rig rig;
    struct rig_peer players[3], publishers[3];
    uint32_t time = 0;
    (void)state;
    rig_open(&rig);
    for (int i = 0; i < 3; i++)
        (void)rig_add(&rig, (char[]){(char)('a' + i), 0}, secret, take_over);
    for (int i = 0; i < 3; i++)
        players[i] = rig_play(&rig.nodes[i], name);
    for (int i = 0; i < 3; i++) {
        publishers[i] = rig_publish(&rig.nodes[i], name);
        for (unsigned n = 0; n < FRAMES; n++, time += 40) {
            rig_send(&publishers[i], i == 1 ? time + 5000000 : time, (char)('a' + i), n);
            rig_wait(&rig, 5);
        }
        for (int p = 0; p < 3; p++) {
            rig_wait(&rig, 100);
            rig_send(&publishers[i], i == 1 ? time + 5000000 : time, (char)('a' + i), FRAMES + (unsigned)p);
            time += 40;
            RIG_UNTIL(&rig, rig_has(&players[p], (char)('a' + i), FRAMES + (unsigned)p));
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(rig_check_order(&players[i], "abc") > FRAMES);
        assert_true(rig_is_live(&rig.nodes[i], name, i != 2));
    }
    for (int i = 0; i < 2; i++) {
        RIG_UNTIL(&rig, rig_status(&publishers[i]) == 409);
        assert_true(rig_says(&publishers[i], "published on another node"));
    }
    for (int i = 0; i < 3; i++) {
        rig_hang_up(&players[i]);
        rig_hang_up(&publishers[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        RIG_UNTIL(&rig, !rig_find_stream(&rig.nodes[i], name));
        assert_int_equal(rig.nodes[i].granted, rig.nodes[i].released);
    }
    rig_close(&rig);
}

/* A node dies; its publisher comes to another one. */
static void the_origin_dies(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL),
                    *c = rig_add(&rig, "c", secret, NULL);
    struct rig_peer player = rig_play(b, name), publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    rig_stop(a);
    rig_hang_up(&publisher);
    rig_wait(&rig, 800);
    /* It has been looked for at the same place, in vain. */
    assert_in_range(b->connects, 2, 6);
    assert_in_range(b->located, 2, 6);
    a->has_left = true;
    publisher = rig_publish(c, name);
    rig_send(&publisher, 7, 'c', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'c', 0));
    assert_int_equal(rig_check_order(&player, "ac"), 2);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* What comes from elsewhere gives way to a publisher of this node, at once; and comes again when
 * that has gone elsewhere. */
static void a_publisher_comes_to_an_edge(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, take_over), *b = rig_add(&rig, "b", secret, take_over);
    struct rig_peer player = rig_play(b, name), first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    struct rig_peer second = rig_publish(b, name);
    rig_send(&second, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'b', 0));
    assert_true(rig_is_live(b, name, false));
    assert_int_equal(b->connects, 1);
    RIG_UNTIL(&rig, rig_status(&first) == 409);
    struct rig_peer third = rig_publish(a, name);
    rig_send(&third, 0, 'c', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'c', 0));
    assert_true(rig_is_live(b, name, true));
    assert_int_equal(rig_check_order(&player, "abc"), 3);
    rig_hang_up(&player);
    rig_hang_up(&first);
    rig_hang_up(&second);
    rig_hang_up(&third);
    rig_close(&rig);
}

/* An engine that has forgotten leads to a node that has been superseded: nothing of that comes. */
static void an_old_epoch_is_not_listened_to(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, take_over), *b = rig_add(&rig, "b", secret, take_over),
                    *c = rig_add(&rig, "c", secret, take_over);
    struct rig_peer player = rig_play(b, name), old = rig_publish(a, name);
    rig_send(&old, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    const uint64_t epoch = rig_stream(&rig, name)->epoch;
    /* As one that is stopped hears nothing. */
    rig.is_mute = true;
    struct rig_peer new = rig_publish(c, name);
    rig_send(&new, 0, 'c', 0);
    RIG_UNTIL(&rig, rig_is_live(c, name, false));
    rig.is_mute = false;
    rig_tell(&rig, rig_stream(&rig, name), a);
    RIG_UNTIL(&rig, rig_has(&player, 'c', 0));
    assert_true(rig_is_live(a, name, false));
    /* The engine loses a write: a has it again, with the epoch that it had, and c is gone. */
    rig_stop(c);
    rig_stream(&rig, name)->node = a;
    rig_stream(&rig, name)->epoch = epoch;
    rig_hang_up(&new);
    RIG_UNTIL(&rig, a->asserted > 0);
    /* It is asked for a higher one, and is the owner: so it has one. */
    rig_send(&old, 40, 'd', 1);
    RIG_UNTIL(&rig, rig_has(&player, 'd', 1));
    assert_true(rig_find_stream(b, name)->cluster.epoch > epoch + 1);
    assert_true(rig_find_stream(a, name)->cluster.epoch == rig_find_stream(b, name)->cluster.epoch);
    /* All of it is c's or newer. */
    assert_int_equal(rig_check_order(&player, "acd"), 3);
    rig_hang_up(&player);
    rig_hang_up(&old);
    rig_close(&rig);
}

/* The same, where it is not: its publisher ends. */
static void a_superseded_origin_learns_it_from_an_edge(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, take_over), *b = rig_add(&rig, "b", secret, take_over);
    struct rig_peer old = rig_publish(a, name);
    rig_send(&old, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_stream *stream = rig_stream(&rig, name);
    const struct cluster_location location = {.node = "a", .epoch = stream->epoch + 1, .incarnation = 1};
    struct cluster_location there = location;
    memcpy(there.address, a->address, sizeof a->address);
    struct rig_peer player = rig_play(b, name);
    rig.is_mute = true;
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    stream->node = NULL;
    assert_int_equal(edge_post_change(b->server, name, CLUSTER_MOVED, &there), 0);
    RIG_UNTIL(&rig, rig_status(&old) == 409);
    assert_true(rig_says(&old, "published on another node"));
    assert_int_equal(a->asserted, 1);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    assert_int_equal(a->granted, a->released);
    rig_hang_up(&player);
    rig_hang_up(&old);
    rig_close(&rig);
}

/* Without the engine streams go on, and so do locations that are known. */
static void without_the_engine(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL);
    struct rig_peer publisher = rig_publish(a, name), player = rig_play(b, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    rig.is_down = true;
    struct rig_peer refused = rig_publish(b, "live/b");
    RIG_UNTIL(&rig, rig_status(&refused) == 503);
    assert_true(rig_says(&refused, "cluster engine unavailable"));
    /* Its pull breaks, and is made again where it was. */
    rig_wait(&rig, EDGE_STABLE_MS);
    const unsigned located = b->located;
    struct stream *stream = rig_find_stream(a, name);
    struct session *session = stream->players->user;
    session->type->kick(session, -ECANCELED);
    RIG_UNTIL(&rig, b->located > located);
    RIG_UNTIL(&rig, rig_players(a, name) == 1);
    rig_send(&publisher, 40, 'a', 1);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 1));
    rig_hang_up(&refused);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

static const char *const by_b[] = {"--cluster-parent", "b", NULL}, *const by_c[] = {"--cluster-parent", "c", NULL},
                         *const by_d[] = {"--cluster-parent", "d", NULL};

/* Three tiers: c asks b, which asks a. */
static void tiers(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL),
                    *c = rig_add(&rig, "c", secret, by_b), *d = rig_add(&rig, "d", secret, by_b);
    struct rig_peer publisher = rig_publish(a, name),
                    players[4] = {rig_play(c, name), rig_play(c, name), rig_play(d, name), rig_play(b, name)};
    for (unsigned n = 0; n < FRAMES; n++) {
        rig_send(&publisher, n * 40, 'a', n);
        rig_wait(&rig, 20);
    }
    for (size_t i = 0; i < 4; i++) {
        RIG_UNTIL(&rig, rig_has(&players[i], 'a', FRAMES - 1));
        assert_true(rig_check_order(&players[i], "a") > 0);
    }
    assert_int_equal(rig_players(a, name), 1);
    assert_int_equal(rig_players(b, name), 3);
    assert_int_equal(b->connects, 1);
    /* The one in the middle dies. */
    rig_stop(b);
    b->has_left = true;
    rig_wait(&rig, 100);
    rig_send(&publisher, 4000, 'a', FRAMES);
    rig_wait(&rig, 1500);
    rig_send(&publisher, 4040, 'a', FRAMES + 1);
    for (size_t i = 0; i < 3; i++) {
        RIG_UNTIL(&rig, rig_has(&players[i], 'a', FRAMES + 1));
        assert_true(rig_check_order(&players[i], "a") > 0);
    }
    assert_int_equal(rig_players(a, name), 2);
    for (size_t i = 0; i < 4; i++)
        rig_hang_up(&players[i]);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* Parents of each other, in a ring of two and of three: the stream comes all the same. */
static void rings_of_parents(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, by_c);
    (void)rig_add(&rig, "c", secret, by_d);
    (void)rig_add(&rig, "d", secret, by_b);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_peer player = rig_play(b, name);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    assert_int_equal(rig_players(a, name), 1);
    rig_hang_up(&player);
    for (size_t i = 1; i < 4; i++)
        RIG_UNTIL(&rig, !rig_find_stream(&rig.nodes[i], name));
    /* All at once: none is in what the others say of theirs. They wait in vain for a while. */
    struct rig_peer players[3];
    for (size_t i = 0; i < 3; i++)
        players[i] = rig_play(&rig.nodes[i + 1], name);
    unsigned sent = 1;
    for (size_t i = 0; i < 3; i++)
        while (rig_status(&players[i]) == 0) {
            rig_send(&publisher, sent * 40, 'a', sent);
            rig_wait(&rig, 100);
            assert_true(++sent < 400);
            assert_true(rig_status(&players[i]) == 0 || rig_status(&players[i]) == 200);
        }
    for (size_t i = 0; i < 3; i++)
        rig_hang_up(&players[i]);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* Requests of nodes */

struct request {
    const char *to, *via;
    uint64_t epoch;
    enum cluster_mode mode;
    uint64_t age_ms;
    const char *secret, *path;
    const char *from;
};

static struct rig_peer ask_as_node(const struct rig_node *node, const struct request *request) {
    struct cluster_fetch fetch = {.epoch = request->epoch,
                                  .mode = request->mode,
                                  .expires_ms = server_cluster_time(node->server) + CLUSTER_SIGN_MS - request->age_ms};
    const char *key = request->secret ? request->secret : secret;
    const struct cluster_signing signing = {text_of("GET"), text_of(request->path ? request->path : "/live/a.flv"),
                                            (const uint8_t *)key, strlen(key)};
    char value[CLUSTER_FIELD], field[CLUSTER_FIELD + 64];
    snprintf(fetch.from, sizeof fetch.from, "%s", request->from ? request->from : "x");
    snprintf(fetch.to, sizeof fetch.to, "%s", request->to ? request->to : "a");
    snprintf(fetch.via, sizeof fetch.via, "%s", request->via ? request->via : "");
    assert_int_equal(cluster_sign_write(&fetch, &signing, value), 0);
    snprintf(field, sizeof field, "Sluice-Cluster: %s\r\n", value);
    return rig_request(node, "GET", name, field);
}

static void expect(struct cluster_rig *rig, const struct rig_node *node, const struct request *request,
                   unsigned status) {
    struct rig_peer peer = ask_as_node(node, request);
    RIG_UNTIL(rig, rig_status(&peer) != 0);
    assert_int_equal(rig_status(&peer), status);
    if (status == 200)
        assert_true(rig_says(&peer, "\r\nSluice-Epoch: 1001\r\n"));
    rig_hang_up(&peer);
}

static void requests_are_verified(void **state) {
    static const char *const rules[] = {"--rule", "publish * allow", "--max-connections-per-address", "3", NULL};
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, rules);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    assert_int_equal(rig_stream(&rig, name)->epoch, 1001);
    /* No rule lets a player in. */
    struct rig_peer player = rig_play(a, name);
    RIG_UNTIL(&rig, rig_status(&player) == 403);
    rig_hang_up(&player);
    expect(&rig, a, &(struct request){.epoch = 1001}, 200);
    expect(&rig, a, &(struct request){.epoch = 1001, .mode = CLUSTER_FROM_PARENT}, 200);
    expect(&rig, a, &(struct request){.epoch = 0, .via = "b,c,d"}, 200);
    expect(&rig, a, &(struct request){.age_ms = CLUSTER_SIGN_MS - 5000}, 200);
    expect(&rig, a, &(struct request){.age_ms = CLUSTER_SIGN_MS}, 403);
    expect(&rig, a, &(struct request){.secret = "another secret"}, 403);
    expect(&rig, a, &(struct request){.secret = ""}, 403);
    expect(&rig, a, &(struct request){.path = "/live/b.flv"}, 403);
    expect(&rig, a, &(struct request){.to = "b"}, 421);
    expect(&rig, a, &(struct request){.via = "b,a"}, 508);
    expect(&rig, a, &(struct request){.from = "a"}, 508);
    struct rig_peer bad = rig_request(a, "GET", name, "Sluice-Cluster: from=x\r\n");
    RIG_UNTIL(&rig, rig_status(&bad) == 400);
    rig_hang_up(&bad);
    /* Any number at once, whatever --max-connections-per-address says. */
    struct rig_peer nodes[8];
    for (size_t i = 0; i < 8; i++) {
        nodes[i] = ask_as_node(a, &(struct request){.epoch = 1001});
        RIG_UNTIL(&rig, rig_status(&nodes[i]) == 200);
    }
    for (size_t i = 0; i < 8; i++)
        rig_hang_up(&nodes[i]);
    rig_hang_up(&publisher);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    expect(&rig, a, &(struct request){.epoch = 1001}, 410);
    expect(&rig, a, &(struct request){.epoch = 1001, .mode = CLUSTER_FROM_PARENT}, 410);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    rig_close(&rig);
}

/* Without a secret whoever is on this host is believed, and rules apply. */
static void without_a_secret_rules_apply(void **state) {
    static const char *const rules[] = {"--rule", "publish * allow", "--rule", "play live/b allow", NULL};
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", "", NULL), *b = rig_add(&rig, "b", "", NULL),
                    *c = rig_add(&rig, "c", "", rules);
    struct rig_peer publisher = rig_publish(a, name), player = rig_play(b, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    struct rig_peer other = rig_publish(c, name);
    expect(&rig, c, &(struct request){.to = "c", .secret = ""}, 403);
    expect(&rig, a, &(struct request){.epoch = 1001, .secret = ""}, 200);
    /* Nor does anybody use up the epochs. */
    expect(&rig, a, &(struct request){.epoch = CLUSTER_EPOCH_MAX, .secret = ""}, 403);
    rig_hang_up(&other);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* What only asks fetches nothing. */
static void head_asks_the_cluster(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_peer here = rig_request(a, "HEAD", name, ""), there = rig_request(b, "HEAD", name, ""),
                    nowhere = rig_request(b, "HEAD", "live/none", "");
    RIG_UNTIL(&rig, rig_status(&here) == 200);
    RIG_UNTIL(&rig, rig_status(&there) == 200);
    RIG_UNTIL(&rig, rig_status(&nowhere) == 404);
    assert_int_equal(b->connects, 0);
    rig_hang_up(&here);
    rig_hang_up(&there);
    rig_hang_up(&nowhere);
    /* One that ends while the cluster is asked. */
    RIG_UNTIL(&rig, !rig_find_stream(b, name));
    rig.is_silent = true;
    there = rig_request(b, "HEAD", name, "");
    here = rig_request(b, "HEAD", name, "");
    rig_wait(&rig, 50);
    sockets_reset_on_close(there.fd);
    rig_hang_up(&there);
    rig_wait(&rig, 50);
    rig_answer_all(&rig);
    RIG_UNTIL(&rig, rig_status(&here) == 200);
    /* And a player after it, of the same stream. */
    struct rig_peer player = rig_play(b, name);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    rig_hang_up(&here);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* A name that no node has is no stream once that is answered: clients choose it. */
static void names_of_head_are_no_streams(void **state) {
    static const char *const few[] = {"--max-streams", "4", NULL};
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, few);
    for (int i = 0; i < 12; i++) {
        char none[24];
        snprintf(none, sizeof none, "none/%d", i);
        struct rig_peer peer = rig_request(a, "HEAD", none, "");
        RIG_UNTIL(&rig, rig_status(&peer) != 0);
        assert_int_equal(rig_status(&peer), 404);
        rig_hang_up(&peer);
    }
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* Players of an edge are spread over its workers as others are; a node's pull is not. */
static void players_of_an_edge_are_spread(void **state) {
    static const char *const spread[] = {"--spread", "1", "--wait", "0", NULL};
    struct cluster_rig rig;
    struct rig_peer players[6];
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, spread), *b = rig_add(&rig, "b", secret, spread),
                    *c = rig_add(&rig, "c", secret, spread);
    struct rig_peer publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    rig.is_silent = true;
    for (size_t i = 0; i < 6; i++)
        players[i] = rig_play(i < 5 ? b : c, name);
    rig_wait(&rig, 1200);
    rig_answer_all(&rig);
    for (size_t i = 0; i < 6; i++)
        RIG_UNTIL(&rig, rig_has(&players[i], 'a', 0));
    assert_int_equal(rig_players(b, name), 5);
    assert_in_range(rig_find_stream(b, name)->player_count, 1, 4);
    assert_int_equal(rig_find_stream(a, name)->player_count, 2);
    for (size_t i = 0; i < 6; i++)
        rig_hang_up(&players[i]);
    rig_hang_up(&publisher);
    rig_close(&rig);
}

/* A backup stands in where no node has the stream, and fetches what stands in from where it is; it
 * gives way to a publisher on any node. */
static void a_backup_stands_in_on_each_node(void **state) {
    static const char *const backup[] = {"--backup", "live/a=live/spare", NULL};
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, backup);
    struct rig_peer spare = rig_publish(a, "live/spare"), publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'a', 0);
    rig_send(&spare, 0, 's', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false) && rig_is_live(a, "live/spare", false));
    /* Not while it comes. */
    rig.is_silent = true;
    struct rig_peer player = rig_play(b, name);
    rig_wait(&rig, 1200);
    rig_answer_all(&rig);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    assert_false(rig_has(&player, 's', 0));
    rig_hang_up(&publisher);
    RIG_UNTIL(&rig, rig_find_stream(b, name)->stand_in);
    assert_true(rig_is_live(b, "live/spare", true));
    rig_send(&spare, 40, 's', 1);
    RIG_UNTIL(&rig, rig_has(&player, 's', 1));
    assert_null(rig_stream(&rig, name)->node);
    /* It is not passed on as the stream. */
    publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'b', 0));
    assert_null(rig_find_stream(b, name)->stand_in);
    assert_true(rig_check_order(&player, "asb") >= 3);
    rig_hang_up(&player);
    rig_hang_up(&publisher);
    rig_hang_up(&spare);
    for (size_t i = 0; i < 2; i++) {
        RIG_UNTIL(&rig, !rig_find_stream(&rig.nodes[i], name));
        RIG_UNTIL(&rig, !rig_find_stream(&rig.nodes[i], "live/spare"));
    }
    rig_close(&rig);
}

static void leave(const struct rig_node *node) {
    for (uint32_t i = 0; i < RIG_WORKERS; i++)
        worker_leave(server_worker(node->server, i));
}

static void come_back(const struct rig_node *node) {
    for (uint32_t i = 0; i < RIG_WORKERS; i++)
        worker_return(server_worker(node->server, i));
}

static bool has_ended(struct rig_peer *peer) {
    rig_read(peer);
    return peer->has_ended || rig_status(peer) == 404;
}

/* Another process takes over, or the node drains: what was fetched does not come again, so that
 * nobody waits for it. */
static void players_of_a_pull_that_ends_behind_the_stop(void **state) {
    enum { SOON = 2000 };
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL),
                    *c = rig_add(&rig, "c", secret, NULL), *d = rig_add(&rig, "d", secret, NULL);
    struct rig_peer publisher = rig_publish(a, name), player = rig_play(b, name), waiting = rig_play(c, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0) && rig_has(&waiting, 'a', 0));
    d->is_cut_off = true;
    struct rig_peer connecting = rig_play(d, name);
    RIG_UNTIL(&rig, d->connects == 1);
    /* One that plays goes on, and one without a connection does not. */
    leave(b);
    leave(d);
    rig_wait(&rig, SOON);
    assert_false(has_ended(&player));
    assert_true(has_ended(&connecting));
    /* The origin is not there any more, as far as the engine knows it is. */
    rig_stop(a);
    rig_wait(&rig, SOON);
    assert_true(has_ended(&player));
    assert_false(has_ended(&waiting));
    leave(c);
    rig_wait(&rig, SOON);
    assert_true(has_ended(&waiting));
    rig_hang_up(&publisher);
    rig_hang_up(&player);
    rig_hang_up(&waiting);
    rig_hang_up(&connecting);
    rig_close(&rig);
}

/* The other process has failed. */
static void edges_go_on_where_nobody_takes_over(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL),
                    *c = rig_add(&rig, "c", secret, NULL);
    struct rig_peer publisher = rig_publish(a, name), player = rig_play(b, name);
    rig_send(&publisher, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    c->is_cut_off = true;
    struct rig_peer connecting = rig_play(c, name);
    RIG_UNTIL(&rig, c->connects == 1);
    leave(b);
    leave(c);
    assert_int_equal(rig_find_stream(c, name)->cluster.search, STREAM_SEARCH_FAILED);
    come_back(b);
    c->is_cut_off = false;
    come_back(c);
    assert_int_equal(rig_find_stream(c, name)->cluster.search, STREAM_SEARCH_COMES);
    RIG_UNTIL(&rig, rig_has(&connecting, 'a', 0));
    rig_hang_up(&publisher);
    RIG_UNTIL(&rig, !rig_is_live(b, name, true));
    publisher = rig_publish(a, name);
    rig_send(&publisher, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'b', 0) && rig_has(&connecting, 'b', 0));
    rig_hang_up(&publisher);
    rig_hang_up(&player);
    rig_hang_up(&connecting);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pull_for_all_players),
        cmocka_unit_test(players_wait_for_the_lookup),
        cmocka_unit_test(a_player_may_be_first),
        cmocka_unit_test(players_follow_the_publisher),
        cmocka_unit_test(the_origin_dies),
        cmocka_unit_test(a_publisher_comes_to_an_edge),
        cmocka_unit_test(an_old_epoch_is_not_listened_to),
        cmocka_unit_test(a_superseded_origin_learns_it_from_an_edge),
        cmocka_unit_test(without_the_engine),
        cmocka_unit_test(tiers),
        cmocka_unit_test(rings_of_parents),
        cmocka_unit_test(requests_are_verified),
        cmocka_unit_test(without_a_secret_rules_apply),
        cmocka_unit_test(head_asks_the_cluster),
        cmocka_unit_test(names_of_head_are_no_streams),
        cmocka_unit_test(players_of_an_edge_are_spread),
        cmocka_unit_test(a_backup_stands_in_on_each_node),
        cmocka_unit_test(players_of_a_pull_that_ends_behind_the_stop),
        cmocka_unit_test(edges_go_on_where_nobody_takes_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
