/*
 * The scripts that the engine runs, each one atomic: the rules of DESIGN.md, for the engine's side.
 * tests/sim/cluster has the same rules in C; a test compares both.
 */
#ifndef SLUICED_CLUSTER_LUA_H
#define SLUICED_CLUSTER_LUA_H

enum cluster_lua {
    CLUSTER_LUA_RENEW,
    CLUSTER_LUA_TAKE,
    CLUSTER_LUA_DROP,
    CLUSTER_LUA_FIND,
    CLUSTER_LUA_LIST,
    CLUSTER_LUA_LEAVE,
    CLUSTER_LUA_BAN,
    CLUSTER_LUA_BANS,
    CLUSTER_LUAS,
};

/* Arguments of an item, in the order in which the scripts read them. */
enum {
    CLUSTER_LUA_TAKE_ARGS = 8, /* stream, way, host, epoch, floor, dead incarnation, beat, asks */
    CLUSTER_LUA_DROP_ARGS = 4, /* stream, epoch, milliseconds, host */
    CLUSTER_LUA_FIND_ARGS = 1, /* stream */
    CLUSTER_LUA_FIELDS = 8,    /* of an item's reply, see cluster_lua.c */
};

/* The text of a script; static. */
const char *cluster_lua_text(enum cluster_lua script);

#endif
