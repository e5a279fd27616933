package thrift

import (
	"encoding/binary"

	"github.com/tandem-rpc/tandem/server"
)

// beginnings are the first bytes of the first message on a connection.
var beginnings = []string{
	"\x80\x01\x00\x01", "\x80\x01\x00\x04", // binary, strict: a call, a one-way call
	"\x82\x21", "\x82\x81", // compact: a call, a one-way call
	"\x0f\xff", // a THeader; always in a frame
}

// Match accepts the first bytes of a request, with or without a frame. A frame has less
// than 128 MiB, so that its length begins with a byte below 08, as in no other protocol; a
// message without a frame begins with a byte from 80 on.
func (*protocol) Match(first []byte) server.Verdict {
	verdict := server.No
	framed := first[0] < maxFrame>>24
	if framed {
		if len(first) <= frameLen {
			return server.NeedMore
		}
		if binary.BigEndian.Uint32(first) < minMessage {
			return server.No
		}
		first = first[frameLen:]
	}
	for _, b := range beginnings {
		n := min(len(b), len(first))
		switch {
		case b[0] == headerMagic>>8 && !framed, string(first[:n]) != b[:n]:
		case n == len(b):
			return server.Yes
		default:
			verdict = server.NeedMore
		}
	}
	return verdict
}
