package rpcx

import (
	"io"
	"net/rpc"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
)

// Metadata keys of a client's credentials: "Bearer token" as in HTTP, and the tag alone, which
// may have spaces.
const (
	authorizationKey = "authorization"
	tagKey           = "rpcx-tag"
)

// credentials are a client's token, and the kind of token.
type credentials struct{ authorization, tag string }

// metadata returns the credentials as metadata of a request.
func (c *credentials) metadata() tandem.Metadata {
	value := c.authorization
	if c.tag != "" {
		value = c.tag + " " + value
	}
	return tandem.Metadata{authorizationKey: {value}, tagKey: {c.tag}}
}

// credentialsOf returns the credentials in the metadata of a call. Clients of other protocols send
// no separate tag: it is the first word of their authorization.
func credentialsOf(call *tandem.Call) *plugin.AuthorizationAndServiceMethod {
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

// between separates credentials from a method's name. A user's codec has no other place for
// credentials than before the name: a zero byte, the tag, a zero byte, the token, a zero byte.

const between = "\x00"

// pack returns the name of a method with the credentials before it.
func (c *credentials) pack(method string) string {
	return between + strings.Join([]string{c.tag, c.authorization, method}, between)
}

// unpack is the inverse of pack. It returns nil, and the name, if there are no credentials.
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

// signed returns f, with codecs that send the credentials unless who is nil.
func signed(f ClientCodecFunc, who *credentials) ClientCodecFunc {
	if who == nil {
		return f
	}
	return func(conn io.ReadWriteCloser) rpc.ClientCodec { return &signedCodec{f(conn), who} }
}

// verifiedCodec removes the credentials from the methods' names.
type verifiedCodec struct {
	rpc.ServerCodec

	header tandem.Metadata // header of the CONNECT, if there was one
	who    *credentials    // credentials of the last request
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
