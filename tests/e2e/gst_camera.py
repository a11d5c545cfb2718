"""A camera made of gst-rtsp-server: gst_camera.py PIPELINE. Writes its port, and serves rtsp://127.0.0.1:PORT/cam until
it is killed. Status 77 where the library is not there.

By ctypes, since the bindings for Python are rarely installed.
"""

import ctypes
import sys


def library(name):
    return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


def main():
    try:
        glib, gst = library("libglib-2.0.so.0"), library("libgstreamer-1.0.so.0")
        rtsp = library("libgstrtspserver-1.0.so.0")
    except OSError:
        sys.exit(77)
    for function in (rtsp.gst_rtsp_server_new, rtsp.gst_rtsp_server_get_mount_points, rtsp.gst_rtsp_media_factory_new,
                     glib.g_main_loop_new):
        function.restype = ctypes.c_void_p
    gst.gst_init(None, None)
    server = ctypes.c_void_p(rtsp.gst_rtsp_server_new())
    rtsp.gst_rtsp_server_set_address(server, b"127.0.0.1")
    rtsp.gst_rtsp_server_set_service(server, b"0")
    factory = ctypes.c_void_p(rtsp.gst_rtsp_media_factory_new())
    rtsp.gst_rtsp_media_factory_set_launch(factory, sys.argv[1].encode())
    mounts = ctypes.c_void_p(rtsp.gst_rtsp_server_get_mount_points(server))
    rtsp.gst_rtsp_mount_points_add_factory(mounts, b"/cam", factory)
    if not rtsp.gst_rtsp_server_attach(server, None):
        sys.exit("cannot listen")
    print(rtsp.gst_rtsp_server_get_bound_port(server), flush=True)
    glib.g_main_loop_run(ctypes.c_void_p(glib.g_main_loop_new(None, 0)))


if __name__ == "__main__":
    main()
