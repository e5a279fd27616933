package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// want records an error for an option with an invalid value, unless ok is true. It returns ok.
func (o *options) want(ok bool, option string, given any, want string) bool {
	if !ok {
		o.wrong = append(o.wrong, fmt.Errorf("%s: got %v: want %s", option, given, want))
	}
	return ok
}

// withoutEffect returns an error for options that have no effect because an option that they need is
// missing.
func (o *options) withoutEffect() error {
	var errs []error
	if len(o.needMode) > 0 && !o.modeGiven && o.fixed == nil && o.source == nil {
		errs = append(errs, fmt.Errorf("%s: calls fail fast, so it has no effect: add WithFailMode (Failfast, if only calls that name another mode are meant)", strings.Join(o.needMode, ", ")))
	}
	if o.needCompressor && !o.compressorsGiven {
		errs = append(errs, errors.New("WithCompression: messages are not compressed: set Usual (Others, if calls name one)"))
	}
	return errors.Join(errs...)
}

// resolve parses a target and returns its parts and its resolver. If that is a
// [registry.Checker] it must accept the target.
func (o *options) resolve(target string) (t registry.Target, r registry.Resolver, err error) {
	if t, err = registry.ParseTarget(target); err != nil {
		return t, nil, err
	}
	r = o.resolvers[t.Scheme]
	switch ch, ok := r.(registry.Checker); {
	case r == nil && t.Scheme == "tls":
		return t, nil, fmt.Errorf("target %q: there is no scheme %q: use tcp:// with WithTLS, or give transport.TLS to WithTransport", t.Redacted(), t.Scheme)
	case r == nil:
		return t, nil, fmt.Errorf("target %q: no resolver for %q: give it to WithResolver, or a protocol of that name to WithProtocols", t.Redacted(), t.Scheme)
	case ok:
		err = ch.Check(t)
	}
	return t, r, err
}

// fits returns an error for options that the protocol of a target can't honour, nil for
// tandem's own.
func (o *options) fits(p Protocol) error {
	if p == nil {
		return nil
	}
	var errs []error
	for option, given := range map[string]bool{
		"WithID": o.id != "", "WithService and WithFunc": len(o.register) > 0, "WithPlugins: Serving": len(o.servingPlugins) > 0,
	} {
		if given {
			errs = append(errs, fmt.Errorf("%s: servers of %s can't call clients: leave it out, or use tandem's own protocol, tcp://", option, p.Name()))
		}
	}
	if _, streamless := p.(Streamless); streamless && o.windowGiven {
		errs = append(errs, fmt.Errorf("WithConnections: StreamWindow: %s carries no streams: leave it out", p.Name()))
	}
	if !compressible(p, o.compressor) {
		errs = append(errs, errors.New(noCompressor(p, o.compressor)))
	}
	return errors.Join(errs...)
}

// compressible reports whether a protocol carries messages with a compressor; true for "".
func compressible(p Protocol, compressor string) bool {
	c, ok := p.(Compressing)
	return compressor == "" || ok && c.Compresses(compressor)
}

func noCompressor(p Protocol, compressor string) string {
	return fmt.Sprintf("%s can't carry messages compressed with %q: leave out WithCompression and Compressor", p.Name(), compressor)
}

// withoutMetadata refuses calls with metadata, which the target's protocol can't send.
func (c *Client) withoutMetadata(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if len(call.Metadata) > 0 {
			return notSent(tandem.Unimplemented, "%s carries no metadata: leave out Metadata", c.target)
		}
		return next(ctx, call)
	}
}

func noSuchClass(_ context.Context, call *tandem.Call) error {
	return notSent(tandem.InvalidArgument, "there is no criticality %q: give Criticality one of package tandem's", call.Metadata.Get(tandem.CriticalityKey))
}

func noSuchMode(_ context.Context, call *tandem.Call) error {
	return notSent(tandem.InvalidArgument, "%d is no fail mode: give FailMode one of this package's", call.FailMode)
}
