package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/transport"
)

// Dial returns an error for options that can't work, or contradict each other.
func TestMisuseIsAnError(t *testing.T) {
	for want, option := range map[string]client.Option{
		"WithCodec:":                   client.WithCodec(nil),
		"WithCodecs:":                  client.WithCodecs(nil),
		"WithCompressor:":              client.WithCompressor(nil),
		"WithCompressors:":             client.WithCompressors(nil),
		"WithCompressAbove: got -1":    client.WithCompressAbove(-1),
		"WithTransport":                client.WithTransport("x", nil),
		"WithResolver":                 client.WithResolver("", nil),
		"WithBalancer":                 client.WithBalancer(nil),
		"WithFailMode: got 99":         client.WithFailMode(99),
		"WithRetries: got -1":          client.WithRetries(-1),
		"WithRetries: calls fail fast": client.WithRetries(3),
		"WithFork: calls fail fast":    client.WithFork(3),
		"WithCompressAbove: messages":  client.WithCompressAbove(1),
		"WithRetryBudget":              client.WithRetryBudget(-1, 0),
		"WithThrottle: got {0.5":       client.WithThrottle(&client.Throttle{Sent: 0.5}),
		"WithAttemptTimeout":           client.WithAttemptTimeout(-1),
		"WithFailback":                 client.WithFailback(-1, 0, 0),
		"WithBroadcast: got [2 1]":     client.WithBroadcast(2, 1),
		"WithBroadcast: got [1 0]":     client.WithBroadcast(1, 0),
		"WithFork":                     client.WithFork(0),
		"WithBackup":                   client.WithBackup(1.5),
		"WithInterceptors":             client.WithInterceptors(nil),
		"WithAttemptInterceptors":      client.WithAttemptInterceptors(nil),
		"WithPlugins":                  client.WithPlugins(7),
		"WithTimeout: got -1s":         client.WithTimeout(-time.Second),
		"WithConnectTimeout: got 0s":   client.WithConnectTimeout(0),
		"WithConnections: got 0":       client.WithConnections(0),
		"WithConnections: got 65":      client.WithConnections(65),
		"WithBackoff":                  client.WithBackoff(time.Second, time.Millisecond),
		"WithHealthCheck":              client.WithHealthCheck(-1),
		"WithSilence":                  client.WithSilence(-1),
		"WithSilence: got 1s":          client.WithSilence(time.Second),
		"WithMaxMessage":               client.WithMaxMessage(0),
		"WithStreamWindow":             client.WithStreamWindow(1 << 30),
		"WithWait":                     client.WithWait(-1),
		"WithProtocols: got <nil>":     client.WithProtocols(nil),
		"two protocols are named":      client.WithProtocols(bareProtocol{}, bareProtocol{}),
	} {
		c, err := client.Dial("tcp://127.0.0.1:1", option)
		if err == nil {
			_ = c.Close()
		}
		if tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// bareProtocol carries no compressed messages, no metadata, and no calls back.
type bareProtocol struct{}

func (bareProtocol) Name() string           { return "bare" }
func (bareProtocol) Codecs() []tandem.Codec { return []tandem.Codec{codec.JSON()} }
func (bareProtocol) NoMetadata()            {}
func (bareProtocol) Connect(context.Context, *client.Remote) (client.Carrier, error) {
	return answering{make(chan struct{})}, nil
}

// answering answers every call with an empty response.
type answering struct{ done chan struct{} }

func (answering) Carry(context.Context, *client.Request) error { return nil }
func (answering) Ping(context.Context) error                   { return nil }
func (a answering) Done() <-chan struct{}                      { return a.done }
func (answering) Err() error                                   { return nil }
func (a answering) Close() error                               { close(a.done); return nil }

// A scheme can't be a protocol's and a transport's.
func TestSchemeOfProtocolAndTransport(t *testing.T) {
	_, err := client.Dial("tcp://127.0.0.1:1", client.WithProtocols(bareProtocol{}), client.WithTransport("bare", transport.TCP()))
	if tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), "a transport are both named \"bare\"") {
		t.Error(err)
	}
}

// An option that the target's protocol can't honour is an error of Dial, or of the call.
func TestProtocolsHonourOptions(t *testing.T) {
	for want, option := range map[string]client.Option{
		"WithID":                           client.WithID("lamp"),
		"WithService and WithFunc":         client.WithFunc("Lamp.Switch", func(_ context.Context, on *bool) (*bool, error) { return on, nil }),
		"can't carry messages compressed":  client.WithCompressor(compress.Gzip()),
		"WithServingPlugins: servers of b": client.WithServingPlugins(keepsNothing{}),
	} {
		c, err := client.Dial("bare://127.0.0.1:1", client.WithProtocols(bareProtocol{}), option)
		if err == nil {
			_ = c.Close()
		}
		if tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	added := client.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			call.Metadata = tandem.Metadata{"added": {"by an interceptor"}}
			return next(ctx, call)
		}
	})
	c := dial(t, "bare://127.0.0.1:1", client.WithProtocols(bareProtocol{}), added)
	if err := c.Call(t.Context(), "A.B", 1, nil); err != nil {
		t.Errorf("without options: %v", err)
	}
	for want, option := range map[string]tandem.CallOption{
		"carries no metadata":             client.Metadata("key", "value"),
		"can't carry messages compressed": client.Compressor("gzip"),
		"is no fail mode":                 client.FailMode(99),
	} {
		if err := c.Call(t.Context(), "A.B", 1, nil, option); err == nil || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A misspelled criticality does not count as Normal.
func TestUnknownCriticality(t *testing.T) {
	c := dial(t, "tcp://127.0.0.1:1")
	err := c.Call(t.Context(), "A.B", 1, nil, client.Criticality("urgent"))
	if tandem.CodeOf(err) != tandem.InvalidArgument || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), `"urgent"`) {
		t.Error(err)
	}
}

type keepsNothing struct{}

func (keepsNothing) BeforeRequestHeader(context.Context, *tandem.Call) error { return nil }
