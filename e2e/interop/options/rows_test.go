package options

import (
	"context"
	"crypto/tls"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// optionRows returns the rows of TestEveryOption, by the names of options.
func optionRows() map[string]row {
	rows := serverRows()
	maps.Copy(rows, clientRows())
	maps.Copy(rows, callRows())
	for name, test := range shownElsewhere() {
		rows[name] = row{shown: test}
	}
	return rows
}

// forServer returns a row for an option of a server.
func forServer(option func(c *cell) server.Option, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.serverOpts = append(c.serverOpts, option(c)) }, effect: effect}
}

// forMethod returns a row for an option of a method.
func forMethod(option server.MethodOption, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.methodOpts = append(c.methodOpts, option) }, effect: effect}
}

// forClient returns a row for an option of a client.
func forClient(option func(c *cell) client.Option, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.clientOpts = append(c.clientOpts, option(c)) }, effect: effect}
}

// forCall returns a row for an option of a call.
func forCall(option func(c *cell) tandem.CallOption, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.callOpts = append(c.callOpts, option(c)) }, effect: effect}
}

// but sets which schemes refuse the option, and with which error. Without schemes, all but
// tandem's own do.
func (r row) but(text string, schemes ...string) row {
	r.refused = func(c *cell) string {
		if c.scheme == "" || len(schemes) > 0 && !slices.Contains(schemes, c.scheme) {
			return ""
		}
		return strings.ReplaceAll(text, "SCHEME", c.scheme)
	}
	return r
}

// unseen sets the schemes that the option does not apply to, according to its documentation.
func (r row) unseen(schemes ...string) row {
	r.not = schemes
	return r
}

// refusedBy sets which cells refuse the option, and with which error.
func (r row) refusedBy(why func(c *cell) string) row {
	r.refused = why
	return r
}

// noServerTLS returns the error of WithTLS for a server, "" if it works: QUIC has TLS already,
// and a WebSocket has TLS below it.
func noServerTLS(c *cell) string {
	switch {
	case c.network == "quic" && c.way != "ServeProtocol": // it keeps the TLS of a connection
		return "it has TLS already"
	case c.network == "ws" && c.way == "ServeListener":
		return "TLS is beneath WebSockets"
	case c.network == "ws" && c.way == "ServeProtocol": // which uses TLS inside the WebSocket
		return "the server speaks plain text, the client TLS"
	}
	return ""
}

// noTLS returns the error of WithTLS for a client or a server, "" if it works.
func noTLS(c *cell) string {
	if c.network == "quic" {
		return "it has TLS already"
	}
	return noServerTLS(c)
}

// counting returns an interceptor that counts calls.
func counting(c *cell) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			c.count()
			return next(ctx, call)
		}
	}
}

// plugin is a plugin of servers and clients that counts calls.
type plugin struct{ c *cell }

func (p plugin) Intercept(next tandem.Func) tandem.Func { return counting(p.c)(next) }

// press is a compressor that counts its uses.
type press struct {
	tandem.Compressor
	c *cell
}

func (p press) Compress(dst, src []byte) ([]byte, error) {
	p.c.count()
	return p.Compressor.Compress(dst, src)
}

// renamed is a codec with another name.
type renamed struct{ tandem.Codec }

func (renamed) Name() string { return "renamed" }

// counts returns an effect that makes a call, and requires that something was counted.
func counts(method string, args any) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		_, err := c.call(method, args)
		return c.counted(), err
	}
}

// refuses returns an effect that makes a call, which must fail with an error that contains why.
func refuses(why, method string, args any) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		_, err := c.call(method, args)
		return says(err, why)
	}
}

func says(err error, why string) (bool, error) {
	if err != nil && strings.Contains(err.Error(), why) {
		return true, nil
	}
	return false, err
}

// timesOut makes a call of a method that blocks. The call must end with its deadline.
func timesOut(c *cell) (bool, error) {
	if !c.given {
		close(c.released)
	}
	_, err := c.call("T.Hold", "x")
	return says(err, "deadline exceeded")
}

// holds returns an effect that calls a method while a call of T.Hold is blocked. The call must
// fail with an error that contains why.
func holds(why, method string) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		var calls sync.WaitGroup
		defer calls.Wait()
		defer close(c.released)
		first, second := make(chan error, 1), make(chan error, 1)
		calls.Go(func() { _, err := c.call("T.Hold", "x"); first <- err })
		select {
		case <-c.held:
		case err := <-first:
			return false, err
		}
		calls.Go(func() { _, err := c.call(method, "x"); second <- err })
		select {
		case <-c.held: // it runs, too
			return false, nil
		case err := <-second:
			return says(err, why)
		}
	}
}

func within(most time.Duration) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		_, err := c.call("T.Echo", "x")
		left := time.Until(c.last().Deadline)
		return err == nil && left < most && !c.last().Deadline.IsZero(), err
	}
}

func overTLS(c *cell) (bool, error) {
	if _, err := c.call("T.Echo", "x"); err == nil {
		return c.last().Peer.TLS != nil, nil // without client.WithTLS, so only the transport's own TLS counts
	}
	_, err := c.call("T.Echo", "x", client.WithTLS(c.tls[1]))
	return err == nil && c.last().Peer.TLS != nil, err
}

// Parts of errors.
const (
	noCodec = "SCHEME does not carry codec"
	noPress = "SCHEME can't carry messages compressed"
	noBack  = "servers of SCHEME can't call clients"
)

// longText is less than HTTP/1 reads of a request that it refuses.
const longText = 32 << 10

func serverRows() map[string]row {
	long := strings.Repeat("x", longText)
	return map[string]row{
		"server.WithTLS": forServer(func(c *cell) server.Option { return server.WithTLS(c.tls[0]) }, overTLS).refusedBy(noServerTLS),
		"server.WithCodecs": forServer(func(*cell) server.Option { return server.WithCodecs(renamed{codec.JSON()}) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x", client.WithCodec(renamed{codec.JSON()}))
			return c.last().Codec == "renamed", err
		}).but(noCodec),
		"server.WithCompressors": forServer(func(c *cell) server.Option { return server.WithCompressors(press{compress.Gzip(), c}) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Big", longText, client.WithCompression(client.Compression{Usual: compress.Gzip()}))
			return c.counted(), err
		}).but(noPress, bare...).unseen("rpcx"), // rpcx has its own compression
		"server.WithCompressAbove": row{
			prepare: func(c *cell) {
				c.serverOpts = []server.Option{server.WithCompressors(press{compress.Gzip(), c}), server.WithCompressAbove(1)}
			},
			effect: func(c *cell) (bool, error) {
				_, err := c.call("T.Big", 100, client.WithCompression(client.Compression{Usual: compress.Gzip()}))
				return c.counted(), err
			},
		}.but(noPress, bare...).unseen("rpcx"), // rpcx has its own compression
		"server.WithInterceptors":   forServer(func(c *cell) server.Option { return server.WithInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"server.WithPlugins":        forServer(func(c *cell) server.Option { return server.WithPlugins(plugin{c}) }, counts("T.Echo", "x")),
		"server.WithTimeout":        forServer(func(*cell) server.Option { return server.WithTimeout(2 * time.Second) }, within(2*time.Second)),
		"server.WithMaxConcurrency": forServer(func(*cell) server.Option { return server.WithMaxConcurrency(1, 0) }, holds("resource exhausted", "T.Echo")),
		"server.WithMaxConnections": forServer(func(*cell) server.Option { return server.WithMaxConnections(1) }, holds("unavailable", "T.Echo")),
		"server.WithMaxMessage":     forServer(func(*cell) server.Option { return server.WithMaxMessage(1000) }, refuses("1000", "T.Echo", long)),
		"server.WithMaxDecoded":     forServer(func(*cell) server.Option { return server.WithMaxDecoded(1000) }, refuses("1000", "T.Echo", long)),
		"server.MethodTimeout":      forMethod(server.MethodTimeout(2*time.Second), within(2*time.Second)),
		"server.MethodConcurrency":  forMethod(server.MethodConcurrency(1, 0), holds("resource exhausted", "T.Hold")),
		"server.MethodMaxMessage":   forMethod(server.MethodMaxMessage(1000), refuses("1000", "T.Echo", long)),
		"server.WithLogger": forServer(func(c *cell) server.Option { return server.WithLogger(c.logger()) }, func(c *cell) (bool, error) {
			if _, err := c.call("T.Echo", "x"); err != nil {
				return false, err
			}
			_, _ = c.call("T.Panic", "x")
			_ = c.srv.Close() // everything is logged after Close
			return c.logged("T.Panic"), nil
		}),
		"server.WithClients": forServer(func(*cell) server.Option { return server.WithClients(nil) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x", client.WithID("lamp"))
			return err == nil && len(c.srv.Clients()) == 1, err
		}).but(noBack),
	}
}

// bare are the schemes without compression.
var bare = []string{"netrpc", "netrpc+http", "jsonrpc", "jsonrpc+http", "grpc", "connect"}

func hi(_ context.Context, s *string) (*string, error) { return s, nil }

type service struct{}

// Hi is called by servers.
func (service) Hi(_ context.Context, s *string) (*string, error) { return s, nil }

// inJSON makes a call with the option's codec only, and requires that it was JSON.
func inJSON(c *cell) (bool, error) {
	c.usualCodec = true
	_, err := c.call("T.Echo", "x")
	return c.last().Codec == "json", err
}

func called(c *cell) (bool, error) {
	_, err := c.call("T.Back", "x")
	return err == nil, err
}

// clientTLS returns a row for an option by which a client uses TLS.
func clientTLS(option func(c *cell) client.Option) row {
	return row{
		prepare: func(c *cell) {
			if c.network != "quic" {
				c.serverOpts = []server.Option{server.WithTLS(c.tls[0])}
			}
			c.clientOpts = []client.Option{option(c)}
		},
		effect: func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return err == nil && c.last().Peer.TLS != nil, err
		},
	}.refusedBy(noTLS)
}

func clientRows() map[string]row {
	json := func(*cell) client.Option { return client.WithCodec(codec.JSON()) }
	return map[string]row{
		"client.WithTLS": clientTLS(func(c *cell) client.Option { return client.WithTLS(c.tls[1]) }),
		"client.WithConnections TLS": clientTLS(func(c *cell) client.Option {
			return client.WithConnections(client.Connections{TLS: func() (*tls.Config, error) { return c.tls[1], nil }})
		}),
		"client.WithCodec": forClient(json, inJSON).but(noCodec, "netrpc", "netrpc+http").unseen("jsonrpc", "jsonrpc+http"), // JSON is the only codec
		"client.WithCompression Usual": forClient(func(c *cell) client.Option {
			return client.WithCompression(client.Compression{Usual: press{compress.Gzip(), c}})
		}, counts("T.Echo", strings.Repeat("x", longText))).but(noPress, bare...),
		"client.WithCompression Others": forClient(func(c *cell) client.Option {
			return client.WithCompression(client.Compression{Others: []tandem.Compressor{press{compress.Gzip(), c}}})
		}, pressed(longText)).but(noPress, bare...),
		"client.WithCompression Above": row{
			prepare: func(c *cell) {
				c.clientOpts = []client.Option{client.WithCompression(client.Compression{Others: []tandem.Compressor{press{compress.Gzip(), c}}, Above: 1})}
			},
			effect: pressed(100),
		}.but(noPress, bare...),
		"client.WithInterceptors":        forClient(func(c *cell) client.Option { return client.WithInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"client.WithAttemptInterceptors": forClient(func(c *cell) client.Option { return client.WithAttemptInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"client.WithPlugins":             forClient(func(c *cell) client.Option { return client.WithPlugins(plugin{c}) }, counts("T.Echo", "x")),
		"client.WithTimeout":             forClient(func(*cell) client.Option { return client.WithTimeout(20 * time.Millisecond) }, timesOut),
		"client.WithAttempts Timeout":    forClient(func(*cell) client.Option { return client.WithAttempts(client.Attempts{Timeout: 20 * time.Millisecond}) }, timesOut),
		"client.WithMaxMessage":          forClient(func(*cell) client.Option { return client.WithMaxMessage(1000) }, refuses("resource exhausted", "T.Big", longText)),
		"client.ExplainTo": forClient(func(c *cell) client.Option {
			return client.WithInterceptors(client.ExplainTo(func(*client.Explanation) { c.count() }))
		}, counts("T.Echo", "x")),
		"client.WithHashKey": forClient(func(c *cell) client.Option {
			return client.WithHashKey(func(string, any) string { c.count(); return "k" })
		}, counts("T.Echo", "x")),
		"client.WithRoute": forClient(func(*cell) client.Option { return client.WithRoute(tandem.Route{Version: "7"}) }, refuses("route: version 7", "T.Echo", "x")),
		"client.WithID": row{
			prepare: func(c *cell) {
				c.serverOpts = []server.Option{server.WithClients(nil)}
				c.clientOpts = []client.Option{client.WithID("lamp")}
			},
			effect: func(c *cell) (bool, error) {
				_, err := c.call("T.Echo", "x")
				return err == nil && len(c.srv.Clients()) == 1, err
			},
		}.but("WithID: " + noBack),
		"client.WithService": forClient(func(*cell) client.Option { return client.WithService("C", service{}) }, called).but("WithService and WithFunc: " + noBack),
		"client.WithFunc":    forClient(func(*cell) client.Option { return client.WithFunc("C.Hi", hi) }, called).but("WithService and WithFunc: " + noBack),
		"client.WithPlugins Serving": row{
			prepare: func(c *cell) {
				c.clientOpts = []client.Option{client.WithFunc("C.Hi", hi), client.WithPlugins(client.Serving{plugin{c}})}
			},
			effect: counts("T.Back", "x"),
		}.but("WithPlugins: Serving: " + noBack),
		"client.WithConnections PerInstance": forClient(func(*cell) client.Option { return client.WithConnections(client.Connections{PerInstance: 3}) }, func(c *cell) (bool, error) {
			d, err := c.dial()
			if err != nil {
				return false, err
			}
			for range 10 {
				if err := d.Call(c.t.Context(), "T.Echo", "x", new(string)); err != nil {
					return false, err
				}
			}
			for late := time.Now().Add(10 * time.Second); c.given && c.connected() < 3 && time.Now().Before(late); {
				runtime.Gosched() // it connects in the background
			}
			return c.connected() == 3, nil
		}),
		"client.WithLogger": forClient(func(c *cell) client.Option { return client.WithLogger(c.logger()) }, func(c *cell) (bool, error) {
			d, err := c.dial()
			if err != nil {
				return false, err
			}
			err = d.Call(c.t.Context(), "T.Echo", "x", new(string))
			_ = d.Close()
			return c.logged("connection ended"), err
		}),
	}
}

// pressed returns an effect that makes a call with a message of n bytes, which must be
// compressed.
func pressed(n int) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		c.callOpts = append(c.callOpts, client.Compressor("gzip"))
		_, err := c.call("T.Echo", strings.Repeat("x", n))
		return c.counted(), err
	}
}

func callRows() map[string]row {
	return map[string]row{
		"client.Codec": forCall(func(*cell) tandem.CallOption { return client.Codec("json") }, inJSON).but(noCodec, "netrpc", "netrpc+http").unseen("jsonrpc", "jsonrpc+http"),
		"client.Compressor": row{
			prepare: func(c *cell) {
				c.clientOpts = []client.Option{client.WithCompression(client.Compression{Others: []tandem.Compressor{press{compress.Gzip(), c}}})}
			},
			effect: pressed(longText),
		}.but(noPress, bare...),
		"client.Timeout":        forCall(func(*cell) tandem.CallOption { return client.Timeout(20 * time.Millisecond) }, timesOut),
		"client.AttemptTimeout": forCall(func(*cell) tandem.CallOption { return client.AttemptTimeout(20 * time.Millisecond) }, timesOut),
		"client.Metadata": forCall(func(*cell) tandem.CallOption { return client.Metadata("k", "v") }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return c.last().Metadata.Get("k") == "v", err
		}).but("carries no metadata", "netrpc", "netrpc+http", "jsonrpc"),
		"client.Route":    forCall(func(*cell) tandem.CallOption { return client.Route(tandem.Route{Version: "7"}) }, refuses("route: version 7", "T.Echo", "x")),
		"client.Instance": forCall(func(*cell) tandem.CallOption { return client.Instance("none") }, refuses("no instance \"none\"", "T.Echo", "x")),
		"client.FailMode": forCall(func(*cell) tandem.CallOption { return client.FailMode(99) }, refuses("99 is no fail mode", "T.Echo", "x")),
		"client.Explain": forCall(func(c *cell) tandem.CallOption { return client.Explain(&c.explained) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return c.explained.String() != new(client.Explanation).String(), err
		}),
		"client.Trailer": forCall(func(c *cell) tandem.CallOption { return client.Trailer(&c.trailer) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Trail", "x")
			if strings.HasPrefix(c.scheme, "netrpc") || strings.HasPrefix(c.scheme, "jsonrpc") {
				return c.trailer == nil, err // as documented for protocols without metadata
			}
			return c.trailer.Get("k") == "v", err
		}),
	}
}

// shownElsewhere returns the tests of options whose effect takes time, several servers, or
// another kind of test.
func shownElsewhere() map[string]string {
	return map[string]string{
		"server.WithTransport": "TestTLSAppliesEverywhere", "server.WithProtocols": "TestExactlyOneProtocolMatches",
		"server.WithStreamWindow": "TestConnectionWindow", "server.WithMaxOpenCalls": "TestLimitsOfForeignConnections",
		"server.WithHandshakeTimeout": "TestHandshakeTimeoutIsShared", "server.WithStallTimeout": "TestHalfAFrame",
		"server.WithProxies": "TestLargestNetworkMakesRoom", "server.WithSilence": "TestHungPeer",
		"server.WithMaxConnectionAge": "TestOldForeignConnectionsEnd", "server.WithLameDuck": "TestLameDuck",
		"server.WithRegistrar": "TestServicesRegisteredBeforeAndAfterListing", "server.WithLoadReport": "TestLoadIsReportedToTheRegistry",
		"client.WithTransport": "TestTLSOnEveryTransport", "client.WithProtocols": "TestOneSideOfTLS",
		"client.WithCodec others": "TestEveryCodecWithEveryCompressor", "client.WithSnapshots": "ExampleWithSnapshots",
		"client.WithResolver": "ExampleWithResolver", "client.WithBalancer": "TestOwnBalancersCompose", "client.WithEjection": "TestWithoutEjectionNoneIsEjected",
		"client.WithBreaker": "TestMethodBreaker", "client.WithFailMode": "TestFailover", "client.WithRetries": "TestFailover",
		"server.WithOverloadControl": "TestOverloadConstants", "server.WithoutOverloadControl": "TestWithoutOverloadControl",
		"server.WithTrustedCriticality": "TestOverloadClasses", "client.Criticality": "TestOverloadClasses", "client.WithThrottle": "TestThrottle",
		"client.WithAttempts Budget": "TestDefaultRetryBudget", "client.WithAttempts Failback": "TestFailbackTriesLater",
		"client.WithAttempts Failback.GiveUp": "TestFailbackGivesUp", "client.WithAttempts BroadcastAtOnce": "TestBroadcastAtOnce", "client.WithAttempts BroadcastShare": "TestBroadcast",
		"client.WithConnections MaxBackoff": "TestLinkBacksOff",
		"client.WithAttempts Fork":          "TestForkSpreads", "client.WithAttempts BackupShare": "TestBackupWins", "client.WithConnections Timeout": "ExampleWithConnections_timeout",
		"client.WithConnections Backoff":     "TestLinkBacksOff",
		"client.WithConnections HealthCheck": "TestSilentServerIsFoundBeforeACall", "client.WithConnections Silence": "TestHungPeer",
		"client.WithConnections StreamWindow": "TestConnectionWindow", "client.WithPolicy": "TestPolicyInCode",
		"client.WithPolicyFrom": "TestPolicyChangesUnderCalls", "client.WithPolicyFrom name": "TestPolicyReportersHaveNames",
		"client.WithWait": "TestWaitIsBounded", "client.Idempotent": "TestFailover", "client.HashKey": "TestHashKeyOfArguments",
		"server.MethodReuse": "TestContextIsUsedAgain", "server.MethodSafe": "ExampleServer_Describe", "server.MethodName": "ExampleForMethod",
		"server.MethodHidden": "ExampleForMethod", "server.ForMethod": "ExampleForMethod", "server.SkipUnsuitable": "ExampleSkipUnsuitable",
		"server.WithMemory": "TestLargeRequestsWaitForMemory", "server.WithRules": "TestRulesSayWhoMayCall",
		"server.WithBaggage": "TestBaggageCrosses", "client.WithBaggage": "TestBaggageLeavesForTrustedTargetsOnly",
		"client.Key": "TestKeysCross", "client.Fingerprint": "ExampleKey",
	}
}
