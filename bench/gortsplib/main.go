// An RTSP server that passes streams on, on gortsplib, the library that MediaMTX's RTSP is made of: its example of a
// server, for many streams. Says "ready" and its port on 127.0.0.1, and for each line that it reads how many streams,
// players and frames it has seen.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/bluenviron/gortsplib/v4"
	"github.com/bluenviron/gortsplib/v4/pkg/base"
	"github.com/bluenviron/gortsplib/v4/pkg/description"
	"github.com/bluenviron/gortsplib/v4/pkg/format"
	"github.com/pion/rtp"
)

type relay struct {
	server          *gortsplib.Server
	mutex           sync.RWMutex
	streams         map[string]*gortsplib.ServerStream
	players, frames atomic.Int64
}

// The library adds headers to it: each needs its own.
func respond(status base.StatusCode) *base.Response {
	return &base.Response{StatusCode: status}
}

func (r *relay) find(path string) *gortsplib.ServerStream {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	return r.streams[path]
}

func (r *relay) OnAnnounce(ctx *gortsplib.ServerHandlerOnAnnounceCtx) (*base.Response, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.streams[ctx.Path] = gortsplib.NewServerStream(r.server, ctx.Description)
	return respond(base.StatusOK), nil
}

func (r *relay) OnDescribe(ctx *gortsplib.ServerHandlerOnDescribeCtx) (*base.Response, *gortsplib.ServerStream, error) {
	stream := r.find(ctx.Path)
	if stream == nil {
		return respond(base.StatusNotFound), nil, nil
	}
	return respond(base.StatusOK), stream, nil
}

func (r *relay) OnSetup(ctx *gortsplib.ServerHandlerOnSetupCtx) (*base.Response, *gortsplib.ServerStream, error) {
	return r.OnDescribe(&gortsplib.ServerHandlerOnDescribeCtx{Path: ctx.Path})
}

func (r *relay) OnPlay(_ *gortsplib.ServerHandlerOnPlayCtx) (*base.Response, error) {
	r.players.Add(1)
	return respond(base.StatusOK), nil
}

func (r *relay) OnRecord(ctx *gortsplib.ServerHandlerOnRecordCtx) (*base.Response, error) {
	stream := r.find(ctx.Path)
	ctx.Session.OnPacketRTPAny(func(media *description.Media, _ format.Format, packet *rtp.Packet) {
		if err := stream.WritePacketRTP(media, packet); err != nil {
			fail(err)
		}
		if packet.Marker { // The last packet of a frame.
			r.frames.Add(1)
		}
	})
	return respond(base.StatusOK), nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	r := &relay{streams: map[string]*gortsplib.ServerStream{}}
	var address net.Addr
	r.server = &gortsplib.Server{
		Handler:        r,
		RTSPAddress:    "127.0.0.1:0",
		WriteQueueSize: 512, // As MediaMTX has it.
		Listen: func(network, at string) (net.Listener, error) {
			listener, err := net.Listen(network, at)
			if err == nil {
				address = listener.Addr()
			}
			return listener, err
		},
	}
	if err := r.server.Start(); err != nil {
		fail(err)
	}
	fmt.Printf("ready %d\n", address.(*net.TCPAddr).Port)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		r.mutex.RLock()
		streams := len(r.streams)
		r.mutex.RUnlock()
		fmt.Printf("state {\"streams\": %d, \"players\": %d, \"frames\": %d}\n", streams, r.players.Load(), r.frames.Load())
	}
}
