package grpcbridge

import (
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tandem-rpc/tandem"
)

const (
	// bridgeKey tells a server that the caller is a bridge, which reads the two forms of a header
	// below. It is not one of tandem's reserved keys, since HTTP carries none of those.
	bridgeKey = "grpcbridge"
	// headerKey is the key of a trailer whose values are the keys of the header, one for each of
	// its values, in order: the first values of these keys in the trailer are the header's.
	headerKey = "tandem-grpc-header"
)

// isReserved reports whether a name is not metadata: grpc-go does not send those either.
func isReserved(name string) bool {
	switch name {
	case "content-type", "user-agent", "te", "host", bridgeKey, headerKey:
		return true
	}
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "grpc-")
}

// addMetadata adds the pairs of md to a call's metadata.
func addMetadata(to tandem.Metadata, md metadata.MD) {
	for key, values := range md {
		if key = strings.ToLower(key); !isReserved(key) {
			to[key] = append(slices.Clip(to[key]), values...)
		}
	}
}

// toMD returns a call's metadata as gRPC's. It copies the lists: the owner of a MD may change it.
func toMD(from tandem.Metadata) metadata.MD {
	md := make(metadata.MD, len(from))
	for key, values := range from {
		if !isReserved(key) {
			md[key] = slices.Clone(values)
		}
	}
	return md
}

// pack adds a header to a trailer. marked adds the key that tells them apart.
func pack(trailer tandem.Metadata, header metadata.MD, marked bool) {
	var keys []string
	for key, values := range header {
		trailer[key] = append(slices.Clone(values), trailer[key]...)
		for range values {
			keys = append(keys, key)
		}
	}
	if marked && keys != nil {
		trailer[headerKey] = keys
	}
}

// unpack returns the header that pack has added to a trailer, and the trailer without it.
func unpack(packed tandem.Metadata) (header, trailer metadata.MD) {
	header, trailer = metadata.MD{}, toMD(packed)
	for _, key := range packed[headerKey] {
		if values := trailer[key]; len(values) > 0 {
			header[key] = append(header[key], values[0])
			trailer[key] = values[1:]
		}
	}
	removeEmpty(trailer)
	return header, trailer
}

// split returns the part of a response's metadata that was in its header, and the rest.
func split(all, header tandem.Metadata) (in, rest metadata.MD) {
	in, rest = metadata.MD{}, toMD(all)
	for key, values := range header {
		for _, v := range values {
			if i := slices.Index(rest[key], v); i >= 0 {
				in[key] = append(in[key], v)
				rest[key] = slices.Delete(rest[key], i, i+1)
			}
		}
	}
	removeEmpty(rest)
	return in, rest
}

func removeEmpty(md metadata.MD) {
	for key, values := range md {
		if len(values) == 0 {
			delete(md, key)
		}
	}
}

// toPeer returns the other end of a call as grpc-go describes it.
func toPeer(from *tandem.Peer) *peer.Peer {
	if from == nil {
		return &peer.Peer{}
	}
	p := &peer.Peer{Addr: from.Addr, LocalAddr: from.LocalAddr}
	if from.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{
			State:          *from.TLS,
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	return p
}
