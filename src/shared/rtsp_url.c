#include "shared/rtsp_url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool begins_with(sluice_http_text text, const char *scheme) {
    return text.length > strlen(scheme) && strncasecmp(text.text, scheme, strlen(scheme)) == 0;
}

int rtsp_control_url(const char *base, sluice_http_text control, char ret_url[RTSP_URL + 1]) {
    char url[RTSP_URL + 1];
    int length;
    const bool absolute = begins_with(control, "rtsp://") || begins_with(control, "rtsps://");
    bool slash = *base && base[strlen(base) - 1] == '/';
    if (absolute)
        length = snprintf(url, sizeof url, "%.*s", (int)control.length, control.text);
    else if (control.length == 0 || (control.length == 1 && *control.text == '*'))
        length = snprintf(url, sizeof url, "%s", base);
    else
        length = snprintf(url, sizeof url, "%s%s%.*s", base, slash || *control.text == '/' ? "" : "/",
                          (int)control.length, control.text);
    if (length < 0 || (size_t)length >= sizeof url)
        return -EMSGSIZE;
    memcpy(ret_url, url, (size_t)length + 1);
    return 0;
}
