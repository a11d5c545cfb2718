/* Publishers that claim their stream in a cluster: one claim or more for one stream, in every order
 * of answers and ends. */
#include "support/cluster_rig.h"

static const char secret[] = "the secret of the cluster";
static const char name[] = "live/a";
static const char *const take_over[] = {"--same-name", "take-over", NULL};
static const char *const resume[] = {"--same-name", "resume", "--resume", "5", NULL};

/* Each granted claim has been released. */
static void check_released(struct cluster_rig *rig) {
    for (size_t i = 0; i < rig->count; i++) {
        struct rig_node *node = &rig->nodes[i];
        RIG_UNTIL(rig, node->granted == node->released);
        assert_int_equal(node->asked, node->granted + node->refused);
    }
    assert_null(rig_stream(rig, name)->node);
}

static void a_stream_of_another_node_is_refused(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, NULL);
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_peer second = rig_publish(b, name);
    RIG_UNTIL(&rig, rig_status(&second) != 0);
    assert_int_equal(rig_status(&second), 409);
    assert_true(rig_says(&second, "published on another node"));
    assert_true(rig_is_live(a, name, false));
    RIG_UNTIL(&rig, !rig_find_stream(b, name));
    assert_int_equal(b->refused, 1);
    rig_hang_up(&second);
    rig_hang_up(&first);
    check_released(&rig);
    rig_close(&rig);
}

/* The second one of a node shares what the first one has. */
static void publishers_of_a_node_share_the_claim(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL);
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_peer second = rig_publish(a, name);
    RIG_UNTIL(&rig, rig_status(&second) == 409);
    assert_true(rig_says(&second, "name in use"));
    assert_int_equal(a->asked, 1);
    assert_int_equal(a->released, 0);
    assert_ptr_equal(rig_stream(&rig, name)->node, a);
    /* One that waits still when the first one ends gets name and claim. */
    struct rig_peer third = rig_publish(a, name);
    rig_send(&third, 0, 'b', 0);
    rig_wait(&rig, 200);
    rig_hang_up(&first);
    RIG_UNTIL(&rig, rig_is_live(a, name, false) && rig_find_stream(a, name)->video_frames == 1);
    assert_int_equal(a->asked, 1);
    assert_int_equal(a->released, 0);
    rig_hang_up(&second);
    rig_hang_up(&third);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    assert_int_equal(a->released, 1);
    check_released(&rig);
    rig_close(&rig);
}

/* Both are asked for before the first answer. */
static void claims_at_once(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL);
    rig.is_silent = true;
    struct rig_peer first = rig_publish(a, name), second = rig_publish(a, name);
    rig_wait(&rig, 100);
    rig_answer_all(&rig);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, a->granted == 2);
    /* The first one leaves, with its share. */
    rig_wait(&rig, 50);
    rig_hang_up(&first);
    rig_send(&second, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false) && a->released == 1);
    assert_ptr_equal(rig_stream(&rig, name)->node, a);
    rig_hang_up(&second);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    check_released(&rig);
    rig_close(&rig);
}

/* A publisher that ends while it is asked for. */
static void a_claim_that_is_granted_to_nobody_is_released(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL);
    rig.is_silent = true;
    struct rig_peer first = rig_publish(a, name), second = rig_publish(a, name);
    rig_wait(&rig, 100);
    assert_true(rig_find_stream(a, name) && !rig_find_stream(a, name)->live);
    sockets_reset_on_close(first.fd);
    rig_hang_up(&first);
    sockets_reset_on_close(second.fd);
    rig_hang_up(&second);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    rig_answer_all(&rig);
    RIG_UNTIL(&rig, a->released == 2);
    check_released(&rig);
    /* And one of two. */
    rig.is_silent = true;
    first = rig_publish(a, name);
    second = rig_publish(a, name);
    rig_wait(&rig, 100);
    sockets_reset_on_close(first.fd);
    rig_hang_up(&first);
    rig_wait(&rig, 100);
    rig_answer_all(&rig);
    rig_send(&second, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    assert_ptr_equal(rig_stream(&rig, name)->node, a);
    rig_hang_up(&second);
    RIG_UNTIL(&rig, !rig_find_stream(a, name));
    check_released(&rig);
    rig_close(&rig);
}

/* The server is freed while claims are out. */
static void the_end_of_the_server(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL);
    struct rig_peer live = rig_publish(a, "live/b");
    rig_send(&live, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, "live/b", false));
    rig.is_silent = true;
    struct rig_peer first = rig_publish(a, name), player = rig_play(a, "live/c"),
                    head = rig_request(a, "HEAD", "x", "");
    rig_wait(&rig, 100);
    assert_non_null(a->held);
    rig_close(&rig);
    rig_hang_up(&head);
    rig_hang_up(&player);
    rig_hang_up(&first);
    rig_hang_up(&live);
}

/* Another node takes the stream over while one publishes, and one waits for the name. */
static void all_claims_are_lost(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL), *b = rig_add(&rig, "b", secret, take_over);
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct rig_peer second = rig_publish(a, name);
    rig_wait(&rig, 100);
    struct rig_peer third = rig_publish(b, name);
    RIG_UNTIL(&rig, rig_status(&first) == 409 && rig_status(&second) == 409);
    assert_true(rig_says(&first, "published on another node"));
    assert_true(rig_says(&second, "published on another node"));
    assert_int_equal(a->released, 1);
    assert_ptr_equal(rig_stream(&rig, name)->node, b);
    rig_hang_up(&first);
    rig_hang_up(&second);
    rig_hang_up(&third);
    check_released(&rig);
    rig_close(&rig);
}

/* Old news, of what has been claimed again since. */
static void a_claim_that_is_newer_stays(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, NULL);
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    struct cluster_location location = {.node = "b", .address = "127.0.0.1:1", .epoch = rig_stream(&rig, name)->epoch};
    assert_int_equal(edge_post_change(a->server, name, CLUSTER_SUPERSEDED, &location), 0);
    rig_wait(&rig, 100);
    assert_true(rig_is_live(a, name, false));
    location.epoch++;
    location.node[0] = 'a';
    assert_int_equal(edge_post_change(a->server, name, CLUSTER_EPOCH, &location), 0);
    location.node[0] = 'b';
    assert_int_equal(edge_post_change(a->server, name, CLUSTER_SUPERSEDED, &location), 0);
    rig_wait(&rig, 100);
    assert_true(rig_is_live(a, name, false));
    assert_true(rig_find_stream(a, name)->cluster.epoch == location.epoch);
    location.epoch++;
    assert_int_equal(edge_post_change(a->server, name, CLUSTER_SUPERSEDED, &location), 0);
    RIG_UNTIL(&rig, rig_status(&first) == 409);
    rig_hang_up(&first);
    rig_close(&rig);
}

/* The engine has forgotten the epoch that a pull has shown, while the claim was asked for. */
static void a_claim_below_what_a_pull_has_shown_is_made_again(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, take_over), *b = rig_add(&rig, "b", secret, take_over);
    rig.epochs = 2000;
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    rig.is_silent = true;
    struct rig_peer second = rig_publish(b, name);
    RIG_UNTIL(&rig, b->held);
    struct cluster_job *claim = b->held;
    assert_int_equal(claim->question, CLUSTER_CLAIM);
    b->held = NULL;
    rig_answer_all(&rig);
    struct rig_peer player = rig_play(b, name);
    RIG_UNTIL(&rig, rig_has(&player, 'a', 0));
    rig.epochs = 1500;
    rig_stream(&rig, name)->node = NULL;
    rig_answer(b, claim);
    rig_send(&second, 0, 'b', 0);
    RIG_UNTIL(&rig, rig_has(&player, 'b', 0));
    assert_true(rig_find_stream(b, name)->cluster.epoch > 2001);
    assert_int_equal(b->granted, 2);
    assert_int_equal(b->released, 1);
    assert_int_equal(rig_check_order(&player, "ab"), 2);
    rig_hang_up(&player);
    rig_hang_up(&second);
    rig_hang_up(&first);
    check_released(&rig);
    rig_close(&rig);
}

/* Or a pull and a publisher would displace each other for ever. */
static void a_pull_displaces_nobody(void **state) {
    struct cluster_rig rig;
    char pull[128];
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, take_over), *c = rig_add(&rig, "c", secret, NULL);
    struct rig_peer first = rig_publish(a, name), camera = rig_publish(c, "live/camera");
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false) && rig_is_live(c, "live/camera", false));
    snprintf(pull, sizeof pull, "http://%s/live/camera.flv=%s", c->address, name);
    const char *const options[] = {"--same-name", "take-over", "--pull", pull, NULL};
    struct rig_node *b = rig_add(&rig, "b", secret, options);
    for (unsigned n = 0; b->refused < 2; n++) {
        rig_send(&camera, n * 100, 'c', n);
        rig_wait(&rig, 100);
        assert_true(n < 200);
    }
    assert_int_equal(b->granted, 0);
    assert_true(rig_is_live(a, name, false));
    assert_int_equal(rig_status(&first), 0);
    /* It has the name when that is free, and gives way to a publisher. */
    rig_hang_up(&first);
    RIG_UNTIL(&rig, rig_is_live(b, name, false));
    first = rig_publish(a, name);
    RIG_UNTIL(&rig, rig_is_live(a, name, false) && !rig_is_live(b, name, false));
    rig_hang_up(&first);
    rig_hang_up(&camera);
    rig_close(&rig);
}

/* With --same-name resume the name is reserved in the cluster, too: for as long as here. */
static void what_is_reserved_here_is_in_the_cluster(void **state) {
    struct cluster_rig rig;
    (void)state;
    rig_open(&rig);
    struct rig_node *a = rig_add(&rig, "a", secret, resume);
    struct rig_peer first = rig_publish(a, name);
    rig_send(&first, 0, 'a', 0);
    RIG_UNTIL(&rig, rig_is_live(a, name, false));
    rig.is_silent = true;
    sockets_reset_on_close(first.fd);
    rig_hang_up(&first);
    RIG_UNTIL(&rig, a->held);
    assert_int_equal(a->held->question, CLUSTER_RELEASE);
    assert_in_range(a->held->keep_ms, 4000, 5000);
    assert_int_equal(a->held->host.bytes[15], 1);
    rig_answer_all(&rig);
    check_released(&rig);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_of_another_node_is_refused),
        cmocka_unit_test(publishers_of_a_node_share_the_claim),
        cmocka_unit_test(claims_at_once),
        cmocka_unit_test(a_claim_that_is_granted_to_nobody_is_released),
        cmocka_unit_test(the_end_of_the_server),
        cmocka_unit_test(all_claims_are_lost),
        cmocka_unit_test(a_claim_that_is_newer_stays),
        cmocka_unit_test(a_claim_below_what_a_pull_has_shown_is_made_again),
        cmocka_unit_test(a_pull_displaces_nobody),
        cmocka_unit_test(what_is_reserved_here_is_in_the_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
