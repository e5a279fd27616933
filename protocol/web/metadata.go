package web

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
)

// own are the names of a header that are HTTP's or a protocol's own: they are not
// metadata, in either direction.
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

// reserved begin the names that are tandem's (see [tandem.Metadata]).
const reserved = "tandem-"

// binary ends the names whose values are bytes.
const binary = "-bin"

// Metadata returns a request's header as a call's metadata: without what is HTTP's
// own, and with bytes where a name ends in "-bin".
func Metadata(h http.Header) tandem.Metadata {
	md := make(tandem.Metadata, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		if own[name] || strings.HasPrefix(name, reserved) {
			continue
		}
		if strings.HasSuffix(name, binary) {
			values = decodeBinary(values)
		}
		md[name] = append(md[name], values...)
	}
	return md
}

// decodeBinary decodes base64. Several values may come as one, with commas between
// them. One that is no base64 stays as it is.
func decodeBinary(values []string) []string {
	var plain []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			part = strings.TrimSpace(part)
			if b, err := connect.DecodeBinaryHeader(part); err == nil {
				part = string(b)
			}
			plain = append(plain, part)
		}
	}
	return plain
}

// addMetadata adds metadata to a header.
func addMetadata(h http.Header, md tandem.Metadata) {
	for name, values := range md {
		if own[strings.ToLower(name)] || !validName(name) {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, binary) {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			h.Add(name, v) // net/http leaves out what is no value
		}
	}
}

// addHeader adds what a method has set to a header.
func addHeader(to, from http.Header) {
	for name, values := range from {
		if !own[strings.ToLower(name)] && validName(name) {
			to[http.CanonicalHeaderKey(name)] = append(to[http.CanonicalHeaderKey(name)], values...)
		}
	}
}

// validName reports whether a name can stand in a header: RFC 9110's token.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return name != ""
}
