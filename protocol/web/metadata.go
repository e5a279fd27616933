package web

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// Metadata converts a request's header to a call's metadata: without HTTP's own fields, and
// with base64 decoded where a name ends in "-bin".
func Metadata(h http.Header) tandem.Metadata {
	md := make(tandem.Metadata, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		if httpcalls.IsOwn(name) || httpcalls.IsReserved(name) {
			continue
		}
		if strings.HasSuffix(name, httpcalls.Binary) {
			values = decodeBinary(values)
		}
		md[name] = append(md[name], values...)
	}
	return md
}

// decodeBinary decodes base64. One value may hold several, separated by commas. A value
// that is not base64 stays as it is.
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
		if httpcalls.IsOwn(strings.ToLower(name)) || !httpcalls.IsName(name) {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, httpcalls.Binary) {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			h.Add(name, v) // net/http drops invalid values
		}
	}
}

// addHeader adds the fields that a method has set.
func addHeader(to, from http.Header) {
	for name, values := range from {
		if !httpcalls.IsOwn(strings.ToLower(name)) && httpcalls.IsName(name) {
			to[http.CanonicalHeaderKey(name)] = append(to[http.CanonicalHeaderKey(name)], values...)
		}
	}
}
