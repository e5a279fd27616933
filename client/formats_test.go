package client_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// format is a codec with functions to call and to stream with it.
type format struct {
	register func(*server.Server) error
	unary    func(t *testing.T, c tandem.Caller, compressor string)
	stream   func(t *testing.T, c tandem.Caller, compressor string)
}

// inFormat makes the format of a codec from a large message.
func inFormat[T any](name string, large *T) format {
	same := func(t *testing.T, got *T, err error) {
		t.Helper()
		if err != nil || !bytes.Equal(plain(t, got), plain(t, large)) {
			t.Errorf("not what was sent: %v", err)
		}
	}
	return format{
		register: func(srv *server.Server) error {
			return errors.Join(
				server.Handle(srv, name+".Unary", func(_ context.Context, in *T) (*T, error) { return in, nil }),
				server.HandleStream(srv, name+".Stream", func(_ context.Context, s *tandem.Stream[T, T]) error {
					for m, err := range s.All() {
						if err != nil {
							return err
						}
						if err := s.Send(m); err != nil {
							return err
						}
					}
					return nil
				}))
		},
		unary: func(t *testing.T, c tandem.Caller, compressor string) {
			got, err := client.Invoke[T](t.Context(), c, name+".Unary", large, client.Codec(name), client.Compressor(compressor))
			same(t, got, err)
		},
		stream: func(t *testing.T, c tandem.Caller, compressor string) {
			s, err := client.Stream[T, T](t.Context(), c, name+".Stream", client.Codec(name), client.Compressor(compressor))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 3 {
				if err := s.Send(large); err != nil {
					t.Fatal(err)
				}
				got, err := s.Recv()
				same(t, got, err)
			}
		},
	}
}

// plain returns the exported fields of a message.
func plain(t *testing.T, v any) []byte {
	t.Helper()
	b, err := codec.Append(codec.JSON(), nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type letter struct {
	To   []string
	Text string
	Page int
}

// note encodes itself.
type note struct{ Text string }

func (n note) MarshalBinary() ([]byte, error) { return []byte(n.Text), nil }

func (n *note) UnmarshalBinary(b []byte) error {
	n.Text = string(b)
	return nil
}

// page has the methods that vtprotobuf generates. A message of Google's own package may not be
// imported here; the demo and the bench make calls with one.
type page struct{ note }

func (p *page) MarshalVT() ([]byte, error) { return p.MarshalBinary() }

func (p *page) UnmarshalVT(b []byte) error { return p.UnmarshalBinary(b) }

// metered counts the bytes that its connections carry.
type metered struct {
	tandem.Transport
	bytes *atomic.Int64
}

func (m metered) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := m.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return meteredConn{c, m.bytes}, nil
}

type meteredConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Every codec works with every compressor, in calls and in streams, and compressed messages are
// small on the connection.
func TestEveryCodecWithEveryCompressor(t *testing.T) {
	text := strings.Repeat("much the same again and again, ", 3000)
	raw := []byte(text)
	mail := &letter{To: []string{"a", "b"}, Text: text, Page: 7}
	formats := map[string]format{
		"raw": inFormat("raw", &raw), "gob": inFormat("gob", mail), "json": inFormat("json", mail),
		"msgpack": inFormat("msgpack", mail), "generated": inFormat("generated", &note{text}), "protobuf": inFormat("protobuf", &page{note{text}}),
	}
	codecs := []tandem.Codec{codec.Gob(), codec.JSON(), codec.Raw(), codec.Generated(), msgpack.Codec(), protobuf.Codec()}
	compressors := []tandem.Compressor{snappy.Compressor(), zstd.Compressor()}

	network := metered{transport.NewMemory(), new(atomic.Int64)}
	serveOn(t, network, "a", func(srv *server.Server) (err error) {
		for _, f := range formats {
			err = errors.Join(err, f.register(srv))
		}
		return err
	}, server.WithCodecs(codecs...), server.WithCompressors(compressors...))
	c := dial(t, "mem://a", client.WithTransport("mem", network), client.WithCodec(nil, codecs...), client.WithCompression(client.Compression{Others: compressors}))
	for name, f := range formats {
		for _, compressor := range []string{"", "deflate", "gzip", "snappy", "zstd"} {
			for kind, do := range map[string]func(*testing.T, tandem.Caller, string){"unary": f.unary, "stream": f.stream} {
				t.Run(strings.Join([]string{name, compressor, kind}, " "), func(t *testing.T) {
					before := network.bytes.Load()
					do(t, c, compressor)
					carried := network.bytes.Load() - before
					if plain := int64(2 * len(text)); (carried < plain) != (compressor != "") || compressor != "" && carried > plain/4 {
						t.Errorf("%d bytes carried of %d", carried, plain)
					}
				})
			}
		}
	}
}
