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
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/transport"
)

// Dial returns an error for options that can't work, or contradict each other.
func TestMisuseIsAnError(t *testing.T) {
	for want, option := range map[string]client.Option{
		"WithCodec: got <nil>":                        client.WithCodec(nil),
		"WithCodec: got <nil>: want a codec":          client.WithCodec(codec.Gob(), nil),
		"WithCompression: messages":                   client.WithCompression(client.Compression{}),
		"WithCompression: Others: got <nil>":          client.WithCompression(client.Compression{Others: []tandem.Compressor{nil}}),
		"WithCompression: Above: got -1":              client.WithCompression(client.Compression{Above: -1}),
		"WithCompression: messages are":               client.WithCompression(client.Compression{Above: 1}),
		"WithTransport":                               client.WithTransport("x", nil),
		"WithResolver":                                client.WithResolver("", nil),
		"WithBalancer":                                client.WithBalancer(nil),
		"WithFailMode: got 99":                        client.WithFailMode(99),
		"WithRetries: got -1":                         client.WithRetries(-1),
		"WithRetries: calls fail fast":                client.WithRetries(3),
		"WithAttempts: Timeout: got -1":               client.WithAttempts(client.Attempts{Timeout: -1}),
		"WithAttempts: Budget: got {-1 0}":            client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: -1}}),
		"WithAttempts: Fork: got -1":                  client.WithAttempts(client.Attempts{Fork: -1}),
		"WithAttempts: Fork: calls fail fast":         client.WithAttempts(client.Attempts{Fork: 3}),
		"WithAttempts: BackupShare: got 1.5":          client.WithAttempts(client.Attempts{BackupShare: 1.5}),
		"WithAttempts: BackupShare: calls fail":       client.WithAttempts(client.Attempts{BackupShare: 0.5}),
		"WithAttempts: BroadcastShare: got 2":         client.WithAttempts(client.Attempts{BroadcastShare: 2}),
		"WithAttempts: BroadcastAtOnce: got -1":       client.WithAttempts(client.Attempts{BroadcastAtOnce: -1}),
		"WithAttempts: BroadcastAtOnce: calls fail":   client.WithAttempts(client.Attempts{BroadcastAtOnce: 2}),
		"WithAttempts: Failback: got [-1 0 0s]":       client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{Size: -1}}),
		"WithAttempts: Failback: calls fail fast":     client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{Tries: 1}}),
		"WithThrottle: got {0.5":                      client.WithThrottle(&client.Throttle{Sent: 0.5}),
		"WithInterceptors":                            client.WithInterceptors(nil),
		"WithAttemptInterceptors":                     client.WithAttemptInterceptors(nil),
		"WithPlugins":                                 client.WithPlugins(7),
		"WithTimeout: got -1s":                        client.WithTimeout(-time.Second),
		"WithConnections: Timeout: got -1s":           client.WithConnections(client.Connections{Timeout: -time.Second}),
		"WithConnections: PerInstance: got -1":        client.WithConnections(client.Connections{PerInstance: -1}),
		"WithConnections: PerInstance: got 65":        client.WithConnections(client.Connections{PerInstance: 65}),
		"WithConnections: Backoff, MaxBackoff: got [": client.WithConnections(client.Connections{Backoff: time.Second, MaxBackoff: time.Millisecond}),
		"WithConnections: Silence: got -1ns":          client.WithConnections(client.Connections{Silence: -1}),
		"WithConnections: Silence: got 1s":            client.WithConnections(client.Connections{Silence: time.Second}),
		"WithConnections: StreamWindow: got 1073":     client.WithConnections(client.Connections{StreamWindow: 1 << 30}),
		"WithMaxMessage":                              client.WithMaxMessage(0),
		"WithWait":                                    client.WithWait(-1),
		"WithProtocols: got <nil>":                    client.WithProtocols(nil),
		"two protocols are named":                     client.WithProtocols(bareProtocol{}, bareProtocol{}),
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
		"WithID":                             client.WithID("lamp"),
		"WithService and WithFunc":           client.WithFunc("Lamp.Switch", func(_ context.Context, on *bool) (*bool, error) { return on, nil }),
		"can't carry messages compressed":    client.WithCompression(client.Compression{Usual: compress.Gzip()}),
		"WithPlugins: Serving: servers of b": client.WithPlugins(client.Serving{keepsNothing{}}),
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
