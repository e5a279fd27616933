package thrift_test

import (
	"bytes"
	"context"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/wire"
)

// said returns the first bytes that a client sends in a dialect.
func said(t testing.TB, dialect, method string, kind apache.TMessageType, args apache.TStruct) []byte {
	t.Helper()
	buffer := &closeless{apache.NewTMemoryBuffer()}
	p := dialects[dialect](buffer, &apache.TConfiguration{})
	ctx := context.Background()
	for _, err := range []error{p.WriteMessageBegin(ctx, method, kind, 7), args.Write(ctx, p), p.WriteMessageEnd(ctx), p.Flush(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return bytes.Clone(buffer.Bytes())
}

// closeless is a buffer that Close does not clear.
type closeless struct{ *apache.TMemoryBuffer }

func (*closeless) Close() error { return nil }

// No other protocol matches the first bytes of a Thrift client, however few have arrived,
// and Thrift does not match those of other clients.
func TestMatchesWhatIsThriftOnly(t *testing.T) {
	p := thrift.New()
	for dialect := range dialects {
		for _, kind := range []apache.TMessageType{apache.CALL, apache.ONEWAY} {
			first := said(t, dialect, "ping", kind, &desk.DeskPingArgs{})
			was := server.NeedMore
			for n := 1; n <= len(first); n++ {
				switch v := p.Match(first[:n]); {
				case v == server.No, was == server.Yes && v != server.Yes:
					t.Fatalf("%s: %q is %v, after %v", dialect, first[:n], v, was)
				default:
					was = v
				}
				for _, other := range all.New() {
					if v := other.Match(first[:n]); v == server.Yes || was == server.Yes && v != server.No {
						t.Errorf("%s: %q is %v for %s", dialect, first[:n], v, other.Name())
					}
				}
			}
			if was != server.Yes {
				t.Errorf("%s: %q is not Thrift", dialect, first)
			}
		}
	}
	for _, s := range []string{
		wire.Magic, "{\"jsonrpc\":", " \r\n\t{}", "[{", "CONNECT /_goRPC_ HTTP/", ".\x7f\x03\x01\x01\x07Request\x01\xff\x80", "\x08\x00\x00\x30\x00\x00",
		"GET / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "\x16\x03\x01\x00\xa5\x01", "\x16\x03\x03\x00\xa5\x01",
		"\x00\x00\x00\x04\x80\x01\x00\x01", // the frame is too short
		"\x00\x00\x00\x20\x00\x00\x00\x04", // no version
		"\x00\x00\x00\x20\x80\x01\x00\x02", // a response
		"\x80\x01\x00\x03", "\x82\x41", "\x82\x22", "\x81", "\x0f\xff\x00\x00",
	} {
		if v := p.Match([]byte(s)); v != server.No {
			t.Errorf("%q is %v", s, v)
		}
		for n := 1; n < len(s); n++ {
			if v := p.Match([]byte(s[:n])); v == server.Yes {
				t.Errorf("%q is %v", s[:n], v)
			}
		}
	}
}
