// The scenario "flv" of bench-memory in Go: FLV tags of 1 KiB, in pieces of 64 KiB, without sockets. Two readers: the
// standard library's, with memory for each packet, and one over pooled blocks, which hands out views of them.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	streams       = 100
	payload       = 1024
	piece         = 64 << 10
	fileHeader    = 13
	tagHeader     = 11
	trailer       = 4
	checksumBytes = 64
	mostPayload   = 8 << 20
)

// parse reads tags until the source has no more, and tells of each.
type parse func(source io.Reader, took func(first *[checksumBytes]byte, size uint32)) error

var variants = map[string]parse{"go-bufio": parseBufio, "go-pooled": parsePooled}

// errTag is what breaks a stream.
var errTag = errors.New("no FLV tag")

// source is a stream in memory that ends after so many bytes.
type source struct {
	content []byte
	place   uint64
	end     uint64
}

func (s *source) Read(p []byte) (int, error) {
	if s.place == s.end {
		return 0, io.EOF
	}
	most := uint64(piece - s.place%piece)
	if most > uint64(len(p)) {
		most = uint64(len(p))
	}
	total := 0
	for most > 0 {
		n := uint64(copy(p[total:total+int(most)], s.content[s.place%uint64(len(s.content)):]))
		s.place += n
		total += int(n)
		most -= n
	}
	return total, nil
}

// tagSize is the size of the payload, from a tag's header.
func tagSize(header []byte) (uint32, error) {
	size := uint32(header[1])<<16 | uint32(header[2])<<8 | uint32(header[3])
	kind := header[0]
	if (kind != 8 && kind != 9 && kind != 18) || size < checksumBytes || size > mostPayload {
		return 0, errTag
	}
	return size, nil
}

// The contents and the checksum are those of bench/common.

func random(state *uint64) uint64 {
	*state += 0x9E3779B97F4A7C15
	z := *state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func makeContent() []byte {
	const tag, enough = tagHeader + payload + trailer, 1 << 20
	seed := uint64(1)
	content := make([]byte, enough/tag*tag)
	for at := 0; at < len(content); at += tag {
		one := content[at : at+tag]
		one[0] = 9
		one[1], one[2], one[3] = payload>>16, payload>>8&0xFF, payload&0xFF
		body := one[tagHeader : tagHeader+payload]
		for k := 0; k < payload; k += 8 {
			binary.LittleEndian.PutUint64(body[k:], random(&seed))
		}
		copy(body, []byte{0x17, 1, 0, 0, 0})
	}
	return content
}

var factors = [checksumBytes / 8]uint64{
	0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93,
	0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
}

func packetChecksum(first *[checksumBytes]byte, size uint32, index uint64) uint64 {
	sum := uint64(size)
	for i := 0; i < checksumBytes/8; i++ {
		sum += binary.LittleEndian.Uint64(first[8*i:]) * factors[i]
	}
	return sum * (2*index + 1)
}

type moment struct {
	at      time.Time
	usage   syscall.Rusage
	mallocs uint64
}

func note() (m moment) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.mallocs = stats.Mallocs
	syscall.Getrusage(syscall.RUSAGE_SELF, &m.usage)
	m.at = time.Now()
	return m
}

func seconds(t syscall.Timeval) float64 {
	return float64(t.Sec) + float64(t.Usec)/1e6
}

func run(reader parse, operations uint64) error {
	content := makeContent()
	const tag = tagHeader + payload + trailer
	// As many pieces of each stream as hold so many packets in all.
	pieces := uint64(1)
	for streams*(pieces*piece/tag) < operations {
		pieces++
	}
	var sum, done uint64
	begin := note()
	for i := 0; i < streams; i++ {
		index := uint64(0)
		err := reader(&source{content: content, end: pieces * piece}, func(first *[checksumBytes]byte, size uint32) {
			sum += packetChecksum(first, size, index)
			index++
		})
		if err != nil {
			return err
		}
		done += index
	}
	end := note()
	fmt.Printf("result {\"operations\": %d, \"bytes\": %d, \"checksum\": \"%016x\", \"wall_s\": %.9f, \"user_s\": %.6f, "+
		"\"system_s\": %.6f, \"allocations\": %d, \"page_faults\": %d, \"peak_resident_kib\": %d}\n",
		done, streams*pieces*piece, sum, end.at.Sub(begin.at).Seconds(),
		seconds(end.usage.Utime)-seconds(begin.usage.Utime), seconds(end.usage.Stime)-seconds(begin.usage.Stime),
		end.mallocs-begin.mallocs, end.usage.Minflt-begin.usage.Minflt, end.usage.Maxrss)
	return nil
}

func main() {
	name := flag.String("variant", "", "go-bufio or go-pooled")
	operations := flag.Uint64("operations", 0, "packets, at least")
	flag.Parse()
	reader, known := variants[*name]
	if !known || *operations == 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(reader, *operations); err != nil {
		fmt.Fprintln(os.Stderr, "bench-go:", err)
		os.Exit(1)
	}
}
