package grpcbridge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// callOptions are the options of one call.
type callOptions struct {
	call []tandem.CallOption

	headers, trailers   []*metadata.MD
	peers               []*peer.Peer
	onFinish            []func(error)
	maxReceive, maxSend *int // bytes; nil for no limit besides the client's
	creds               credentials.PerRPCCredentials
}

// options reads the options of a call. It never returns nil.
func (c *ClientConn) options(ctx context.Context, method string, opts []grpc.CallOption) (*callOptions, error) {
	o := &callOptions{call: []tandem.CallOption{client.Codec(protoCodec)}}
	if c.wrong != nil {
		return o, refused(tandem.FailedPrecondition, "grpcbridge: %w", c.wrong)
	}
	if c.isRepeatable(method) {
		o.call = append(o.call, client.Idempotent())
	}
	for _, opt := range opts {
		o.readResult(opt)
	}
	for _, opt := range opts {
		if err := o.read(opt); err != nil {
			return o, refused(tandem.Unimplemented, "grpcbridge: call of %s: %w", method, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return o, refused(tandem.CodeOf(err), "%w", err)
	}
	md := tandem.Metadata{}
	if out, ok := metadata.FromOutgoingContext(ctx); ok {
		addMetadata(md, out)
	}
	if err := c.authenticate(ctx, o.creds, method, md); err != nil {
		return o, err
	}
	md.Set(bridgeKey, "1")
	o.call = append(o.call, func(call *tandem.Call) {
		for key, values := range md {
			if call.Metadata == nil {
				call.Metadata = tandem.Metadata{}
			}
			call.Metadata[key] = append(call.Metadata[key], values...)
		}
	})
	return o, nil
}

// readResult reads an option that asks for something of the response; others are left to read.
func (o *callOptions) readResult(opt grpc.CallOption) {
	switch opt := opt.(type) {
	case grpc.HeaderCallOption:
		o.headers = append(o.headers, opt.HeaderAddr)
	case grpc.TrailerCallOption:
		o.trailers = append(o.trailers, opt.TrailerAddr)
	case grpc.PeerCallOption:
		o.peers = append(o.peers, opt.PeerAddr)
	case grpc.OnFinishCallOption:
		o.onFinish = append(o.onFinish, opt.OnFinish)
	}
}

// read reads an option; the error names one that can't be honoured.
func (o *callOptions) read(opt grpc.CallOption) error {
	switch opt := opt.(type) {
	case nil, grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption, grpc.OnFinishCallOption:
		// see readResult
	case grpc.EmptyCallOption, grpc.StaticMethodCallOption:
		// they ask for nothing
	case ownOptions:
		o.call = append(o.call, opt.opts...)
	case grpc.MaxRecvMsgSizeCallOption:
		o.maxReceive = &opt.MaxRecvMsgSize
	case grpc.MaxSendMsgSizeCallOption:
		o.maxSend = &opt.MaxSendMsgSize
	case grpc.PerRPCCredsCallOption:
		o.creds = opt.Creds
	case grpc.CompressorCallOption:
		o.call = append(o.call, compressor(opt.CompressorType))
	default:
		return o.readRest(opt)
	}
	return nil
}

// readRest reads options that are honoured for some values only.
func (*callOptions) readRest(opt grpc.CallOption) error {
	switch opt := opt.(type) {
	case grpc.FailFastCallOption:
		if opt.FailFast {
			return nil
		}
		return errors.New("grpc.WaitForReady(true) is not supported: how long a call waits for a connection is an option of the client, client.WithWait")
	case grpc.ContentSubtypeCallOption:
		if opt.ContentSubtype == "proto" {
			return nil
		}
		return fmt.Errorf("grpc.CallContentSubtype(%q) is not supported: messages are Protocol Buffers", opt.ContentSubtype)
	case grpc.AuthorityOverrideCallOption:
		return fmt.Errorf("grpc.CallAuthority(%q) is not supported: the address of the instance is the authority", opt.Authority)
	case grpc.MaxRetryRPCBufferSizeCallOption:
		return fmt.Errorf("grpc.MaxRetryRPCBufferSize(%d) is not supported: tandem's fail modes retry, see client.WithFailMode", opt.MaxRetryRPCBufferSize)
	case grpc.ForceCodecCallOption, grpc.ForceCodecV2CallOption, grpc.CustomCodecCallOption:
		return errors.New("grpc.ForceCodec is not supported: messages are Protocol Buffers")
	}
	return fmt.Errorf("the option %T is not known here", opt)
}

// authenticate adds the metadata of credentials.
func (c *ClientConn) authenticate(ctx context.Context, creds credentials.PerRPCCredentials, method string, md tandem.Metadata) error {
	if creds == nil {
		return nil
	}
	if creds.RequireTransportSecurity() && !c.secure {
		return refused(tandem.Unauthenticated, "grpcbridge: call of %s: these grpc.PerRPCCredentials require transport security: "+
			"give client.WithTLS to the client, and WithTransportSecurity to NewClient", method)
	}
	service := method[:max(strings.LastIndexByte(method, '/'), 0)] // as grpc-go, which leaves the method out
	pairs, err := creds.GetRequestMetadata(ctx, "https://tandem"+service)
	if err != nil {
		return refused(tandem.Unauthenticated, "grpcbridge: call of %s: credentials: %w", method, err)
	}
	for key, value := range pairs {
		addMetadata(md, metadata.MD{key: {value}})
	}
	return nil
}

// sendable returns an error if a message is larger than the call's option allows.
func (o *callOptions) sendable(m any) error {
	if o.maxSend == nil {
		return nil
	}
	if n := size(m); n > *o.maxSend {
		return refused(tandem.ResourceExhausted, "the request has %d bytes, and grpc.MaxCallSendMsgSize allows %d", n, *o.maxSend)
	}
	return nil
}

// finish tells those who wait for the end of the call, and returns its error.
func (o *callOptions) finish(err error) error {
	for _, f := range o.onFinish {
		f(err)
	}
	return err
}
