#include "tools/backend.h"

#include <string.h>

#include "tools/say.h"

bool backend_read(const char *text, sluice_backend_choice *ret_backend) {
    static const struct {
        const char *name;
        sluice_backend_choice backend;
    } backends[] = {{"auto", SLUICE_BACKEND_AUTO}, {"uring", SLUICE_BACKEND_URING}, {"epoll", SLUICE_BACKEND_EPOLL}};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (strcmp(text, backends[i].name) == 0) {
            *ret_backend = backends[i].backend;
            return true;
        }
    say("--backend wants auto, uring or epoll, not \"%s\"", text);
    return false;
}
