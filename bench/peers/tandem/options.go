package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/server"
)

// known are the options of this peer:
//
//	tls            TLS 1.3
//	bytes=n        calls carry n bytes with the codec "raw" instead of the message
//	stream=n       a stream of messages of n bytes, from the server into one buffer
//	beside=n       large calls beside the measured ones; their size is allowed
//	gzip, …        a compressor, for messages from 1 KiB on
//	above=n        the same from n bytes on
//	metrics, …     plugins: see plugins.go
var known = []string{
	"tls", "bytes", "stream", load.OptionBeside, "above", "gzip", "deflate", "snappy", "zstd",
	"metrics", "trace", "accesslog",
}

// options are those in the name that the peer was started under. Without any,
// server and client have their defaults.
type options struct{ load.Options }

// room is what a message of the option beside has besides its text.
const room = 1 << 10

// compressor is the one that is asked for, or nil.
func (o options) compressor() tandem.Compressor {
	for _, c := range []tandem.Compressor{compress.Gzip(), compress.Deflate(), snappy.Compressor(), zstd.Compressor()} {
		if o.Has(c.Name()) {
			return c
		}
	}
	return nil
}

// server returns the options of a server and the listener that it gets.
func (o options) server(ln net.Listener) (opts []server.Option, _ net.Listener, err error) {
	if o.Has("tls") {
		config, _, err := load.TLS()
		if err != nil {
			return nil, nil, err
		}
		ln = tls.NewListener(ln, config)
	}
	if o.Has("stream") {
		opts = append(opts, server.WithCodecs(owned{}))
	}
	if o.Has(load.OptionBeside) {
		opts = append(opts, server.WithMaxMessage(o.Bytes(load.OptionBeside)+room))
	}
	if c := o.compressor(); c != nil {
		opts = append(opts, server.WithCompressors(c))
	}
	if o.Has("above") {
		opts = append(opts, server.WithCompressAbove(o.Bytes("above")))
	}
	return o.withPlugins(opts), ln, nil
}

// client returns the options of a client.
func (o options) client() (opts []client.Option, err error) {
	if o.Has("tls") {
		_, config, err := load.TLS()
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.WithTLS(config))
	}
	if o.Has("stream") {
		opts = append(opts, client.WithCodecs(owned{}))
	}
	if o.Has(load.OptionBeside) {
		opts = append(opts, client.WithMaxMessage(o.Bytes(load.OptionBeside)+room))
	}
	if c := o.compressor(); c != nil {
		opts = append(opts, client.WithCompressor(c))
	}
	if o.Has("above") {
		opts = append(opts, client.WithCompressAbove(o.Bytes("above")))
	}
	return o.callWithPlugins(opts), nil
}

// handleBytes serves what the options bytes and stream ask for.
func (o options) handleBytes(srv *server.Server) error {
	if o.Has("bytes") {
		return server.Handle(srv, "Bytes.Echo", func(_ context.Context, b *[]byte) (*[]byte, error) {
			message.Work()
			return b, nil
		})
	}
	if o.Has("stream") {
		payload := load.Payload(o.Bytes("stream"))
		return server.HandleStream(srv, "Bytes.Stream", func(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
			for {
				message.Work()
				if err := s.Send(&payload); err != nil {
					return err
				}
			}
		})
	}
	return nil
}

// bytesCaller calls with plain bytes. Any number of goroutines may use it.
type bytesCaller struct {
	*client.Client
	payload []byte
}

func (c bytesCaller) Exchange() ([]byte, error) {
	var answer []byte
	err := c.Call(context.Background(), "Bytes.Echo", c.payload, &answer, client.Codec("raw"))
	return answer, err
}

// streamCaller receives a stream into one buffer. It is for one goroutine.
type streamCaller struct {
	client *client.Client
	stream tandem.MessageStream
	buf    []byte
}

// openStream asks the server to send messages of that size until it is closed.
func openStream(c *client.Client, size int) (load.Caller, error) {
	stream, err := c.OpenStream(context.Background(), "Bytes.Stream", client.Codec(owned{}.Name()))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return load.CallBytes(&streamCaller{c, stream, make([]byte, 0, size)}, size), nil
}

func (s *streamCaller) Exchange() ([]byte, error) {
	err := s.stream.RecvMsg(&s.buf)
	return s.buf, err
}

func (s *streamCaller) Close() error { return errors.Join(s.stream.Close(), s.client.Close()) }

// owned is a codec of bytes that decodes into a buffer the caller owns, where
// tandem's own "raw" makes a new one for each message.
type owned struct{}

func (owned) Name() string { return "owned" }

func (owned) Append(dst []byte, v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return dst, fmt.Errorf("a %T, expected *[]byte", v)
	}
	return append(dst, *b...), nil
}

func (owned) Decode(src []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a %T, expected *[]byte", v)
	}
	*b = append((*b)[:0], src...)
	return nil
}
