package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// Protocol makes calls at servers that do not speak tandem's own protocol. Fail modes,
// balancing, health checks and registries work as usual. One value serves all connections of a
// client, concurrently.
type Protocol interface {
	// Name is the protocol of endpoints, and the scheme of targets: "rpcx" for
	// rpcx://10.0.0.7:8972.
	Name() string
	// Codecs are the codecs whose messages it can carry. The first is the default of a client
	// without [WithCodec] whose target is of this protocol.
	Codecs() []tandem.Codec
	// Connect connects to a server. It returns when calls can be made; ctx bounds
	// only Connect itself.
	Connect(ctx context.Context, r *Remote) (Carrier, error)
}

// Compressing is implemented by a [Protocol] that can carry compressed messages. With others a
// compressor is an error, of Dial or of the call.
type Compressing interface {
	// Compresses reports whether messages may be compressed with the compressor of
	// that name.
	Compresses(name string) bool
}

// Bare is implemented by a [Protocol] that can't carry metadata. A call at its targets with the
// option [Metadata] then fails; metadata that plugins and interceptors add is not sent.
type Bare interface {
	// NoMetadata does nothing.
	NoMetadata()
}

// Streamless is implemented by a [Protocol] that carries no streams. [Dial] then fails with an
// option that is for streams.
type Streamless interface {
	// NoStreams does nothing.
	NoStreams()
}

// Carrier carries calls to one server, over one connection or several. It is safe
// for concurrent use.
type Carrier interface {
	// Carry makes a unary or one-way call and puts the response into r. For a one-way call it
	// may return as soon as the request is to be written. It returns soon after ctx, which has
	// the call's deadline, has ended.
	//
	// An error that is no [*tandem.Error] becomes one, with the code of a context's error or
	// Unavailable. NotExecuted must be set if, and only if, it is certain that no handler ran:
	// the last byte of the request has never reached the socket.
	Carry(ctx context.Context, r *Request) error
	// Ping returns nil when the server has answered, whatever the answer is.
	Ping(ctx context.Context) error
	// Done is closed when the connection has ended and carries no more calls, and
	// Err then says why.
	Done() <-chan struct{}
	Err() error
	// Close ends the connection at once and waits for what it has started. Calls in
	// flight fail.
	Close() error
}

// StreamCarrier is implemented by a [Carrier] that can carry streams, too.
type StreamCarrier interface {
	// CarryStream opens a stream and returns when its request is on its way; it does not wait
	// until the server has accepted it. The stream ends with ctx, which has its deadline. The
	// request has no message. Errors are as those of Carry.
	CarryStream(ctx context.Context, r *Request) (Messages, error)
}

// Messages is a stream that a [StreamCarrier] has opened. Its messages are encoded by the codec
// of the call. One goroutine may send while another receives.
type Messages interface {
	// Send sends a message, which it must not keep. It blocks while the server does not take
	// it, until the stream's context has ended. It returns io.EOF when the server has ended the
	// stream: Receive then returns how.
	Send(message []byte) error
	// CloseSend tells the server that no more messages come.
	CloseSend() error
	// Receive returns the next message, which the caller owns from then on. It returns io.EOF
	// when the stream has ended without an error. Soon after the stream's context or the
	// Carrier has ended, it returns an error as Carry does. Messages that have not been
	// received must not take more memory than [Remote.StreamWindow] allows.
	Receive() (message []byte, err error)
	// Trailer returns the response's metadata, once Receive has returned an error.
	Trailer() tandem.Metadata
	// Close cancels the stream unless it has ended, and releases what it holds. It is called
	// once, after the last Receive.
	Close() error
}

// Remote is a server that a [Protocol] is to connect to.
type Remote struct {
	Endpoint   tandem.Endpoint
	MaxMessage int // bytes of the largest response, before and after decompression
	// StreamWindow is how many bytes of a stream's messages the server may send before they are
	// received.
	StreamWindow int

	transport tandem.Transport
	points    *points.Client
	wantsTLS  atomic.Bool // the server has asked for TLS, and there is none
	mu        sync.Mutex
	first     net.Conn // for its addresses
}

// Dial connects to the server's endpoint by its transport, which may have TLS, and passes the
// connection to the plugins that have Connected. A Carrier may have several.
func (r *Remote) Dial(ctx context.Context) (net.Conn, error) {
	c, err := r.transport.Dial(ctx, r.Endpoint.Address)
	if err != nil {
		return nil, err
	}
	if c, err = r.points.Connected(c); err != nil {
		return nil, err
	}
	c = transport.ExpectPlain(c, func() { r.wantsTLS.Store(true) })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = c
	}
	return c, nil
}

// Request is a call that a [Carrier] makes.
type Request struct {
	// Call describes the call. The Carrier sets its Trailer.
	Call *tandem.Call
	// Message is the arguments, encoded by Call.Codec; empty if there are none. It
	// must not be changed, or kept after Carry has returned.
	Message []byte
	// Several says that Message packs any number of arguments: see [Request.Arguments].
	Several bool
	// Compressed says that Message is compressed with Call.Compressor; see
	// [Compressing].
	Compressed bool

	// Reply is the response, encoded by Call.Codec. The Carrier sets it, and must not change it
	// afterwards. Empty means the zero value.
	Reply []byte
	// ReplyCompressed says that Reply is compressed, with Call.Compressor.
	ReplyCompressed bool
}

// Arguments returns the encoded arguments one by one. Message must not be compressed.
func (r *Request) Arguments() ([][]byte, error) {
	if !r.Several {
		if len(r.Message) == 0 {
			return nil, nil
		}
		return [][]byte{r.Message}, nil
	}
	count, n := binary.Uvarint(r.Message)
	rest := r.Message[max(n, 0):]
	var list [][]byte
	for len(rest) > 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) { //nolint:gosec // never negative
			break
		}
		list = append(list, rest[n:n+int(size)]) //nolint:gosec // checked above
		rest = rest[n+int(size):]                //nolint:gosec // as above
	}
	if n <= 0 || len(rest) > 0 || uint64(len(list)) != count {
		return nil, notSent(tandem.Internal, "arguments of %s are not packed as package codec does", r.Call.Method)
	}
	return list, nil
}

// Argument returns the only argument, encoded, and nil if there is none. Several are
// an error: most protocols have one.
func (r *Request) Argument() ([]byte, error) {
	if !r.Several && len(r.Message) > 0 {
		return r.Message, nil
	}
	list, err := r.Arguments()
	switch {
	case err != nil:
		return nil, err
	case len(list) > 1:
		return nil, notSent(tandem.Unimplemented, "%s is called with %d arguments, and the protocol of its server carries one", r.Call.Method, len(list))
	case len(list) == 0:
		return nil, nil
	}
	return list[0], nil
}

// notSent returns the error of a call that was not sent.
func notSent(code tandem.Code, format string, args ...any) error {
	return &tandem.Error{Code: code, NotExecuted: true, Message: fmt.Sprintf(format, args...)}
}

// WithProtocols adds protocols of servers that do not speak tandem's own. The name of each
// becomes a scheme of targets, name://host:port with all that a target static:// can say, and
// instances from registries may have endpoints of it. Calls at such a target use the protocol's
// first codec unless [WithCodec] names another that it carries. Arguments are encoded before an
// instance is chosen, so servers of different protocols behind one target need a codec that all
// of them know: that of WithCodec, or the first protocol's first.
//
// Streams need a protocol whose carriers are a [StreamCarrier]. Servers can call clients over
// tandem's own protocol only.
func WithProtocols(protocols ...Protocol) Option {
	return func(o *options) {
		o.given.Add("WithProtocols")
		for _, p := range protocols {
			if o.want(p != nil, "WithProtocols", p, "a protocol") {
				o.protocols = append(o.protocols, p)
			}
		}
	}
}

// beginProtocols adds the resolvers and codecs of the protocols to the options.
func (o *options) beginProtocols() error {
	if len(o.protocols) > 0 {
		o.byProtocol = make(map[string]Protocol, len(o.protocols))
	}
	for _, p := range o.protocols {
		name := p.Name()
		if name == "" || name == ownProtocol || o.byProtocol[name] != nil {
			return fmt.Errorf("two protocols are named %q: give WithProtocols each once", name)
		}
		if o.transports[name] != nil {
			return fmt.Errorf("a protocol and a transport are both named %q, so the target %s:// is ambiguous: give WithTransport another name", name, name)
		}
		o.byProtocol[name] = p
		if o.resolvers[name] == nil {
			o.resolvers = with[registry.Resolver](o.resolvers, name, listed(name))
		}
		codecs := p.Codecs()
		if len(codecs) == 0 {
			return fmt.Errorf("protocol %q has no codec", name)
		}
		for _, c := range codecs {
			if !knows(o.codecs, c.Name()) {
				o.codecs = append(slices.Clip(o.codecs), c)
			}
		}
	}
	return nil
}

// chooseCodec sets the codec of calls that name none: the one that was chosen, which
// the protocol of the target must carry, or that protocol's first. A target that may have
// instances of any protocol gets the first codec of the first protocol.
func (o *options) chooseCodec(t registry.Target) error {
	p := o.byProtocol[t.Scheme]
	if p == nil {
		p = o.byProtocol[t.Query.Get("protocol")]
	}
	switch {
	case p != nil && o.codec != "" && !knows(p.Codecs(), o.codec):
		return fmt.Errorf("target of %s://: %s does not carry codec %q; it carries %s: give one of them to WithCodec, or no codec",
			t.Scheme, p.Name(), o.codec, strings.Join(namesOf(p.Codecs()), ", "))
	case o.codec != "":
	case p != nil:
		o.codec = p.Codecs()[0].Name()
	case len(o.protocols) > 0 && !o.ownTarget(t):
		o.codec = o.protocols[0].Codecs()[0].Name()
	default:
		o.codec = defaultCodec
	}
	return nil
}

// ownTarget reports whether all servers of a target speak tandem's own protocol.
func (o *options) ownTarget(t registry.Target) bool {
	if t.Scheme == "static" || t.Scheme == "dns" {
		return !t.Query.Has("protocol")
	}
	return o.transports[t.Scheme] != nil
}

const (
	ownProtocol  = "tandem"
	defaultCodec = "gob"
)

func knows(codecs []tandem.Codec, name string) bool {
	for _, c := range codecs {
		if c.Name() == name {
			return true
		}
	}
	return false
}

// protocol returns the Protocol of an endpoint: nil for tandem's own. known is false if the
// client does not have it.
func (o *options) protocol(ep tandem.Endpoint) (p Protocol, known bool) {
	if ep.Protocol == "" || ep.Protocol == ownProtocol {
		return nil, true
	}
	p, known = o.byProtocol[ep.Protocol]
	return p, known
}

// listed resolves targets whose scheme is a protocol's name: lists of addresses.
type listed string

func (p listed) static(t registry.Target) (registry.Target, error) {
	if t.Query.Has("protocol") {
		return t, errors.New("the scheme of the target is the protocol: the option protocol has no place there")
	}
	if t.Path == "/" {
		t.Path = ""
	}
	query := map[string][]string{"protocol": {string(p)}}
	maps.Copy(query, t.Query)
	t.Query = query
	return t, nil
}

func (p listed) Watch(ctx context.Context, t registry.Target, update func(registry.Snapshot)) error {
	t, err := p.static(t)
	if err != nil {
		return err
	}
	return registry.Static().Watch(ctx, t, update)
}

func (p listed) Check(t registry.Target) error {
	_, err := p.List(t)
	return err
}

func (p listed) List(t registry.Target) ([]tandem.Instance, error) {
	t, err := p.static(t)
	if err != nil {
		return nil, err
	}
	return registry.Static().List(t)
}

// carriable returns an error, which names the codecs that p carries, if that codec is not one
// of them.
func carriable(p Protocol, codec string) error {
	codecs := p.Codecs()
	if knows(codecs, codec) {
		return nil
	}
	return notSent(tandem.Unimplemented, "%s does not carry codec %q; it carries %s: give one of them to WithCodec, or name it in the call",
		p.Name(), codec, strings.Join(namesOf(codecs), ", "))
}

func namesOf(codecs []tandem.Codec) (names []string) {
	for _, c := range codecs {
		names = append(names, c.Name())
	}
	return names
}
