#include "daemon/cluster/cluster_lua.h"

/*
 * What they have in common. Numbers are doubles: epochs stay below 2^53, and incarnations, which
 * do not, are hexadecimal texts of 16 digits, which compare as the numbers do. tostring() would
 * round: digits() does not.
 *
 * An item of a reply: result, node, incarnation, scheme, address, epoch; incarnation and beat of
 * that node's lease. Results: 0 granted or found, 1 held, 2 reserved.
 */
#define COMMON                                                                                                         \
    "local P, NODE, MINE = ARGV[1], ARGV[2], ARGV[3]\n"                                                                \
    "local function lease(node)\n"                                                                                     \
    "  local value = redis.call('GET', P .. ':node:' .. node)\n"                                                       \
    "  if value then return string.match(value, '^(%x+) (%d+) ') end\n"                                                \
    "end\n"                                                                                                            \
    "local function digits(x) return string.format('%.0f', x) end\n"                                                   \
    "local function microseconds()\n"                                                                                  \
    "  local time = redis.call('TIME')\n"                                                                              \
    "  return tonumber(time[1]) * 1000000 + tonumber(time[2])\n"                                                       \
    "end\n"                                                                                                            \
    "local function publish(...)\n"                                                                                    \
    "  redis.call('PUBLISH', P .. ':events', table.concat({...}, ' '))\n"                                              \
    "end\n"                                                                                                            \
    "local function item(result, node, incarnation, scheme, address, epoch, held, beat)\n"                             \
    "  return {result, node or '', incarnation or '', scheme or '', address or '', digits(epoch), held or '',\n"       \
    "          beat or '0'}\n"                                                                                         \
    "end\n"

/*
 * Arguments: random digits, beat, the rest of the lease's value, its milliseconds, most nodes.
 * Incarnation 0: it becomes the time, with the random digits below, but above a lease that is
 * there, whatever the clock. Reply: result, time, incarnation of the lease, its beat before.
 */
static const char renew[] = COMMON
    "local held, last = lease(NODE)\n"
    "local time = microseconds()\n"
    "local id = MINE\n"
    "if MINE == '0000000000000000' then\n"
    "  local base = time\n"
    "  if held then\n"
    "    base = math.max(base, tonumber(string.sub(held, 1, 7), 16) * 16777216 +\n"
    "                          tonumber(string.sub(held, 8, 13), 16) + 1)\n"
    "  end\n"
    "  id = string.format('%07x%06x', math.floor(base / 16777216), base % 16777216) .. ARGV[4]\n"
    "elseif held and held > MINE then\n"
    "  return {2, digits(time), held, last}\n"
    "end\n"
    "local nodes = P .. ':nodes'\n"
    "if not held and redis.call('SISMEMBER', nodes, NODE) == 0 and\n"
    "   redis.call('SCARD', nodes) >= tonumber(ARGV[8]) then\n"
    "  return {3, digits(time), '', '0'}\n"
    "end\n"
    "redis.call('SET', P .. ':node:' .. NODE, id .. ' ' .. ARGV[5] .. ' ' .. ARGV[6], 'PX', ARGV[7])\n"
    "redis.call('SADD', nodes, NODE)\n"
    "if id ~= held then redis.call('DEL', P .. ':list') end\n"
    "return {0, digits(time), id, held == id and last or '0'}\n";

/*
 * Arguments: scheme, address, milliseconds of a stream's life; items. Reply: what is with the own
 * lease (0 it is there, 1 it is not, 2 a newer incarnation has it), its incarnation; items.
 */
static const char take[] = COMMON
    "local ours = lease(NODE)\n"
    "if ours ~= MINE then return {ours and ours > MINE and 2 or 1, ours or ''} end\n"
    "local time = microseconds()\n"
    "local replies = {0, ours}\n"
    "for i = 7, #ARGV, 8 do\n"
    "  local name, way, host = ARGV[i], ARGV[i + 1], ARGV[i + 2]\n"
    "  local had, floor = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])\n"
    "  local key = P .. ':stream:' .. name\n"
    "  local s = redis.call('HMGET', key, 'node', 'incarnation', 'scheme', 'address', 'epoch', 'host', 'since',\n"
    "                       'until')\n"
    "  local holder, stored = s[1], tonumber(s[5]) or 0\n"
    "  local held, beat\n"
    "  if holder then held, beat = lease(holder) end\n"
    "  local alive = held and held == s[2] and not (held == ARGV[i + 5] and beat == ARGV[i + 6])\n"
    "  local asserts = way == 'assert'\n"
    "  local fresh = math.max(math.max(stored, had, floor) + 1, time)\n"
    "  local keeps = asserts and had > stored and had > floor\n"
    "  local kept = s[8] and s[6] ~= host and time >= tonumber(s[7]) and time < tonumber(s[8])\n"
    "  local own = holder == NODE and s[2] == MINE\n"
    "  local epoch\n"
    "  if own then\n"
    "    epoch = math.max(stored, had)\n"
    "    if floor >= epoch then epoch = fresh end\n"
    "  elseif not holder and kept and not asserts then\n"
    "    epoch = nil\n"
    "  elseif not alive or way == 'over' or (way == 'host' and s[6] == host) or\n"
    "         (asserts and (had > stored or (had == stored and MINE > s[2]))) then\n"
    "    epoch = keeps and had or fresh\n"
    "  end\n"
    "  if epoch then\n"
    "    if not own or epoch ~= stored then\n"
    "      redis.call('HSET', key, 'node', NODE, 'incarnation', MINE, 'scheme', ARGV[4], 'address', ARGV[5],\n"
    "                 'epoch', digits(epoch), 'host', host)\n"
    "      redis.call('HDEL', key, 'since', 'until')\n"
    "      publish('claim', name, NODE, MINE, digits(epoch), ARGV[4], ARGV[5])\n"
    "    end\n"
    "    redis.call('PEXPIRE', key, ARGV[6])\n"
    "    replies[#replies + 1] = item(0, NODE, MINE, ARGV[4], ARGV[5], epoch, MINE, '0')\n"
    "  elseif holder then\n"
    "    if ARGV[i + 7] == '1' then publish('ask', name, holder, s[2], digits(stored)) end\n"
    "    replies[#replies + 1] = item(1, holder, s[2], s[3], s[4], stored, held, beat)\n"
    "  else\n"
    "    replies[#replies + 1] = item(2, nil, nil, nil, nil, stored)\n"
    "  end\n"
    "end\n"
    "return replies\n";

/* Arguments: milliseconds for which an epoch is kept; items. Reply: how many were released. */
static const char drop[] = COMMON
    "local time = microseconds()\n"
    "local dropped = 0\n"
    "for i = 5, #ARGV, 4 do\n"
    "  local name, epoch, kept = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])\n"
    "  local key = P .. ':stream:' .. name\n"
    "  local s = redis.call('HMGET', key, 'node', 'incarnation', 'epoch')\n"
    "  local stored = tonumber(s[3]) or 0\n"
    "  if s[1] == NODE and s[2] == MINE and stored <= epoch then\n"
    "    redis.call('HDEL', key, 'node', 'incarnation', 'scheme', 'address', 'host', 'since', 'until')\n"
    "    redis.call('HSET', key, 'epoch', digits(epoch))\n"
    "    if kept > 0 then\n"
    "      redis.call('HSET', key, 'host', ARGV[i + 3], 'since', digits(time), 'until', digits(time + kept * 1000))\n"
    "    end\n"
    "    redis.call('PEXPIRE', key, ARGV[4])\n"
    "    publish('release', name, NODE, MINE, digits(epoch))\n"
    "    dropped = dropped + 1\n"
    "  elseif not s[1] and stored < epoch then\n"
    "    redis.call('HSET', key, 'epoch', digits(epoch))\n"
    "    redis.call('PEXPIRE', key, ARGV[4])\n"
    "  end\n"
    "end\n"
    "return dropped\n";

/* Arguments: items. Reply: items. */
static const char find[] = COMMON
    "local replies = {}\n"
    "for i = 4, #ARGV do\n"
    "  local s = redis.call('HMGET', P .. ':stream:' .. ARGV[i], 'node', 'incarnation', 'scheme', 'address', 'epoch')\n"
    "  local held, beat\n"
    "  if s[1] then held, beat = lease(s[1]) end\n"
    "  replies[#replies + 1] = item(0, s[1], s[2], s[3], s[4], tonumber(s[5]) or 0, held, beat)\n"
    "end\n"
    "return replies\n";

/*
 * Arguments: cursor, how many, milliseconds for which a page may be given, and for which it is
 * kept. Reply: a page: time, cursor of the next one; a line for each lease, with name and value. It
 * is made for the first node that asks, and given to the others as it is, since each of them asks
 * for all nodes; until a node joins or leaves. Names without a lease are removed.
 */
static const char list[] = COMMON "local nodes, pages, now = P .. ':nodes', P .. ':list', microseconds()\n"
                                  "local kept = redis.call('HMGET', pages, ARGV[4])[1]\n"
                                  "local at = kept and tonumber(string.match(kept, '^%d+'))\n"
                                  "if at and at <= now and now < at + tonumber(ARGV[6]) * 1000 then return kept end\n"
                                  "local page = redis.call('SSCAN', nodes, ARGV[4], 'COUNT', ARGV[5])\n"
                                  "local lines = {digits(now) .. ' ' .. page[1]}\n"
                                  "for _, name in ipairs(page[2]) do\n"
                                  "  local value = redis.call('GET', P .. ':node:' .. name)\n"
                                  "  if value then\n"
                                  "    lines[#lines + 1] = name .. ' ' .. value\n"
                                  "  else\n"
                                  "    redis.call('SREM', nodes, name)\n"
                                  "  end\n"
                                  "end\n"
                                  "local text = table.concat(lines, '\\n')\n"
                                  "redis.call('HSET', pages, ARGV[4], text)\n"
                                  "redis.call('PEXPIRE', pages, ARGV[7])\n"
                                  "return text\n";

/* Reply: 1, or 0: the lease is another's, or gone. */
static const char leave[] = COMMON "if lease(NODE) ~= MINE then return 0 end\n"
                                   "redis.call('DEL', P .. ':node:' .. NODE)\n"
                                   "redis.call('SREM', P .. ':nodes', NODE)\n"
                                   "redis.call('DEL', P .. ':list')\n"
                                   "publish('leave', NODE, MINE)\n"
                                   "return 1\n";

/*
 * Arguments: stream, host, milliseconds (0: bans of the stream end, whatever the host), most bans,
 * milliseconds for which they are kept. A member of the set has stream and host, its score is the
 * end by the engine's time, milliseconds. Reply: 1.
 */
static const char ban[] = COMMON
    "local bans, name, ms = P .. ':bans', ARGV[4], tonumber(ARGV[6])\n"
    "local now = math.floor(microseconds() / 1000)\n"
    "redis.call('ZREMRANGEBYSCORE', bans, '-inf', digits(now))\n"
    "if ms > 0 then\n"
    "  local member = name .. ' ' .. ARGV[5]\n"
    "  if not redis.call('ZSCORE', bans, member) and redis.call('ZCARD', bans) >= tonumber(ARGV[7]) then\n"
    "    redis.call('ZPOPMIN', bans)\n"
    "  end\n"
    "  redis.call('ZADD', bans, digits(now + ms), member)\n"
    "  redis.call('PEXPIRE', bans, ARGV[8])\n"
    "  publish('ban', name, NODE, MINE, ARGV[5], ARGV[6])\n"
    "else\n"
    "  for _, member in ipairs(redis.call('ZRANGE', bans, 0, -1)) do\n"
    "    if string.sub(member, 1, #name + 1) == name .. ' ' then redis.call('ZREM', bans, member) end\n"
    "  end\n"
    "  publish('unban', name, NODE, MINE)\n"
    "end\n"
    "return 1\n";

/* Arguments: most bans, most milliseconds. Reply: when the engine first had bans, which it has
 * forgotten if that changes; member and milliseconds left of each, the first to end first. */
static const char bans[] = COMMON
    "local first = redis.call('GET', P .. ':bans:first')\n"
    "if not first then\n"
    "  first = digits(microseconds())\n"
    "  redis.call('SET', P .. ':bans:first', first)\n"
    "end\n"
    "local now = math.floor(microseconds() / 1000)\n"
    "local all = redis.call('ZRANGE', P .. ':bans', 0, tonumber(ARGV[4]) - 1, 'WITHSCORES')\n"
    "local replies = {first}\n"
    "for i = 1, #all, 2 do\n"
    "  local ms = math.min(tonumber(all[i + 1]) - now, tonumber(ARGV[5]))\n"
    "  if ms > 0 then\n"
    "    replies[#replies + 1] = all[i]\n"
    "    replies[#replies + 1] = digits(ms)\n"
    "  end\n"
    "end\n"
    "return replies\n";

const char *cluster_lua_text(enum cluster_lua script) {
    static const char *const texts[CLUSTER_LUAS] = {
        [CLUSTER_LUA_RENEW] = renew, [CLUSTER_LUA_TAKE] = take,   [CLUSTER_LUA_DROP] = drop, [CLUSTER_LUA_FIND] = find,
        [CLUSTER_LUA_LIST] = list,   [CLUSTER_LUA_LEAVE] = leave, [CLUSTER_LUA_BAN] = ban,   [CLUSTER_LUA_BANS] = bans,
    };
    return texts[script];
}
