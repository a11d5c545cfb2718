/*
 * The table of all settings but the listeners', which are the protocols' (protocol.h), in the order
 * of --help and of the sample file. The sample file, the options of the man page and the
 * completions are written from it: run tools/settings-docs after a change.
 */
#include <sluice/flv.h>

#include "daemon/base/memory_default.h"
#include "daemon/config/options.h"
#include "daemon/config/protocol.h"
#include "daemon/config/setting.h"
#include "daemon/relay/coalesce.h"
#include "daemon/relay/unwatched.h"

#define FIELD(name) .field = offsetof(struct options, name)
#define BY_STREAM(name) .by_stream = true, FIELD(streams.all.name)
#define RANGE(from, to) .least = (from), .most = (to)

#define KIB 1024.0
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define DAY 86400

const struct setting_group setting_groups[] = {
    [GROUP_LISTENERS] =
        {"Listeners", .note = "ADDR is numeric; port 0 lets the system choose; repeatable",
         .text = "Each listener option may be given several times. The address is numeric, such as 127.0.0.1 or [::1]. "
                 "With "
                 "port 0 the system chooses a port. The defaults of --flv, --http, --rtmp, --rtsp and --admin apply "
                 "only if "
                 "none of --flv, --http, --rtmp and --rtsp is given.\n\n"
                 "An address that is not loopback requires access control: rules or users; for --admin a token. "
                 "--allow-remote lifts this for all but --admin."},
    [GROUP_TLS] = {"TLS", .note = "for listeners with ,tls behind ADDR:PORT",
                   .text =
                       "A listener whose address is followed by ,tls speaks TLS 1.2 and 1.3: HTTPS, WSS, RTMPS, RTSPS, "
                       "FLV and the administration. It needs a certificate. A reload (SIGHUP) reads "
                       "all files again. New connections get the new certificates, running ones are not touched; if "
                       "one of the files is missing or does not fit, the reload is rejected, and everything stays as "
                       "it is."},
    [GROUP_PULLS] = {"Pulls", .note = "streams fetched from cameras and other servers"},
    [GROUP_FORWARDS] = {"Forwards", .note = "streams sent to other servers"},
    [GROUP_CLUSTER] =
        {"Cluster", .note = "several nodes, on each of which every stream may be published and played",
         .text = "Nodes share a server of Redis 7 or Valkey, which knows which node has which stream. A stream that is "
                 "published on one node is played on all: the other nodes fetch it from there by HTTP while they have "
                 "players. Without --cluster the other settings of this group do nothing."},
    [GROUP_ACCESS] = {"Access", .note = "without rules and users, any client may publish and play",
                      .text =
                          "Without rules, any client may publish and play; if --rtsp-users is set, only those users "
                          "may. With at least "
                          "one rule, anything that no rule allows is denied. The same rules apply to all protocols."},
    [GROUP_HOOKS] =
        {"Hooks", .note = "URL is http[s]://HOST[:PORT]/PATH",
         .text =
             "Hooks are HTTP requests to your server: POST with Content-Type: application/json to "
             "http[s]://HOST[:PORT]/PATH. HOST is an address, or a name, which is looked up for each request. By "
             "https the server is verified as described below (--tls-ca, --tls-pin). Redirects are not followed. "
             "--hook-publish and --hook-play are queries: a response "
             "decides. --hook-unpublish, --hook-stop and --hook-record are events: no stream waits for them.\n\n"
             "A query grants access only if its response is 2xx; any other status, an error or a timeout denies it. Up "
             "to 64 queries run at a time; client addresses take turns.\n\n"
             "Up to 8 events are sent at a time, and 4096 may be queued; further ones are lost. An event without a "
             "response in time, or with status 408, 429 or 5xx, is repeated after 1, 4 and 16 seconds and then lost. "
             "Any "
             "other status except 2xx loses it at once. Lost events are logged and counted in /metrics. An event may "
             "arrive twice, and after later ones. On shutdown, the server takes up to 3 seconds to send the events "
             "that "
             "are left."},
    [GROUP_TLS_CLIENT] =
        {"TLS of pulls, forwards, hooks and the cluster", .note = "by rtmps://, rtsps://, https:// and rediss://",
         .text =
             "Connections by rtmps://, rtsps://, https:// and rediss:// use TLS 1.2 or 1.3 and verify the server. "
             "Nothing of a "
             "request is sent to a server before that; if the verification fails, the reason is that of the pull, the "
             "forward or the hook, for example \"TLS: certificate has expired\". A reload (SIGHUP) reads all files "
             "again, for new connections; if one of them is missing or cannot be used, the reload is rejected, and "
             "everything stays as it is."},
    [GROUP_PUBLISHERS] = {.name = "Publishers"},
    [GROUP_PLAYERS] = {.name = "Players"},
    [GROUP_RECORDING] = {.name = "Recording"},
    [GROUP_LIMITS] = {.name = "Limits"},
    [GROUP_PROCESS] = {.name = "Process"},
    [GROUP_LOG] = {.name = "Log"},
    [GROUP_COMMANDS] = {"Configuration file and commands", .note = "on the command line only",
                        .text =
                            "Every setting above may be in a configuration file, by the same name without the dashes. "
                            "The command line overrides the file."},
};

static const struct setting settings[] = {
    {"admin", SETTING_ADMIN, true, .group = GROUP_LISTENERS, .preset = "127.0.0.1:8081",
     .value = "ADDR:PORT[,tls]|unix:PATH", .expected = "ADDR:PORT such as 127.0.0.1:8081, ADDR:PORT,tls or unix:PATH",
     .effect = SETTING_RESTART, .help = "Serve the API, the metrics and the console",
     .text =
         "The API is below /api/v1, metrics for Prometheus are at /metrics, the console for browsers is at /. A Unix "
         "socket is accessible to its owner only.",
     .examples = {"unix:/run/sluiced/admin", "[::]:8444,tls"}},
    {"admin-token-file", SETTING_ADMIN_TOKEN, .group = GROUP_LISTENERS, .value = "FILE", .expected = "a file name",
     .sample = "/etc/sluice/admin-token", .effect = SETTING_RESTART,
     .help = "Require the token in FILE for --admin over TCP",
     .text = "The token is the first line of the file. The file must not be readable by others. Addresses that are not "
             "loopback require a token."},
    {"proxy-from", SETTING_PROXIES, true, .group = GROUP_LISTENERS, .value = "RANGES",
     .expected = "addresses or ranges such as 10.0.0.2,fd00::/64", .effect = SETTING_LATER,
     .help = "Require the PROXY protocol from these addresses",
     .text = "Accepts versions 1 and 2 of the PROXY protocol on --flv, --http, --rtmp and --rtsp (haproxy: send-proxy, "
             "send-proxy-v2; "
             "nginx: proxy_protocol on, in stream). Rules, bans, limits, hooks and logs then use the client's address "
             "instead of the proxy's. A connection from these addresses with a missing or malformed header is "
             "rejected, after "
             "10 s at the latest. The header is never read from other addresses, nor by --admin. Several ranges are "
             "separated by commas.",
     .examples = {"10.0.0.2,fd00::/64"}},
    {"allow-remote", SETTING_FLAG, FIELD(allow_remote), .group = GROUP_LISTENERS, .preset = "false",
     .help = "Allow non-loopback listeners without access control",
     .text = "Applies to --flv, --http, --rtmp and --rtsp without rules and users, and with rules that allow all "
             "public addresses without credentials. Any client that reaches the address may then publish and play."},

    {"tls-certificate", SETTING_CERTIFICATE, true, .group = GROUP_TLS, .value = "[NAME=]CHAIN,KEY",
     .expected = "[NAME=]CHAIN,KEY: files in PEM", .effect = SETTING_LATER,
     .help = "Serve TLS listeners with this certificate and key",
     .text =
         "CHAIN is a file with the certificate, followed by intermediates, KEY one with its private key, both in PEM; "
         "they may be the same file. Users outside of its group must not be able to read KEY (chmod 640). The server "
         "name that the client sends (SNI) selects among several certificates: NAME is a name, or *.example.org for "
         "all names with one more label. Without NAME the certificate is used for the names that it contains, and the "
         "first such certificate also for all other names and for clients that send none. A NAME may have one "
         "certificate of each key type (RSA, ECDSA, Ed25519).",
     .examples = {"/etc/sluice/tls/fullchain.pem,/etc/sluice/tls/privkey.pem",
                  "*.example.org=/etc/sluice/tls/example.pem,/etc/sluice/tls/example.key"}},
    {"tls-client-ca", SETTING_FILE, FIELD(tls.client_ca), .group = GROUP_TLS, .value = "FILE",
     .expected = "a file name", .sample = "/etc/sluice/tls/clients.pem", .effect = SETTING_LATER,
     .help = "Ask clients for a certificate that an issuer in FILE has signed",
     .text =
         "FILE has the trusted issuers in PEM. A client without a certificate is accepted, since rules decide what it "
         "may do (cert=NAME, see --rule); one with a certificate of another issuer, or that has expired, is "
         "disconnected."},
    {"tls-min", SETTING_CHOICE, .detail = SETTING_TLS_VERSIONS, FIELD(tls.min_version), .group = GROUP_TLS,
     .preset = "1.2", .value = "VERSION", .effect = SETTING_LATER, .help = "Set the lowest version of TLS"},
    {"ktls", SETTING_CHOICE, .detail = SETTING_KTLS, FIELD(tls.kernel), .group = GROUP_TLS, .preset = "off",
     .value = "WHEN", .effect = SETTING_LATER, .help = "Let the kernel encrypt what is sent by TLS",
     .text =
         "Players and targets of forwards by TLS 1.3 are then sent the same memory as others, after the first 64 KiB "
         "of a connection. Pulls, which receive, do not use it. "
         "auto: if the kernel can also change keys, as Linux does since 6.14. always: also without that; a connection "
         "then ends after 16,777,216 records, or when its peer requests a new key, which media players and servers do "
         "not; a forward connects again. "
         "What the kernel can do is tried on a loopback connection and logged; sluicectl status, /api/v1/tls and "
         "/metrics show it, and for how many connections the kernel encrypts. Without it, and with TLS 1.2, OpenSSL "
         "encrypts. The module must have been loaded by root: modprobe tls."},
    {"tls-handshakes", SETTING_COUNT, FIELD(tls.handshakes), .group = GROUP_TLS, RANGE(1, 1000000), .preset = "1000",
     .value = "N", .effect = SETTING_LATER, .help = "Limit the TLS handshakes at a time",
     .text = "Further connections are closed. A handshake that takes longer than 10 s ends."},
    {"tls-handshakes-per-address", SETTING_COUNT, FIELD(tls.handshakes_per_address), .group = GROUP_TLS,
     RANGE(0, 1000000), .preset = "256", .zero = "no limit", .value = "N", .effect = SETTING_LATER,
     .help = "Limit the TLS handshakes of one client address at a time",
     .text = "An IPv6 network of 64 bits counts as one address."},
    {"acme-root", SETTING_FILE, FIELD(acme_root), .group = GROUP_TLS, .value = "DIR", .expected = "a directory",
     .sample = "/var/lib/sluice/acme", .effect = SETTING_LATER,
     .help = "Serve challenges of certificate authorities from DIR",
     .text = "GET /.well-known/acme-challenge/TOKEN of --http is the file DIR/.well-known/acme-challenge/TOKEN, where "
             "clients of ACME such as certbot (--webroot-path DIR) and lego (--http.webroot DIR) put it. Certificate "
             "authorities ask for it at port 80. Rules do not apply to it. "
             "Nothing else below DIR is served."},

    {"pull", SETTING_PULL, true, .group = GROUP_PULLS, .value = "URL=NAME[,on-demand]", .expected = "URL=NAME",
     .help = "Fetch URL by RTSP, RTMP or HTTP and publish it as NAME",
     .text = "URL is rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH, fetched over TCP, "
             "rtmp[s]://[USER:PASSWORD@]HOST[:PORT]/APP/NAME, or http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH, "
             "whose response is FLV. rtsps, rtmps and https are the same over TLS, at port 322 or 443 unless the URL "
             "has another; the server is verified (--tls-ca, --tls-pin). With on-demand, the stream is fetched only "
             "while it has "
             "players. "
             "The last \"=\" ends the URL; on the command line the name may be a word of its own: URL =NAME. A failed "
             "pull is retried after 1 to 30 seconds. A configuration file with passwords must not be readable by "
             "others.",
     .examples = {"rtsp://camera:554/stream1=live/door", "rtsp://u:secret@10.0.0.9/1=live/yard,on-demand",
                  "http://origin:8080/live/a.flv?token=T=live/a"}},
    {"pull-file", SETTING_PULL_FILE, FIELD(pull_file), .group = GROUP_PULLS, .value = "FILE", .expected = "a file name",
     .sample = "/etc/sluice/pulls", .help = "Read pulls from FILE, one in each line",
     .text = "Keeps passwords out of the output of ps. The file must not be readable by others."},
    {"backup", SETTING_BACKUP, true, .group = GROUP_PULLS, .value = "NAME=OTHER", .expected = "NAME=OTHER",
     .help = "Let the stream OTHER stand in for NAME while it has no publisher",
     .text =
         "When the publisher of NAME ends, its players continue from OTHER at a key frame, with rising timestamps; "
         "when a publisher of NAME comes, they return to it. Players that arrive meanwhile get OTHER, too. OTHER must "
         "have a publisher, or an on-demand pull, which is started; until it has one, players wait as without a "
         "backup. A stream that another one stands in for "
         "is no backup itself: a loop (A=B and B=A) is two backups. While NAME has players only; recordings of NAME "
         "contain what its players get, hooks are not called.",
     .examples = {"live/main=live/spare", "tv/news=slate"}},

    {"forward", SETTING_FORWARD, true, .group = GROUP_FORWARDS, .value = "STREAM=URL", .expected = "STREAM=URL",
     .help = "Send the streams that match STREAM to URL",
     .text =
         "STREAM is a name, in which * matches any characters, and behind it ?tracks=all or ?tracks=default may "
         "choose among several tracks. URL is "
         "rtmp[s]://[USER:PASSWORD@]HOST[:PORT]/APP/KEY, rtsp[s]://[USER:PASSWORD@]HOST[:PORT]/PATH (over TCP), or "
         "http[s]://[USER:PASSWORD@]HOST[:PORT]/PATH (FLV as "
         "the body of a chunked POST). rtmps, rtsps and https are the same over TLS, at port 443 or 322 unless the URL "
         "has another; the server is verified (--tls-ca, --tls-pin). Each * in its path or query becomes the text that "
         "the * of STREAM "
         "matches; that needs exactly one * in STREAM. Streams with the same URL are not sent at a time: the first one "
         "that has a "
         "publisher is sent, and when it ends another one; so without a * in the URL, one stream is sent.\n\n"
         "By HTTP all tracks are sent. By RTMP all are sent to servers that announce multitrack (Enhanced RTMP); "
         "others get the "
         "default tracks, H.264 and AAC in the form that all servers read, and the log says so. tracks=default and "
         "tracks=all decide it for any server. By RTSP the default tracks are sent.\n\n"
         "A stream may be sent to several URLs. Each connection begins when the stream has a publisher and ends when "
         "its players "
         "end (--wait); a failed one is retried after 1 to 30 seconds while there is a publisher. A slow target loses "
         "frames up to a key "
         "frame, as a slow player does. At most 1000 connections are used. Forwards are not subject to rules. Paths "
         "and queries are not shown "
         "or logged, since they may be keys. A configuration file with passwords must not be readable by others.",
     .examples = {"live/*=http://u:secret@backup/live/*.flv", "live/main=rtmps://platform/app/key",
                  "live/cam?tracks=default=http://archive/cam.flv"}},
    {"forward-file", SETTING_FORWARD_FILE, FIELD(forward_file), .group = GROUP_FORWARDS, .value = "FILE",
     .expected = "a file name", .sample = "/etc/sluice/forwards", .help = "Read forwards from FILE, one in each line",
     .text = "Keeps passwords and keys out of the output of ps. The file must not be readable by others."},

    {"cluster", SETTING_CLUSTER, .detail = CLUSTER_SETTING_ENGINE, .group = GROUP_CLUSTER, .value = "URL",
     .expected = "redis[s]://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PREFIX], such as redis://127.0.0.1:6379",
     .sample = "redis://127.0.0.1:6379/sluice", .effect = SETTING_RESTART,
     .help = "Join the cluster of the Redis or Valkey server at URL",
     .text =
         "URL is redis[s]://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PREFIX]; by rediss over TLS, where the "
         "server is verified (--tls-ca, --tls-pin). Several hosts are tried in turn, up to 16: they are a master and "
         "its replicas, or Sentinels, which are asked for the master; after a failover the new one is used. Redis "
         "Cluster (cluster-enabled) is rejected. The port is 6379 unless the URL has another. Without USER "
         "(:PASSWORD@) "
         "the user is the server's default one. Keys and the channel begin with PREFIX, sluice by default: "
         "nodes with the same PREFIX are a cluster. A listener of --http is needed, which other nodes pull from. A "
         "configuration file with a password must not be readable by others.",
     .examples = {"redis://:secret@10.0.0.5", "rediss://sluice:secret@a:6379,b:6379,c:26379/tv"}},
    {"cluster-sentinel", SETTING_CLUSTER, .detail = CLUSTER_SETTING_SENTINEL, .group = GROUP_CLUSTER, .value = "NAME",
     .expected = "a name of at most 63 characters of [A-Za-z0-9._-]", .sample = "mymaster", .effect = SETTING_RESTART,
     .help = "Ask Sentinels for the master of this name",
     .text = "It is needed if the Sentinels among the hosts of --cluster know several masters. The login of --cluster "
             "is tried at Sentinels as well, and left out if they refuse it."},
    {"node", SETTING_CLUSTER, .detail = CLUSTER_SETTING_NODE, .group = GROUP_CLUSTER, .value = "NAME",
     .expected = "a name of at most 63 characters of [A-Za-z0-9._-]",
     .preset_text = "the name of the host, in which other characters become -", .sample = "node-1",
     .effect = SETTING_RESTART, .help = "Set the name of this node",
     .text = "1 to 63 characters of A-Z, a-z, 0-9, dot, underscore and dash. It is the same after a restart. If two "
             "nodes have the same name, the one that started last has it, and the other one ends its publishers."},
    {"advertise", SETTING_CLUSTER, .detail = CLUSTER_SETTING_ADVERTISE, .group = GROUP_CLUSTER,
     .value = "ADDR:PORT[,tls]", .expected = "ADDR:PORT[,tls]",
     .preset_text = "the address of --http, if that is one listener with one address", .sample = "10.0.0.1:8080",
     .effect = SETTING_RESTART, .help = "Let other nodes pull from ADDR:PORT",
     .text = "An address or a name at which other nodes reach a listener of --http; ,tls if it speaks TLS. Other nodes "
             "then verify its certificate (--tls-ca, --tls-pin), which has to contain ADDR.",
     .examples = {"node-1.example.org:8443,tls"}},
    {"cluster-secret-file", SETTING_CLUSTER, .detail = CLUSTER_SETTING_SECRET_FILE, .group = GROUP_CLUSTER,
     .value = "FILE", .expected = "a file name", .sample = "/etc/sluice/cluster-secret", .effect = SETTING_RESTART,
     .help = "Sign the pulls between nodes with the secret in FILE",
     .text =
         "The file has one line of 32 to 64 characters without blanks, the same on all nodes, and must not be readable "
         "by others. Rules and hooks do not apply to pulls with a valid signature. It is required if the advertised "
         "address or a listener of --http is not loopback; set it also if a proxy on this host passes on requests of "
         "others. To create one:\n\n"
         "  (umask 077; openssl rand -hex 32 >FILE)"},
    {"cluster-down", SETTING_CHOICE, .detail = SETTING_CLUSTER_DOWN, FIELD(cluster.down), .group = GROUP_CLUSTER,
     .preset = "accept", .value = "POLICY", .effect = SETTING_RESTART,
     .help = "Choose what happens to new publishers without the server",
     .text = "Streams and pulls that run continue in any case. `accept`: publishers are accepted on this node's word; "
             "if the same name was published on two nodes meanwhile, the later one remains. `refuse`: names that this "
             "node did not have before are rejected with 503."},
    {"linger", SETTING_SECONDS, FIELD(cluster.linger_ms), .group = GROUP_CLUSTER, RANGE(0, 3600), .preset = "10",
     .value = "SECONDS", .help = "Keep the pull of a stream without players for this long"},
    {"cluster-batch", SETTING_MILLISECONDS, FIELD(cluster.batch_us), .group = GROUP_CLUSTER, RANGE(0, 100),
     .preset = "5", .value = "MS", .help = "Set the batching window of workers that fetch most streams",
     .text = "Takes the place of --batch in a worker while half of its live streams or more come from other nodes, if "
             "it is longer. What comes from a node comes as that node's loop sends it: in a window of the same length, "
             "an edge would be woken up for each piece. It adds as much to the delay of a frame at most. With "
             "`--batch 0` there is no window."},
    {"cluster-parent", SETTING_CLUSTER, true, .detail = CLUSTER_SETTING_PARENTS, .group = GROUP_CLUSTER,
     .value = "NODE[,NODE...]", .expected = "names of nodes, separated by commas", .effect = SETTING_LATER,
     .help = "Fetch streams through these nodes",
     .text = "Players of this node then get streams from one of these nodes, which fetches them from where they are "
             "published: a tree, in which an origin serves only its nearest nodes. A hash of the stream's name selects "
             "the parent, and the next one if that is down; if all are, streams are fetched from where they are "
             "published. Up to 16 nodes.",
     .examples = {"hub-1,hub-2"}},

    {"rule", SETTING_RULE, true, .group = GROUP_ACCESS, .value = "RULE",
     .expected = "ACTIONS STREAM [from RANGES] WAYS", .effect = SETTING_LATER,
     .help = "Add an access rule: ACTIONS STREAM [from RANGES] WAYS",
     .text =
         "The first rule that matches the action, the stream and the client's address decides. If no rule matches, "
         "access "
         "is denied.\n\n"
         "  ACTIONS  publish, play, both with a comma, or all\n"
         "  STREAM   a name, in which * matches any characters\n"
         "  RANGES   addresses and ranges: 10.0.0.0/8,192.0.2.7,fd00::/8\n"
         "  WAYS     allow, deny; or credentials, alternatives with commas:\n"
         "           user        any user of rtsp-users with that right;\n"
         "                       RTSP: Digest or Basic, HTTP: Basic;\n"
         "                       RTMP: Adobe's, or ?user=NAME&pass=PASSWORD\n"
         "           user=NAME   that user\n"
         "           token=KEY   a token signed with that key of token-keys:\n"
         "                       ?token=TOKEN in the URL, or in HTTP also\n"
         "                       \"Authorization: Bearer TOKEN\"\n"
         "           secret=KEY  that key itself, in the same places\n"
         "           cert=NAME   a client certificate, by TLS, that an issuer in\n"
         "                       tls-client-ca has signed: NAME is its common name,\n"
         "                       or else its first DNS name, without blanks and\n"
         "                       commas\n\n"
         "Raw FLV has no credentials but client certificates: other rules for its streams must use addresses. A "
         "rejected client gets 401 with a "
         "challenge "
         "if other credentials may help, else 403. Pulls are not subject to rules. --check warns about rules that can "
         "never match because of earlier rules. For listeners that are not loopback, rules that allow all public "
         "addresses without credentials count as no rules.\n\n"
         "Tokens are made by --sign, or by any program that has the key. The MAC is HMAC-SHA256 in hexadecimal digits; "
         "EXPIRY is in seconds since 1970:\n\n"
         "  TOKEN = \"v1.\" EXPIRY \".\" MAC\n"
         "  MAC of  \"v1\\n\" ACTION \"\\n\" STREAM \"\\n\" EXPIRY\n\n"
         "ACTION is publish or play. Tokens are checked when a client begins; a token that expires does not end a "
         "running "
         "session.",
     .examples = {"publish live/* from 10.0.0.0/8 allow", "publish live/* user", "play live/* token=web,cert=wall7"}},
    {"token-keys", SETTING_KEYS, FIELD(token_keys), .group = GROUP_ACCESS, .value = "FILE", .expected = "a file name",
     .sample = "/etc/sluice/keys", .effect = SETTING_LATER, .help = "Read the keys of tokens from FILE",
     .text = "Each line is NAME:KEY. The file must not be readable by others (chmod 600)."},
    {"rtsp-users", SETTING_USERS, FIELD(rtsp_users), .group = GROUP_ACCESS, .value = "FILE", .expected = "a file name",
     .sample = "/etc/sluice/users", .help = "Read users and passwords from FILE and require them",
     .text = "Each line is NAME:PASSWORD; \"publish NAME:PASSWORD\" or \"play NAME:PASSWORD\" restricts the user to "
             "one action. "
             "The file must not be readable by others. A reload reads it again; established connections continue.\n\n"
             "Without rules, this is equal to the rule \"all * user\": RTSP, RTMP, HTTP, WebSocket and recordings "
             "require a user, and raw FLV, which has no credentials, is rejected. Rules may name these users for all "
             "protocols."},
    {"allow-origin", SETTING_ORIGIN, true, .group = GROUP_ACCESS, .value = "ORIGIN",
     .expected = "*, or an origin such as https://player.example.com", .effect = SETTING_LATER,
     .help = "Allow web pages of ORIGIN to read, play and publish",
     .text =
         "Pages of other hosts may then read streams and recordings by HTTP (CORS), play by WebSocket, and publish. "
         "ORIGIN "
         "is http[s]://HOST[:PORT], where HOST may begin with \"*.\" for all names below it, or * for all pages. "
         "Without "
         "this setting such pages may only do what browsers do without asking, such as <video>.\n\n"
         "Pages of the host by which they reach sluiced are allowed, at any port, if it is an address or localhost. A "
         "host "
         "name must be listed, since any site can have a name that resolves to this address. Pages allowed by name, "
         "but not "
         "by *, may send the browser's credentials. Only browsers are affected. This setting grants no right to play: "
         "rules and hooks do.",
     .examples = {"https://player.example.com", "https://*.example.org"}},

    {"hook-publish", SETTING_HOOK, FIELD(hooks[HOOK_PUBLISH]), .group = GROUP_HOOKS, .value = "URL",
     .expected = "http[s]://HOST[:PORT]/PATH, such as http://127.0.0.1:8000/publish",
     .sample = "http://127.0.0.1:8000/publish", .effect = SETTING_LATER, .help = "Ask URL before a client publishes",
     .text =
         "The query is sent if the rules allow the client. The protocol is flv, http, websocket, rtmp or rtsp. By RTMP "
         "the member query is what the client's URL has behind the question mark. Pulls are not subject to queries. In "
         "a "
         "cluster each hook's object has the member node, the name of the node that asks or reports; a query comes "
         "from "
         "the node that the client is connected to.\n\n"
         "  {\"event\": \"publish\", \"stream\": \"live/cam\", \"protocol\": \"http\",\n"
         "   \"address\": \"192.0.2.1:5678\"}"},
    {"hook-play", SETTING_HOOK, FIELD(hooks[HOOK_PLAY]), .group = GROUP_HOOKS, .value = "URL",
     .expected = "http[s]://HOST[:PORT]/PATH, such as http://127.0.0.1:8000/play",
     .sample = "http://127.0.0.1:8000/play", .effect = SETTING_LATER,
     .help = "Ask URL before a client plays a stream or a recording",
     .text =
         "The query is as that of --hook-publish. The member recording is null for the stream itself, the requested "
         "file of its recordings, or \"\" for the list of them.\n\n"
         "  {\"event\": \"play\", \"stream\": \"live/cam\", \"protocol\": \"rtsp\",\n"
         "   \"address\": \"192.0.2.1:5678\", \"recording\": null}"},
    {"hook-unpublish", SETTING_HOOK, FIELD(hooks[HOOK_UNPUBLISH]), .group = GROUP_HOOKS, .value = "URL",
     .expected = "http[s]://HOST[:PORT]/PATH, such as http://127.0.0.1:8000/unpublish",
     .sample = "http://127.0.0.1:8000/unpublish", .effect = SETTING_LATER,
     .help = "Report the end of a publisher to URL",
     .text = "Pulls are reported, too. The id is that of the API; time is when the event occurred.\n\n"
             "  {\"event\": \"unpublish\", \"time\": \"2026-11-21T20:15:03.123Z\",\n"
             "   \"stream\": \"live/cam\", \"protocol\": \"http\",\n"
             "   \"address\": \"192.0.2.1:5678\", \"id\": 7, \"seconds\": 61.4,\n"
             "   \"bytes\": 15350000, \"reason\": \"end of stream\"}"},
    {"hook-stop", SETTING_HOOK, FIELD(hooks[HOOK_STOP]), .group = GROUP_HOOKS, .value = "URL",
     .expected = "http[s]://HOST[:PORT]/PATH, such as http://127.0.0.1:8000/stop",
     .sample = "http://127.0.0.1:8000/stop", .effect = SETTING_LATER, .help = "Report the end of a player to URL",
     .text = "The event is \"stop\"; the other members are those of --hook-unpublish."},
    {"hook-record", SETTING_HOOK, FIELD(hooks[HOOK_RECORD]), .group = GROUP_HOOKS, .value = "URL",
     .expected = "http[s]://HOST[:PORT]/PATH, such as http://127.0.0.1:8000/record",
     .sample = "http://127.0.0.1:8000/record", .effect = SETTING_LATER,
     .help = "Report a complete recording file to URL",
     .text =
         "The file is below directory, and is played at /recordings/FILE. If repaired is true, a crash or a disk error "
         "cut it short.\n\n"
         "  {\"event\": \"record\", \"time\": \"2026-11-21T21:15:04.001Z\",\n"
         "   \"stream\": \"live/cam\", \"directory\": \"/var/lib/sluice\",\n"
         "   \"file\": \"live/cam/2026-11-21T20-15-03.123Z.flv\",\n"
         "   \"start\": \"2026-11-21T20:15:03.123Z\", \"seconds\": 61.4,\n"
         "   \"bytes\": 15350000, \"repaired\": false}"},
    {"hook-timeout", SETTING_SECONDS, FIELD(hook_ms), .group = GROUP_HOOKS, RANGE(0.1, 60), .preset = "5",
     .value = "SECONDS", .effect = SETTING_LATER, .help = "Wait this long for the response of a hook",
     .text = "The time of a query starts with the client's request and includes waiting for other queries. Each "
             "attempt to send an event has this time. It covers the whole exchange."},

    {"tls-ca", SETTING_TLS_CA, true, .group = GROUP_TLS_CLIENT, .value = "FILE|system",
     .expected = "a file name, or system", .effect = SETTING_LATER,
     .help = "Trust the issuers in FILE for the certificates of servers",
     .text =
         "The certificate of a server must be valid now, contain the host of the URL, and be issued by one that is "
         "trusted, or be trusted itself. FILE has certificates in PEM: roots, intermediates or single ones. Without "
         "this setting the system's store is trusted; with it only the files, unless system is given as well.",
     .examples = {"/etc/sluice/cameras-ca.pem", "system"}},
    {"tls-pin", SETTING_TLS_PIN, true, .group = GROUP_TLS_CLIENT, .value = "HOST[:PORT]=SHA256",
     .expected = "HOST[:PORT]=SHA256", .effect = SETTING_LATER,
     .help = "Accept only the certificate with this hash from HOST",
     .text = "The certificate of HOST, at this port or at any, must have this hash, and nothing else of it is checked: "
             "neither its names, nor its dates, nor its issuer. So it may be self-signed. HOST is what the URL has. "
             "Several pins of a host are alternatives. SHA256 has 64 hexadecimal digits, as printed by:\n\n"
             "  openssl s_client -connect HOST:PORT </dev/null |\n"
             "      openssl x509 -noout -fingerprint -sha256",
     .examples = {"camera7:322=0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"}},
    {"tls-client-certificate", SETTING_TLS_CLIENT_CERTIFICATE, .group = GROUP_TLS_CLIENT, .value = "CHAIN,KEY",
     .expected = "CHAIN,KEY: files in PEM", .sample = "/etc/sluice/client.pem,/etc/sluice/client.key",
     .effect = SETTING_LATER, .help = "Present this certificate to servers that request one",
     .text =
         "CHAIN is a file with the certificate, followed by intermediates, KEY one with its private key, both in "
         "PEM. Users outside of its group must not be able to read KEY (chmod 640). It is shown after the server has "
         "been verified."},

    {"same-name", SETTING_CHOICE, .detail = SETTING_SAME_NAMES, BY_STREAM(same_name), .group = GROUP_PUBLISHERS,
     .preset = "refuse", .value = "POLICY", .help = "Choose what happens if a stream name is in use",
     .text =
         "If the name is in use, a new publisher waits 1 s for the other one to leave. `refuse`: the new publisher is "
         "then rejected. `take-over`: the new publisher replaces the other one, which is disconnected; a pull replaces "
         "nobody. `resume`: the new publisher is rejected, and the name is reserved for a publisher that was "
         "lost (see --resume). If the current publisher is from the same host and sends nothing any more, its "
         "connection is taken for lost and is closed. In a cluster, a publisher of that host on another node is "
         "replaced even if it still sends."},
    {"resume", SETTING_SECONDS, BY_STREAM(resume_ms), .group = GROUP_PUBLISHERS, RANGE(1, DAY), .preset = "15",
     .value = "SECONDS", .help = "Reserve the name of a lost publisher for this long",
     .text = "Applies with --same-name resume. Players wait at least this long (see --wait), and other hosts cannot "
             "take the "
             "name meanwhile."},
    {"first-data", SETTING_SECONDS, BY_STREAM(first_data_ms), .group = GROUP_PUBLISHERS, RANGE(1, DAY), .preset = "20",
     .value = "SECONDS", .help = "Disconnect publishers without a frame after this long",
     .text = "So are pulls. A pull by RTSP whose pictures wait for a key picture has a minute more. See also --idle."},
    {"idle", SETTING_SECONDS, BY_STREAM(idle_ms), .group = GROUP_PUBLISHERS, RANGE(1, DAY), .preset = "15",
     .value = "SECONDS", .help = "Disconnect publishers that send nothing for this long"},
    {"time-jump", SETTING_SECONDS, BY_STREAM(jump_ms), .group = GROUP_PUBLISHERS, RANGE(0, DAY), .preset = "3",
     .zero = "never", .value = "SECONDS", .help = "Repair timestamps that jump by more than this",
     .text =
         "Applies to jumps forward and back. Players and recordings get timestamps that continue, and audio and video "
         "stay synchronized. A period of silence is no jump, nor is the wrap of 32-bit timestamps after 49 days."},
    {"frame-limit", SETTING_SIZE, BY_STREAM(frame_limit), .group = GROUP_PUBLISHERS, RANGE(KIB, SLUICE_FLV_MAX_PAYLOAD),
     .preset_text = "8M, or the highest value allowed", .sample = "8M", .value = "SIZE", .effect = SETTING_LATER,
     .help = "Limit the size of a frame",
     .text =
         "A larger frame ends the publisher or the pull; the size is that of the payload of its FLV tag. At most "
         "--player-buffer and half of a worker's share of --memory. If the player buffer of a stream is smaller, so is "
         "this limit."},

    {"obs-tracks", SETTING_COUNT, FIELD(obs_tracks), .group = GROUP_PUBLISHERS, RANGE(1, 10), .preset = "3",
     .value = "N", .effect = SETTING_LATER, .help = "Limit the video tracks that OBS is told to send",
     .text = "Of the configuration for OBS's multitrack video at http://HOST/obs/APP: it has each canvas at its own "
             "size and "
             "smaller renditions, within this limit, --obs-bitrate and the limits that the user has set in OBS."},
    {"obs-bitrate", SETTING_COUNT, FIELD(obs_bitrate), .group = GROUP_PUBLISHERS, RANGE(500, 1000000),
     .preset = "10000", .unit = "kbit/s", .value = "KBIT", .effect = SETTING_LATER,
     .help = "Limit the bit rate of all these tracks together, kbit/s"},
    {"wait", SETTING_SECONDS, BY_STREAM(wait_ms), .group = GROUP_PLAYERS, RANGE(0, DAY), .preset = "30",
     .value = "SECONDS", .help = "Let players wait this long for a publisher"},
    {"stall", SETTING_SECONDS, BY_STREAM(stall_ms), .group = GROUP_PLAYERS, RANGE(1, DAY), .preset = "30",
     .value = "SECONDS", .help = "Disconnect players that accept no data for this long",
     .text =
         "A player that is paused is sent no data: by RTSP it is disconnected after 70 s without a message from it; by "
         "RTMP it is sent a ping every 30 s, and disconnected after 70 s if its host has not acknowledged one."},
    {"behind", SETTING_SECONDS, BY_STREAM(behind_ms), .group = GROUP_PLAYERS, RANGE(0, DAY), .preset = "0",
     .zero = "never", .value = "SECONDS", .help = "Disconnect players with queued data for this long",
     .text = "The time restarts whenever all data queued for the player has been sent."},
    {"catch-up", SETTING_SECONDS, BY_STREAM(catch_up_ms), .group = GROUP_PLAYERS, RANGE(0, DAY), .preset = "10",
     .zero = "never", .value = "SECONDS", .help = "Drop data queued for longer than this",
     .text =
         "The player continues at the newest key frame that is queued. This bounds its delay: to this time, or to the "
         "interval between key frames if that is longer."},
    {"player-buffer", SETTING_SIZE, BY_STREAM(player_buffer), .group = GROUP_PLAYERS, RANGE(64 * KIB, GIB),
     .preset = "16M", .value = "SIZE", .help = "Limit the payload queued for one player",
     .text = "If the limit is reached, the player loses frames up to the next key frame. With TLS, encrypted bytes "
             "that wait for the player's network count. At least --gop-size."},
    {"gop-size", SETTING_SIZE, BY_STREAM(gop_size), .group = GROUP_PLAYERS, RANGE(0, GIB),
     .preset_text = "8M, or --player-buffer if that is less", .sample = "8M", .value = "SIZE",
     .help = "Limit a stream's cached group of pictures",
     .text = "Players start at once with the cached group. The limit is in block memory, and is at most "
             "--player-buffer. If "
             "the player buffer of a stream is smaller, so is this limit."},
    {"merge-window", SETTING_COUNT, true, BY_STREAM(merge_window_ms), .group = GROUP_PLAYERS,
     RANGE(0, COALESCE_WINDOW_MOST), .word = "auto", .word_value = COALESCE_WINDOW_AUTO, .preset = "auto",
     .value = "MS", .unit = "milliseconds", .help = "Collect data for this long before sending to players",
     .text = "Saves much CPU with many players and adds up to this delay. With auto, the window follows the load: none "
             "while a worker's thread uses less than 12 % of a core, or has a dozen players; then 24 ms; longer "
             "windows, up to --merge-window-max, only where the core is full otherwise. With a number, the window is "
             "fixed; with 0, there is none. The value "
             "of a stream overrides that of a listener, which overrides the value for all streams.",
     .examples = {"100", "live/fast=0"}},
    {"merge-window-max", SETTING_COUNT, FIELD(merge_window_most), .group = GROUP_PLAYERS,
     RANGE(0, COALESCE_WINDOW_MOST), .preset = "350", .value = "MS", .unit = "milliseconds", .zero = "no window",
     .help = "Limit the merge windows that are auto"},
    {"max-players", SETTING_COUNT, BY_STREAM(max_players), .group = GROUP_PLAYERS, RANGE(0, 1000000), .preset = "0",
     .zero = "no limit", .value = "N", .effect = SETTING_LATER, .help = "Limit the players of one stream",
     .text = "Further players get 503 by HTTP and 453 by RTSP."},
    {"spread", SETTING_COUNT, FIELD(spread), .group = GROUP_PLAYERS, RANGE(0, 1000000), .preset = "0", .zero = "never",
     .value = "N", .effect = SETTING_LATER, .help = "Spread a stream over all workers beyond N players",
     .text = "The stream's own worker serves the first N players; each further one goes to the worker with the fewest "
             "players. "
             "Use it for streams with more players than one core can serve. Data held by the other workers' players is "
             "charged to the stream's worker, and is limited to a quarter of its memory if that is short."},

    {"record", SETTING_RECORD, true, .group = GROUP_RECORDING, .value = "PATTERN=DIR",
     .expected = "PATTERN=DIRECTORY, such as live/*=/var/lib/sluice", .effect = SETTING_RESTART,
     .help = "Record streams that match PATTERN to DIR",
     .text =
         "Files are named DIR/STREAM/TIME.flv. The first PATTERN that matches applies; * matches any characters. "
         "Clients "
         "that may play the stream may play its files by HTTP at /recordings/STREAM/TIME.flv and list them at "
         "/recordings/STREAM, 1000 at a time or as many as ?limit=N states. If the response has a member next, "
         "?after=NEXT is the next page.\n\n"
         "Files have mode 0640 and directories 0750, less the umask. The next start repairs a TIME.flv.part that a "
         "crash "
         "left: the file is cut after its last complete frame and indexed. A file that is damaged elsewhere is kept as "
         "TIME.flv.damaged, which is neither listed, played nor overwritten, beside a TIME.flv of what can be decoded. "
         "Only a file without any media is removed.",
     .examples = {"live/*=/var/lib/sluice"}},
    {"record-segment", SETTING_SECONDS, FIELD(record.segment_ms), .group = GROUP_RECORDING, RANGE(0, 604800),
     .preset = "3600", .zero = "never", .value = "SECONDS", .effect = SETTING_RESTART,
     .help = "Start a new file after this long", .text = "The new file starts at the next key frame."},
    {"record-size", SETTING_SIZE, FIELD(record.segment_bytes), .group = GROUP_RECORDING, RANGE(0, 1024 * GIB),
     .preset = "0", .zero = "never", .value = "SIZE", .effect = SETTING_RESTART,
     .help = "Start a new file at this size", .text = "The new file starts at the next key frame."},

    {"max-connections", SETTING_COUNT, FIELD(max_connections), .group = GROUP_LIMITS, RANGE(1, 1000000),
     .preset = "10000", .value = "N", .help = "Limit the connections",
     .text = "Further connections get 503 by HTTP and RTSP and are closed. The limit of open files (ulimit -Hn, "
             "LimitNOFILE=) "
             "bounds this number, less a reserve; if it is too low for this setting, a warning is logged at the start. "
             "A connection that is not authorized, or neither publishes nor plays, is closed after 60 s."},
    {"max-connections-per-address", SETTING_COUNT, FIELD(max_per_address), .group = GROUP_LIMITS, RANGE(0, 1000000),
     .preset = "0", .zero = "no limit", .value = "N", .effect = SETTING_LATER,
     .help = "Limit the connections of one client address",
     .text =
         "An IPv6 network of 64 bits counts as one address. Further connections get 429 by HTTP and 503 by RTSP and "
         "are closed."},
    {"max-streams", SETTING_COUNT, FIELD(max_streams), .group = GROUP_LIMITS, RANGE(0, 1000000), .preset = "0",
     .zero = "no limit", .value = "N", .effect = SETTING_LATER, .help = "Limit the streams",
     .text =
         "Streams without a publisher that players wait for are included. A request for a further stream gets 503; the "
         "connection of a raw FLV publisher is closed. A node of a cluster remembers at most 100,000 streams, or N as "
         "it was at the start if that is more."},
    {"memory", SETTING_SIZE, FIELD(memory), .group = GROUP_LIMITS, RANGE(4 * MIB, MEMORY_MOST),
     .preset_text = "a quarter of the machine's memory or of the control group's limit; at least 256M and 64M per "
                    "worker, but at most half of it",
     .sample = "2G", .value = "SIZE", .effect = SETTING_RESTART, .help = "Limit the memory for streams",
     .text =
         "Includes received blocks and an eighth for their descriptors; at least 1M for each worker. When it is used "
         "up, "
         "the players that are furthest behind lose their queued data first, then the cached groups of pictures are "
         "dropped. Memory is taken as streams and players need it, and kept; the log has the limit at the start. "
         "Not included are sockets in the kernel, sessions (some KiB each), and TLS.\n"
         "\n"
         "A stream without slow players holds its cached group: its bit rate times the distance of its key frames, "
         "about 250K for 1 Mbit/s and 2 seconds."},

    {"workers", SETTING_COUNT, FIELD(workers), .group = GROUP_PROCESS, RANGE(1, OPTIONS_MAX_WORKERS),
     .preset_text = "the usable cores, at most the control group's CPU limit, rounded up", .sample = "4", .value = "N",
     .effect = SETTING_RESTART, .help = "Set the number of worker threads",
     .text = "A stream belongs to one worker. The memory is divided among the workers."},
    {"batch", SETTING_MILLISECONDS, FIELD(batch_us), .group = GROUP_PROCESS, RANGE(0, 100), .preset = "2",
     .value = "MS", .effect = SETTING_RESTART, .help = "Set the batching window of the event loop",
     .text = "Events within this window are handled together."},
    {"unwatched-interval", SETTING_COUNT, FIELD(unwatched_ms), .group = GROUP_PROCESS,
     RANGE(0, UNWATCHED_INTERVAL_MOST), .preset = "100", .value = "MS", .unit = "milliseconds", .zero = "as bytes come",
     .help = "Read publishers without players at this interval",
     .text = "A stream without players and forwards costs fewer wake-ups that way. Its recording and cached group are "
             "complete, and at most this much later. From its first player on, a stream is read as bytes come. Times "
             "are rounded up to tens."},
    {"backend", SETTING_CHOICE, .detail = SETTING_BACKENDS, FIELD(backend), .group = GROUP_PROCESS, .preset = "auto",
     .value = "NAME", .effect = SETTING_RESTART, .help = "Select io_uring or epoll",
     .text =
         "`auto` selects io_uring, or epoll with a warning if io_uring is not available. With `--batch 0` it selects "
         "epoll, too, where the kernel has no receive bundles (Linux before 6.10), since io_uring costs more there. "
         "`uring` and `epoll` do not fall back. The log says why."},
    {"drain", SETTING_SECONDS, FIELD(drain_ms), .group = GROUP_PROCESS, RANGE(0, DAY), .preset = "20",
     .value = "SECONDS", .help = "Keep connections for this long when they can go elsewhere",
     .text =
         "On SIGUSR2 or \"sluicectl upgrade\" a new process takes over; this is how long the old one continues its "
         "connections. If it is less than --wait, players that connect meanwhile still wait when the publisher "
         "connects to the new process.\n\n"
         "A node of a cluster that gets SIGTERM while there are others leaves the cluster, ends its publishers, sends "
         "new clients to the other nodes, and stops with its last player, or after this time. A second signal, or "
         "SIGINT, stops it at once."},
    {"status", SETTING_FLAG, FIELD(status), .group = GROUP_PROCESS, .preset = "false", .effect = SETTING_RESTART,
     .help = "Print a status line to standard error each second"},

    {"log-level", SETTING_CHOICE, .detail = SETTING_LOG_LEVELS, FIELD(log_level), .group = GROUP_LOG, .preset = "info",
     .value = "LEVEL", .help = "Set the lowest level that is logged"},
    {"log-format", SETTING_CHOICE, .detail = SETTING_LOG_FORMATS, FIELD(log_format), .group = GROUP_LOG,
     .preset = "text", .value = "FORMAT", .effect = SETTING_RESTART, .help = "Set the format of log lines",
     .text = "`json` writes one object per line. `text` uses the format of the systemd journal if standard error is "
             "connected to it."},
    {"log-rate", SETTING_COUNT, FIELD(log_rate), .group = GROUP_LOG, RANGE(0, 1000000), .preset = "200",
     .zero = "no limit", .value = "N", .help = "Limit lines of the same message per second",
     .text = "Suppressed lines are counted in a line of their own. Lines about rejected credentials and rights are not "
             "counted here: they are limited for each address. No stream waits for standard error: lines that it does "
             "not accept in time are lost and counted (\"log lines lost\")."},

    {"config", SETTING_COMMAND, .detail = COMMAND_CONFIG, .group = GROUP_COMMANDS, .value = "FILE",
     .help = "Read settings from FILE, and again on SIGHUP"},
    {"check", SETTING_COMMAND, .detail = COMMAND_CHECK, .group = GROUP_COMMANDS,
     .help = "Check the configuration and exit",
     .text = "Prints OK, or each error with its file and line. Opens no listeners and no connections."},
    {"print-config", SETTING_COMMAND, .detail = COMMAND_PRINT, .group = GROUP_COMMANDS,
     .help = "Print each setting and its origin and exit", .text = "Passwords are not shown."},
    {"sign", SETTING_COMMAND, .detail = COMMAND_SIGN, .group = GROUP_COMMANDS, .value = "ACTION,STREAM,SECONDS[,KEY]",
     .help = "Print a token and exit",
     .text =
         "The token allows ACTION on STREAM for this long. It is signed with KEY of --token-keys, or with the first "
         "key."},
    {"help", SETTING_COMMAND, .detail = COMMAND_HELP, .group = GROUP_COMMANDS, .help = "Print this help and exit"},
    {"version", SETTING_COMMAND, .detail = COMMAND_VERSION, .group = GROUP_COMMANDS,
     .help = "Print the version and exit"},
};
_Static_assert(sizeof settings / sizeof *settings <= SETTINGS_MOST / 2, "no room for those of the protocols");

const struct setting *setting_at(size_t number) {
    for (const struct protocol *const *protocol = protocol_table; *protocol; protocol++)
        if (number-- == 0)
            return &(*protocol)->option;
    return number < sizeof settings / sizeof *settings ? &settings[number] : NULL;
}
