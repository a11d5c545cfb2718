#include "daemon/options_inherited.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

static const char admin_name[] = "admin";

/* The protocol of streams that a name stands for. */
static bool read_protocol(const char *name, enum listener_protocol *ret_protocol) {
    static const char *const names[] = {[LISTENER_FLV] = "flv", [LISTENER_HTTP] = "http", [LISTENER_RTSP] = "rtsp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *ret_protocol = (enum listener_protocol)i;
        return true;
    }
    return false;
}

bool options_inherit_streams(const struct inherited *inherited) {
    enum listener_protocol protocol;
    for (size_t i = 0; i < inherited->count; i++)
        if (!inherited->list[i].is_lent && read_protocol(inherited->list[i].name, &protocol))
            return true;
    return false;
}

static const char *path_of(const struct inherited_socket *socket) {
    return ((const struct sockaddr_un *)&socket->address)->sun_path;
}

/* Whether it listens where it was told to: there, or where the system has chosen the port. */
static bool is_at(const struct inherited_socket *socket, const struct sockaddr_storage *address) {
    char host[ADDRESS_TEXT], other[ADDRESS_TEXT];
    if (socket->address.ss_family != address->ss_family)
        return false;
    address_format_host(&socket->address, host);
    address_format_host(address, other);
    return strcmp(host, other) == 0 &&
           (address_port(&socket->address) == address_port(address) || (socket->is_lent && address_port(address) == 0));
}

static bool is_for(const struct inherited_socket *socket, const struct listener_option *listener) {
    enum listener_protocol protocol;
    if (listener->fd || !is_at(socket, &listener->address))
        return false;
    return address_port(&listener->address) != 0 ||
           (read_protocol(socket->name, &protocol) && protocol == listener->protocol);
}

static struct listener_option *find_listener(struct options *options, const struct inherited_socket *socket) {
    for (size_t i = 0; i < options->listener_count; i++)
        if (is_for(socket, &options->listeners[i]))
            return &options->listeners[i];
    return NULL;
}

static bool is_for_admin(const struct inherited_socket *socket, const struct admin_listener_option *listener) {
    if (listener->fd || listener->is_unix != (socket->address.ss_family == AF_UNIX))
        return false;
    if (listener->is_unix)
        return strcmp(listener->path, path_of(socket)) == 0;
    return is_at(socket, &listener->address) &&
           (address_port(&listener->address) != 0 || strcmp(socket->name, admin_name) == 0);
}

static struct admin_listener_option *find_admin(struct options *options, const struct inherited_socket *socket) {
    for (size_t i = 0; i < options->admin.count; i++)
        if (is_for_admin(socket, &options->admin.listeners[i]))
            return &options->admin.listeners[i];
    return NULL;
}

static struct listener_option *add_listener(struct options *options, const struct inherited_socket *socket) {
    enum listener_protocol protocol;
    if (!read_protocol(socket->name, &protocol) || socket->address.ss_family == AF_UNIX ||
        options->listener_count == OPTIONS_MAX_LISTENERS)
        return NULL;
    struct listener_option *listener = &options->listeners[options->listener_count++];
    *listener = (struct listener_option){
        .protocol = protocol, .address = socket->address, .merge_window_ms = OPTIONS_MERGE_UNSET};
    return listener;
}

static struct admin_listener_option *add_admin(struct options *options, const struct inherited_socket *socket) {
    if (strcmp(socket->name, admin_name) != 0 || options->admin.count == ADMIN_MAX_LISTENERS)
        return NULL;
    struct admin_listener_option *listener = &options->admin.listeners[options->admin.count++];
    *listener = (struct admin_listener_option){.is_unix = socket->address.ss_family == AF_UNIX};
    if (listener->is_unix)
        memcpy(listener->path, path_of(socket), sizeof listener->path);
    else
        listener->address = socket->address;
    return listener;
}

/* Who may write to a socket's file may connect. One without a file, or one that cannot be looked at, is everybody's. */
static bool is_open(const char *path) {
    struct stat status;
    return stat(path, &status) < 0 || status.st_mode & 022;
}

static bool give(struct options *options, struct inherited_socket *socket, struct problems *problems) {
    struct listener_option *listener = find_listener(options, socket);
    struct admin_listener_option *admin = listener ? NULL : find_admin(options, socket);
    bool is_managed = !socket->is_lent;
    char text[INHERITED_TEXT];
    if (!listener && !admin && is_managed) {
        listener = add_listener(options, socket);
        admin = listener ? NULL : add_admin(options, socket);
    }
    socket->is_wanted = listener || admin;
    if (listener) {
        listener->fd = socket->fd;
        listener->is_managed = is_managed;
    } else if (admin) {
        admin->fd = socket->fd;
        admin->is_managed = is_managed;
        admin->is_open = admin->is_unix && is_managed && is_open(admin->path);
    }
    inherited_format(socket, text);
    return socket->is_wanted || socket->is_lent ||
           problems_add(problems,
                        "socket %s of the service manager: expected the address of a listener, or one of the names "
                        "flv, http, rtsp and admin, got \"%s\"",
                        text, socket->name);
}

bool options_inherit(struct options *options, struct inherited *inherited, struct problems *problems) {
    bool good = true;
    for (size_t i = 0; i < inherited->count; i++)
        good = give(options, &inherited->list[i], problems) && good;
    return good;
}
