#include "daemon/config/options_listen_fds.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/config/protocol.h"

static const char admin_name[] = "admin";

bool options_inherit_streams(const struct listen_fds *listen_fds) {
    for (size_t i = 0; i < listen_fds->count; i++)
        if (!listen_fds->list[i].is_lent && protocol_find(listen_fds->list[i].name))
            return true;
    return false;
}

static const char *path_of(const struct listen_fd *socket) {
    return ((const struct sockaddr_un *)&socket->address)->sun_path;
}

/* Whether it listens where it was told to: there, or where the system has chosen the port. */
static bool is_at(const struct listen_fd *socket, const struct sockaddr_storage *address) {
    char host[ADDRESS_TEXT], other[ADDRESS_TEXT];
    if (socket->address.ss_family != address->ss_family)
        return false;
    address_format_host(&socket->address, host);
    address_format_host(address, other);
    return strcmp(host, other) == 0 &&
           (address_port(&socket->address) == address_port(address) || (socket->is_lent && address_port(address) == 0));
}

static bool is_for(const struct listen_fd *socket, const struct listener_option *listener) {
    if (listener->fd || !is_at(socket, &listener->address))
        return false;
    return address_port(&listener->address) != 0 ||
           (protocol_find(socket->name) == listener->protocol && socket->tls == listener->tls);
}

static struct listener_option *find_listener(struct options *options, const struct listen_fd *socket) {
    for (size_t i = 0; i < options->listener_count; i++)
        if (is_for(socket, &options->listeners[i]))
            return &options->listeners[i];
    return NULL;
}

static bool is_for_admin(const struct listen_fd *socket, const struct admin_listener_option *listener) {
    if (listener->fd || listener->is_unix != (socket->address.ss_family == AF_UNIX))
        return false;
    if (listener->is_unix)
        return strcmp(listener->path, path_of(socket)) == 0;
    return is_at(socket, &listener->address) &&
           (address_port(&listener->address) != 0 ||
            (strcmp(socket->name, admin_name) == 0 && socket->tls == listener->tls));
}

static struct admin_listener_option *find_admin(struct options *options, const struct listen_fd *socket) {
    for (size_t i = 0; i < options->admin.count; i++)
        if (is_for_admin(socket, &options->admin.listeners[i]))
            return &options->admin.listeners[i];
    return NULL;
}

static struct listener_option *add_listener(struct options *options, const struct listen_fd *socket) {
    const struct protocol *protocol = protocol_find(socket->name);
    if (!protocol || socket->address.ss_family == AF_UNIX || options->listener_count == OPTIONS_MAX_LISTENERS)
        return NULL;
    struct listener_option *listener = &options->listeners[options->listener_count++];
    *listener = (struct listener_option){
        .protocol = protocol, .address = socket->address, .tls = socket->tls, .merge_window_ms = OPTIONS_MERGE_UNSET};
    return listener;
}

static struct admin_listener_option *add_admin(struct options *options, const struct listen_fd *socket) {
    if (strcmp(socket->name, admin_name) != 0 || options->admin.count == ADMIN_MAX_LISTENERS)
        return NULL;
    struct admin_listener_option *listener = &options->admin.listeners[options->admin.count++];
    *listener = (struct admin_listener_option){.is_unix = socket->address.ss_family == AF_UNIX};
    if (listener->is_unix)
        memcpy(listener->path, path_of(socket), sizeof listener->path);
    else
        listener->address = socket->address;
    listener->tls = !listener->is_unix && socket->tls;
    return listener;
}

/*
 * Users who may write to a socket's file may connect. A socket without a file, or with one that
 * cannot be examined, is open to all.
 */
static bool is_open(const char *path) {
    struct stat status;
    return stat(path, &status) < 0 || status.st_mode & 022;
}

static bool give(struct options *options, struct listen_fd *socket, struct config_errors *errors) {
    struct listener_option *listener = find_listener(options, socket);
    struct admin_listener_option *admin = listener ? NULL : find_admin(options, socket);
    bool is_managed = !socket->is_lent;
    char text[LISTEN_FDS_TEXT], names[PROTOCOL_NAMES];
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
    listen_fds_format(socket, text);
    protocol_names(names);
    return socket->is_wanted || socket->is_lent ||
           config_errors_add(
               errors,
               "socket %s of the service manager: expected the address of a listener, or one of the names "
               "%s and admin, got \"%s\"",
               text, names, socket->name);
}

bool options_inherit(struct options *options, struct listen_fds *listen_fds, struct config_errors *errors) {
    bool good = true;
    for (size_t i = 0; i < listen_fds->count; i++)
        good = give(options, &listen_fds->list[i], errors) && good;
    return good;
}
