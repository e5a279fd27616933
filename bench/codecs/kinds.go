package codecs

import (
	"errors"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/codec/protobuf"
)

// kinds are the codecs in the order of their rows.
func kinds() []kind {
	return []kind{
		newKind(body[Plain]{
			name: "gob", codec: codec.Gob(), own: native(rpc.NewClient, (*rpc.Server).ServeConn),
			make:   func() *Plain { return (*Plain)(message.New()) },
			answer: func(m *Plain) { message.Answer(m.generated()) },
			share:  func(dst, src *Plain) { message.Share(dst.generated(), src.generated()) },
			check:  func(m *Plain) error { return message.Check(m.generated()) },
		}),
		ofMessage("json", codec.JSON(), nativeJSON()),
		ofMessage("msgpack", msgpack.Codec(), nil),
		newKind(body[Record]{
			name: "gencode-style", codec: codec.Generated(), make: newRecord,
			answer: func(m *Record) { m.Field1, m.Field2 = message.AnswerText, message.AnswerNumber },
			share:  func(dst, src *Record) { *dst = *src },
			check: func(m *Record) error {
				if m.Field1 != message.AnswerText || m.Field2 != message.AnswerNumber {
					return errAnswer
				}
				return nil
			},
		}),
		newKind(body[Reflected]{
			name: "protobuf", codec: protobuf.Codec(),
			make:   func() *Reflected { return (*Reflected)(message.New()) },
			answer: func(m *Reflected) { message.Answer(m.plain()) },
			share:  func(dst, src *Reflected) { message.Share(dst.plain(), src.plain()) },
			check:  func(m *Reflected) error { return message.Check(m.plain()) },
		}),
		ofMessage("generated protobuf", codec.Generated(), nil),
		newKind(body[[]byte]{
			name: "raw", codec: codec.Raw(),
			make:   func() *[]byte { return new(make([]byte, message.Size)) },
			answer: func(m *[]byte) { copy(*m, message.AnswerText) },
			share:  func(dst, src *[]byte) { *dst = *src },
			check: func(m *[]byte) error {
				if len(*m) != message.Size || string((*m)[:len(message.AnswerText)]) != message.AnswerText {
					return errAnswer
				}
				return nil
			},
		}),
	}
}

var errAnswer = errors.New("codecs: the answer is not the server's")

// ofMessage is a codec that takes the seeds' message as protobuf generated it.
func ofMessage(name string, c tandem.Codec, own *netrpcWays) kind {
	return newKind(body[message.BenchmarkMessage]{
		name: name, codec: c, own: own,
		make: message.New, answer: message.Answer, share: message.Share, check: message.Check,
	})
}

// Plain is the seeds' message without any methods: gob carries none of Protocol Buffers.
type Plain message.BenchmarkMessage

func (m *Plain) generated() *message.BenchmarkMessage { return (*message.BenchmarkMessage)(m) }

// Reflected is the seeds' message without the methods of vtprotobuf, which the
// codec would use.
type Reflected message.BenchmarkMessage

func (m *Reflected) plain() *message.BenchmarkMessage { return (*message.BenchmarkMessage)(m) }

// ProtoReflect is what protobuf's own runtime goes by.
func (m *Reflected) ProtoReflect() protoreflect.Message { return m.plain().ProtoReflect() }

// Reset empties the message.
func (m *Reflected) Reset() { m.plain().Reset() }

// body is a codec with the type that it carries and what a call does to it.
type body[T any] struct {
	name   string
	codec  tandem.Codec
	make   func() *T
	answer func(*T)          // the server's work
	share  func(dst, src *T) // for a reply that is a parameter
	check  func(*T) error    // the client's
	own    *netrpcWays       // net/rpc's own for this codec; nil for none
}

// kind is a body whose type is hidden.
type kind struct {
	name           string
	size           int    // of the encoded message, in bytes
	theirs         string // which codec net/rpc has
	encode, decode func(b *testing.B) error
	tandem, netrpc func() (*pair, error)
}

func newKind[T any](k body[T]) kind {
	encoded, err := codec.Append(k.codec, nil, k.make())
	theirs := "tandem's"
	if k.own != nil {
		theirs = "its own"
	}
	return kind{
		name: k.name, size: len(encoded), theirs: theirs,
		encode: func(b *testing.B) error {
			buf, m := encoded, k.make()
			for err == nil && b.Loop() {
				buf, err = codec.Append(k.codec, buf[:0], m)
			}
			return err
		},
		decode: func(b *testing.B) error {
			for err == nil && b.Loop() {
				err = codec.Decode(k.codec, encoded, new(T))
			}
			return err
		},
		tandem: func() (*pair, error) { return tandemPair(k) },
		netrpc: func() (*pair, error) { return netrpcPair(k) },
	}
}

// native are the two ends of a codec that net/rpc brings.
func native(client func(conn io.ReadWriteCloser) *rpc.Client, server func(srv *rpc.Server, conn io.ReadWriteCloser)) *netrpcWays {
	return &netrpcWays{
		client: func(conn net.Conn) *rpc.Client { return client(conn) },
		serve:  func(srv *rpc.Server, conn net.Conn) { server(srv, conn) },
	}
}

func nativeJSON() *netrpcWays {
	return native(jsonrpc.NewClient, func(srv *rpc.Server, conn io.ReadWriteCloser) { srv.ServeCodec(jsonrpc.NewServerCodec(conn)) })
}
