package main

import (
	"bufio"
	"errors"
	"io"
)

// isEnd tells an end, also in the middle of a tag, from a failure.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// parseBufio is what is written first: a buffered reader, and memory of its own for each packet.
func parseBufio(source io.Reader, took func(first *[checksumBytes]byte, size uint32)) error {
	reader := bufio.NewReaderSize(source, piece)
	header := make([]byte, tagHeader)
	for {
		if _, err := io.ReadFull(reader, header); err != nil {
			if isEnd(err) {
				return nil
			}
			return err
		}
		size, err := tagSize(header)
		if err != nil {
			return err
		}
		packet := make([]byte, size)
		if _, err = io.ReadFull(reader, packet); err == nil {
			_, err = reader.Discard(trailer)
		}
		if isEnd(err) {
			return nil
		}
		if err != nil {
			return err
		}
		took((*[checksumBytes]byte)(packet), size)
	}
}
