/**
 * @file sluice.h
 * All of the library's headers.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <sluice/amf.h>
#include <sluice/bytes.h>
#include <sluice/chain.h>
#include <sluice/codec.h>
#include <sluice/conn.h>
#include <sluice/connect.h>
#include <sluice/errors.h>
#include <sluice/file.h>
#include <sluice/file_writer.h>
#include <sluice/flv.h>
#include <sluice/flv_rtp.h>
#include <sluice/headers.h>
#include <sluice/http.h>
#include <sluice/loop.h>
#include <sluice/pool.h>
#include <sluice/reader.h>
#include <sluice/resp.h>
#include <sluice/resp_client.h>
#include <sluice/rtmp.h>
#include <sluice/rtp.h>
#include <sluice/rtp_flv.h>
#include <sluice/rtsp.h>
#include <sluice/sdp.h>
#include <sluice/slice.h>
#include <sluice/stream.h>
#include <sluice/version.h>
#include <sluice/visibility.h>
#include <sluice/websocket.h>
#include <sluice/writer.h>

#endif
