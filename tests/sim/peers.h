/* Simulated publishers and players, and what each of them does wrong. */
#ifndef SLUICE_TESTS_SIM_PEERS_H
#define SLUICE_TESTS_SIM_PEERS_H

#include "sim/kernel.h"
#include "sim/viewer.h"

enum { PEERS_FLV_PORT = 9000, PEERS_HTTP_PORT = 8080, PEERS_RTSP_PORT = 8554, PEERS_STREAMS = 4 };

/* What a publisher and its stream's players know in common. */
struct show {
    uint8_t stream;
    bool has_video, has_audio;
    uint16_t generations;
};

enum publisher_form { PUBLISH_RAW, PUBLISH_CHUNKED, PUBLISH_UNTIL_CLOSE, PUBLISH_RTSP, PUBLISHER_FORMS };
enum publisher_end { PUBLISHER_ENDS, PUBLISHER_RESETS, PUBLISHER_CUTS, PUBLISHER_FALLS_SILENT, PUBLISHER_LIES };

struct publisher_plan {
    struct show *show;
    enum publisher_form form;
    enum publisher_end end;
    uint32_t frames; /* after which it ends */
    uint32_t frame_us;
    uint32_t key_every;
    uint32_t size_most;  /* bytes of a frame */
    uint32_t piece_most; /* bytes that it sends at once */
};

struct sim_publisher;

/* NULL where nobody listens. */
struct sim_publisher *sim_publisher_new(const struct publisher_plan *plan);

/* It has sent all that it was to send, or is gone. */
bool sim_publisher_is_done(const struct sim_publisher *publisher);

/* Frames that it has sent whole. */
uint32_t sim_publisher_frames(const struct sim_publisher *publisher);
uint16_t sim_publisher_generation(const struct sim_publisher *publisher);

/* It has nothing to send any more. */
void sim_publisher_stop(struct sim_publisher *publisher);
void sim_publisher_free(struct sim_publisher *publisher);

enum player_manner { PLAYER_READS, PLAYER_READS_SLOWLY, PLAYER_READS_AT_TIMES, PLAYER_READS_NOTHING, PLAYER_DIES };

/* HTTP/1.1; HTTP/1.0, without chunks; messages; RTP between answers. */
enum player_form { PLAY_CHUNKED, PLAY_UNTIL_CLOSE, PLAY_WEBSOCKET, PLAY_RTSP, PLAYER_FORMS };

struct player_plan {
    const struct show *show;
    enum player_manner manner;
    enum player_form form;
    bool has_room; /* the kernel takes much for it */
    /* memory may be short: by RTP, frames are lost then that only the packets' numbers tell of */
    bool may_lose;
};

struct sim_player;
struct sim_player *sim_player_new(const struct player_plan *plan);
const struct viewer *sim_player_viewer(const struct sim_player *player);
enum player_form sim_player_form(const struct sim_player *player);

/* Its request has been granted, and nothing has ended it. */
bool sim_player_is_playing(const struct sim_player *player);
void sim_player_leave(struct sim_player *player);
void sim_player_free(struct sim_player *player);

/* What it has asked while playing has been answered. */
bool sim_player_is_answered(const struct sim_player *player);

/* Checks the end that it has had. */
void sim_player_check_end(const struct sim_player *player);

#endif
