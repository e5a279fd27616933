package httpcalls

import (
	"strings"

	"github.com/tandem-rpc/tandem"
)

// own are the header fields that belong to HTTP or to a protocol.
var own = map[string]bool{
	"accept": true, "accept-encoding": true, "accept-post": true, "allow": true, "connection": true,
	"content-encoding": true, "content-length": true, "content-type": true, "date": true,
	"host": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true, "http2-settings": true, "expect": true,

	"connect-protocol-version": true, "connect-timeout-ms": true,
	"connect-accept-encoding": true, "connect-content-encoding": true,

	"grpc-accept-encoding": true, "grpc-encoding": true, "grpc-timeout": true, "grpc-message": true,
	"grpc-message-type": true, "grpc-status": true, "grpc-status-details-bin": true,
}

// IsOwn reports whether a header field, in lower case, belongs to HTTP or to a protocol, and so
// is not metadata in either direction.
func IsOwn(name string) bool { return own[name] }

// IsReserved reports whether a header field, in lower case, is tandem's own (see
// [tandem.Metadata]).
func IsReserved(name string) bool {
	return strings.HasPrefix(name, "tandem-") && !travels[name]
}

// travels are the reserved names that are metadata of calls.
var travels = map[string]bool{
	tandem.CriticalityKey: true, tandem.KeyKey: true, tandem.FingerprintKey: true, tandem.AttemptsKey: true,
}

// IsName reports whether a name can stand in a header: RFC 9110's token.
func IsName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return name != ""
}

// Binary is the suffix of metadata names whose values are bytes: gRPC and Connect send those as
// base64.
const Binary = "-bin"

// Check returns an error for metadata that HTTP can't carry, nil if it can. encodes says that
// the values of names that end in [Binary] will be encoded.
func Check(md tandem.Metadata, encodes bool) error {
	for name, values := range md {
		if lower := strings.ToLower(name); !IsName(name) || IsOwn(lower) || IsReserved(lower) {
			return unsendable("metadata %.40q: this name can't be sent over HTTP, or is not for metadata", name)
		}
		if encodes && strings.HasSuffix(name, Binary) {
			continue
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				return unsendable("metadata %.40q: HTTP can't carry the control characters of its value: gRPC and Connect carry bytes under a name that ends in %q", name, Binary)
			}
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func unsendable(format string, args ...any) error {
	e := tandem.Errorf(tandem.InvalidArgument, format, args...)
	e.NotExecuted = true
	return e
}
