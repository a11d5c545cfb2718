package main

import (
	"io"
	"sync"
)

const blockSize = 16 << 10

// block is what one read fills.
type block struct {
	bytes [blockSize]byte
	begin int // of what is not consumed
	end   int // of what was read
}

var pool = sync.Pool{New: func() any { return new(block) }}

// blockReader reads into pooled blocks and hands out views of them. A block whose last byte is consumed goes back.
type blockReader struct {
	source io.Reader
	blocks []*block // from first on those that are in use
	first  int
	length int
	views  [][]byte
}

// fill has at least so many bytes buffered.
func (r *blockReader) fill(n int) error {
	for r.length < n {
		b := pool.Get().(*block)
		read, err := r.source.Read(b.bytes[:])
		if err != nil {
			pool.Put(b)
			return err
		}
		b.begin, b.end = 0, read
		r.blocks = append(r.blocks, b)
		r.length += read
	}
	return nil
}

// readBE reads a number of n bytes, wherever the blocks end.
func (r *blockReader) readBE(n int) (value uint32, err error) {
	if err = r.fill(n); err != nil {
		return 0, err
	}
	if b := r.blocks[r.first]; b.end-b.begin > n {
		for _, digit := range b.bytes[b.begin : b.begin+n] {
			value = value<<8 | uint32(digit)
		}
		b.begin += n
		r.length -= n
		return value, nil
	}
	for ; n > 0; n-- {
		value = value<<8 | uint32(r.blocks[r.first].bytes[r.blocks[r.first].begin])
		r.skip(1)
	}
	return value, nil
}

// skip consumes what is buffered, and gives back the blocks that it leaves behind.
func (r *blockReader) skip(n int) {
	r.length -= n
	for n > 0 {
		b := r.blocks[r.first]
		here := b.end - b.begin
		if here > n {
			b.begin += n
			return
		}
		n -= here
		pool.Put(b)
		r.blocks[r.first] = nil
		r.first++
	}
	if r.first == len(r.blocks) {
		r.blocks, r.first = r.blocks[:0], 0
	} else if r.first >= 64 {
		r.blocks, r.first = r.blocks[:copy(r.blocks, r.blocks[r.first:])], 0
	}
}

// view is the next n bytes where they lie; valid until the next call.
func (r *blockReader) view(n int) ([][]byte, error) {
	if err := r.fill(n); err != nil {
		return nil, err
	}
	r.views = r.views[:0]
	for i := r.first; n > 0; i++ {
		b := r.blocks[i]
		here := b.bytes[b.begin:b.end]
		if len(here) > n {
			here = here[:n]
		}
		r.views = append(r.views, here)
		n -= len(here)
	}
	return r.views, nil
}

// close gives back what is left.
func (r *blockReader) close() {
	r.skip(r.length)
}

// tag reads a tag and tells of it where it lies.
func (r *blockReader) tag(took func(first *[checksumBytes]byte, size uint32)) error {
	var header [tagHeader]byte
	first, err := r.readBE(4)
	if err == nil {
		err = r.fill(tagHeader - 4)
	}
	if err != nil {
		return err
	}
	header[0], header[1], header[2], header[3] = byte(first>>24), byte(first>>16), byte(first>>8), byte(first)
	size, err := tagSize(header[:])
	if err != nil {
		return err
	}
	r.skip(tagHeader - 4)
	if err = r.fill(int(size) + trailer); err != nil {
		return err
	}
	views, err := r.view(int(size))
	if err != nil {
		return err
	}
	if len(views[0]) >= checksumBytes {
		took((*[checksumBytes]byte)(views[0]), size)
	} else {
		var straddling [checksumBytes]byte
		n := copy(straddling[:], views[0])
		for _, view := range views[1:] {
			n += copy(straddling[n:], view)
		}
		took(&straddling, size)
	}
	r.skip(int(size) + trailer)
	return nil
}

// parsePooled copies nothing: a packet is views of the blocks that it was read into.
func parsePooled(source io.Reader, took func(first *[checksumBytes]byte, size uint32)) error {
	reader := &blockReader{source: source}
	defer reader.close()
	for {
		if err := reader.tag(took); err != nil {
			if isEnd(err) {
				return nil
			}
			return err
		}
	}
}
