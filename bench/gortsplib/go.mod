module sluice/bench/gortsplib

go 1.21.0

require (
	github.com/bluenviron/gortsplib/v4 v4.12.3
	github.com/pion/rtp v1.8.11
)

require (
	github.com/bluenviron/mediacommon v1.14.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/rtcp v1.2.15 // indirect
	github.com/pion/sdp/v3 v3.0.10 // indirect
	golang.org/x/net v0.34.0 // indirect
	golang.org/x/sys v0.29.0 // indirect
)
