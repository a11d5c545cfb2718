// An RTSP client that shares no code with the daemon, on gortsplib: it publishes made-up frames, or plays and says what
// came. Its caller, test_rtsp_gortsplib.py, compares.
package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bluenviron/gortsplib/v4"
	"github.com/bluenviron/gortsplib/v4/pkg/base"
	"github.com/bluenviron/gortsplib/v4/pkg/description"
	"github.com/bluenviron/gortsplib/v4/pkg/format"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtpmpeg4audio"
	"github.com/bluenviron/mediacommon/pkg/codecs/mpeg4audio"
	"github.com/pion/rtp"
)

const (
	videoSize = 3000 // More than a packet.
	audioSize = 200
	group     = 25
	step      = 40 // Milliseconds.
	pause     = 4 * time.Millisecond
)

// The certificate is one that the test has made.
var insecure = &tls.Config{InsecureSkipVerify: true}

// What the publisher's caller knows as well.
var (
	sps, _ = hex.DecodeString("6764000aacd9420db011000003000100000300140f122596")
	pps, _ = hex.DecodeString("68ef8fcb")
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

// A unit that begins with head and is its number over and over, with bits that keep it from looking like a start code.
func unit(head []byte, number uint32, size int) []byte {
	made := append([]byte{}, head...)
	for len(made) < size {
		made = binary.BigEndian.AppendUint32(made, 0xA0B0C000+number)
	}
	return made
}

// Publishes so many pictures, each with an audio frame beside it. Transport: the library's choice, UDP first.
func publish(url string, count int) {
	video := &format.H264{PayloadTyp: 96, SPS: sps, PPS: pps, PacketizationMode: 1}
	audio := &format.MPEG4Audio{
		PayloadTyp:       97,
		Config:           &mpeg4audio.Config{Type: mpeg4audio.ObjectTypeAACLC, SampleRate: 48000, ChannelCount: 2},
		SizeLength:       13,
		IndexLength:      3,
		IndexDeltaLength: 3,
	}
	session := &description.Session{Medias: []*description.Media{
		{Type: description.MediaTypeVideo, Formats: []format.Format{video}},
		{Type: description.MediaTypeAudio, Formats: []format.Format{audio}},
	}}
	pictures, err := video.CreateEncoder()
	check(err)
	sounds, err := audio.CreateEncoder()
	check(err)
	client := gortsplib.Client{TLSConfig: insecure}
	check(client.StartRecording(url, session))
	defer client.Close()
	send := func(medium int, packets []*rtp.Packet, err error, timestamp uint32) {
		check(err)
		for _, packet := range packets {
			packet.Timestamp = timestamp
			check(client.WritePacketRTP(session.Medias[medium], packet))
		}
	}
	for number := uint32(0); number < uint32(count); number++ {
		head := byte(0x41)
		if number%group == 0 {
			head = 0x65
		}
		packets, err := pictures.Encode([][]byte{unit([]byte{head}, number, videoSize)})
		send(0, packets, err, number*step*90)
		packets, err = sounds.Encode([][]byte{unit(nil, number, audioSize)})
		send(1, packets, err, number*step*48)
		time.Sleep(pause)
	}
}

// Plays until so many frames have come. A line for each: its kind, its time in milliseconds, its bytes.
func play(url string, count int) {
	address, err := base.ParseURL(url)
	check(err)
	client := gortsplib.Client{TLSConfig: insecure, OnPacketLost: func(err error) { fail(err) },
		OnDecodeError: func(err error) { fail(err) }}
	check(client.Start(address.Scheme, address.Host))
	defer client.Close()
	session, _, err := client.Describe(address)
	check(err)
	check(client.SetupAll(session.BaseURL, session.Medias))

	lines := make(chan string, 65536)
	// Every packet is looked at: the library's clock begins with the first packet of a key picture.
	say := func(kind string, medium *description.Media, packet *rtp.Packet, rate int64,
		decode func(*rtp.Packet) ([][]byte, error)) {
		pts, known := client.PacketPTS2(medium, packet)
		frames, err := decode(packet)
		if err != nil && !errors.Is(err, rtph264.ErrMorePacketsNeeded) && !errors.Is(err, rtpmpeg4audio.ErrMorePacketsNeeded) {
			fail(err)
		}
		for _, frame := range frames {
			if known {
				lines <- fmt.Sprintf("%s %.3f %s", kind, float64(pts)*1000/float64(rate), hex.EncodeToString(frame))
			}
		}
	}
	var video *format.H264
	if medium := session.FindFormat(&video); medium != nil {
		fmt.Printf("sps %s\npps %s\n", hex.EncodeToString(video.SPS), hex.EncodeToString(video.PPS))
		decoder, err := video.CreateDecoder()
		check(err)
		client.OnPacketRTP(medium, video, func(packet *rtp.Packet) {
			say("video", medium, packet, 90000, decoder.Decode)
		})
	}
	var audio *format.MPEG4Audio
	if medium := session.FindFormat(&audio); medium != nil {
		decoder, err := audio.CreateDecoder()
		check(err)
		client.OnPacketRTP(medium, audio, func(packet *rtp.Packet) {
			say("audio", medium, packet, int64(audio.ClockRate()), decoder.Decode)
		})
	}
	_, err = client.Play(nil)
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	for ; count > 0; count-- {
		select {
		case line := <-lines:
			fmt.Println(line)
		case err := <-ended:
			fail(err)
		}
	}
}

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: %s publish|play URL COUNT", os.Args[0]))
	}
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	if os.Args[1] == "publish" {
		publish(os.Args[2], count)
	} else {
		play(os.Args[2], count)
	}
}
