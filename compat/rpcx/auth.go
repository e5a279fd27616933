package rpcx

import (
	"io"
	"net/rpc"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
)

// The metadata of a client that says who it is: "Bearer token" as HTTP has it, and
// the tag alone, which may have spaces.
const (
	authorizationKey = "authorization"
	tagKey           = "rpcx-tag"
)

// credentials are what a client says of who it is.
type credentials struct{ authorization, tag string }

// metadata returns the credentials as a request carries them.
func (c *credentials) metadata() tandem.Metadata {
	value := c.authorization
	if c.tag != "" {
		value = c.tag + " " + value
	}
	return tandem.Metadata{authorizationKey: {value}, tagKey: {c.tag}}
}

// claimed returns what the metadata of a call says of who makes it. Clients of other
// protocols have no tag of their own: theirs is the first word.
func claimed(call *tandem.Call) *plugin.AuthorizationAndServiceMethod {
	p := &plugin.AuthorizationAndServiceMethod{ServiceMethod: call.Method, Authorization: call.Metadata.Get(authorizationKey)}
	if tags := call.Metadata[tagKey]; len(tags) > 0 {
		p.Tag = tags[0]
	} else if tag, _, ok := strings.Cut(p.Authorization, " "); ok {
		p.Tag = tag
	}
	if p.Tag != "" {
		p.Authorization = strings.TrimPrefix(p.Authorization, p.Tag+" ")
	}
	return p
}

// A codec of the user's has no room for credentials but in the method's name, where
// they go before it: a zero byte, the tag, a zero byte, the token, a zero byte.

const between = "\x00"

// pack returns the name of a method with the credentials before it.
func (c *credentials) pack(method string) string {
	return between + strings.Join([]string{c.tag, c.authorization, method}, between)
}

// unpack is the reverse of pack. Names without credentials are returned as they are.
func unpack(name string) (c *credentials, method string) {
	packed, ok := strings.CutPrefix(name, between)
	tag, rest, ok2 := strings.Cut(packed, between)
	i := strings.LastIndex(rest, between) // a token may have anything in it
	if !ok || !ok2 || i < 0 {
		return nil, name
	}
	return &credentials{authorization: rest[:i], tag: tag}, rest[i+1:]
}

// signedCodec puts credentials before the methods' names.
type signedCodec struct {
	rpc.ClientCodec

	who *credentials
}

func (c *signedCodec) WriteRequest(r *rpc.Request, args any) error {
	signed := *r
	signed.ServiceMethod = c.who.pack(r.ServiceMethod)
	return c.ClientCodec.WriteRequest(&signed, args)
}

// signed returns f with codecs that say who calls, if that is known.
func signed(f ClientCodecFunc, who *credentials) ClientCodecFunc {
	if who == nil {
		return f
	}
	return func(conn io.ReadWriteCloser) rpc.ClientCodec { return &signedCodec{f(conn), who} }
}

// verifiedCodec takes the credentials off the methods' names.
type verifiedCodec struct {
	rpc.ServerCodec

	header tandem.Metadata // of the CONNECT, if there was one
	who    *credentials    // of the last request
}

func (c *verifiedCodec) ReadRequestHeader(r *rpc.Request) error {
	err := c.ServerCodec.ReadRequestHeader(r)
	c.who, r.ServiceMethod = unpack(r.ServiceMethod)
	return err
}

// RequestMetadata returns the credentials of the last request, or else the connection's.
func (c *verifiedCodec) RequestMetadata() tandem.Metadata {
	if c.who == nil {
		return c.header
	}
	return c.who.metadata()
}
