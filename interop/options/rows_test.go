package all_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// optionRows are those of TestEveryOption.
func optionRows() map[string]row {
	all := serverRows()
	maps.Copy(all, clientRows())
	maps.Copy(all, callRows())
	for name, test := range shownElsewhere() {
		all[name] = row{shown: test}
	}
	return all
}

// forServer is a row of a server's option.
func forServer(option func(c *cell) server.Option, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.serverOpts = append(c.serverOpts, option(c)) }, effect: effect}
}

// forClient is a row of a client's option.
func forClient(option func(c *cell) client.Option, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.clientOpts = append(c.clientOpts, option(c)) }, effect: effect}
}

// forCall is a row of a call's option.
func forCall(option func(c *cell) tandem.CallOption, effect func(c *cell) (bool, error)) row {
	return row{prepare: func(c *cell) { c.callOpts = append(c.callOpts, option(c)) }, effect: effect}
}

func (r row) ownOnly(why string) row {
	r.own = why
	return r
}

// counting is an interceptor that counts.
func counting(c *cell) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			c.count()
			return next(ctx, call)
		}
	}
}

// plugin counts, at a server and at a client.
type plugin struct{ c *cell }

func (p plugin) Intercept(next tandem.Func) tandem.Func { return counting(p.c)(next) }

// press is gzip that counts.
type press struct {
	tandem.Compressor
	c *cell
}

func (p press) Compress(dst, src []byte) ([]byte, error) {
	p.c.count()
	return p.Compressor.Compress(dst, src)
}

// renamed is a codec of another name.
type renamed struct{ tandem.Codec }

func (renamed) Name() string { return "renamed" }

// counts makes a call and looks whether something was counted.
func counts(method string, args any) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		_, err := c.call(method, args)
		return c.counted(), err
	}
}

// refuses makes a call that must fail.
func refuses(method string, args any) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		_, err := c.call(method, args)
		return err != nil, nil
	}
}

// holds makes a call while another one is held, which must fail.
func holds(c *cell) (bool, error) {
	d, err := c.dial()
	if err != nil {
		return false, err
	}
	var one sync.WaitGroup
	failed := make(chan error, 1)
	one.Go(func() { failed <- d.Call(context.Background(), "T.Hold", "x", new(string)) })
	select {
	case <-c.held:
	case err := <-failed:
		return false, err
	}
	_, err = c.call("T.Echo", "x")
	close(c.released)
	one.Wait()
	return err != nil, nil
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
		return false, nil // in plain text
	}
	_, err := c.call("T.Echo", "x", client.WithTLS(c.tls[1]))
	return err == nil && c.last().Peer.TLS != nil, err
}

const longText = 4 << 10

func serverRows() map[string]row {
	const ownFormats = "other protocols have codecs and compressors of their own"
	return map[string]row{
		"server.WithTLS": forServer(func(c *cell) server.Option { return server.WithTLS(c.tls[0]) }, overTLS),
		"server.WithCodecs": forServer(func(*cell) server.Option { return server.WithCodecs(renamed{codec.JSON()}) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x", client.WithCodec(renamed{codec.JSON()}))
			return c.last().Codec == "renamed", err
		}).ownOnly(ownFormats),
		"server.WithCompressors": forServer(func(c *cell) server.Option { return server.WithCompressors(press{compress.Gzip(), c}) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Big", longText, client.WithCompressor(compress.Gzip()))
			return c.counted(), err
		}).ownOnly(ownFormats),
		"server.WithCompressAbove": {
			prepare: func(c *cell) {
				c.serverOpts = []server.Option{server.WithCompressors(press{compress.Gzip(), c}), server.WithCompressAbove(1)}
			},
			effect: func(c *cell) (bool, error) {
				_, err := c.call("T.Big", 100, client.WithCompressor(compress.Gzip()))
				return c.counted(), err
			},
			own: ownFormats,
		},
		"server.WithInterceptors":   forServer(func(c *cell) server.Option { return server.WithInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"server.WithPlugins":        forServer(func(c *cell) server.Option { return server.WithPlugins(plugin{c}) }, counts("T.Echo", "x")),
		"server.WithTimeout":        forServer(func(*cell) server.Option { return server.WithTimeout(2 * time.Second) }, within(2*time.Second)),
		"server.WithMaxConcurrency": forServer(func(*cell) server.Option { return server.WithMaxConcurrency(1, 0) }, holds),
		"server.WithMaxConnections": forServer(func(*cell) server.Option { return server.WithMaxConnections(1) }, holds),
		"server.WithMaxMessage":     forServer(func(*cell) server.Option { return server.WithMaxMessage(1000) }, refuses("T.Echo", string(make([]byte, longText)))),
		"server.WithLogger": forServer(func(c *cell) server.Option { return server.WithLogger(c.logger()) }, func(c *cell) (bool, error) {
			if _, err := c.call("T.Echo", "x"); err != nil {
				return false, err
			}
			_, _ = c.call("T.Panic", "x")
			_ = c.srv.Close() // then all is logged
			return c.logged("T.Panic"), nil
		}),
		"server.WithClients": forServer(func(*cell) server.Option { return server.WithClients(nil) }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x", client.WithID("lamp"))
			return err == nil && len(c.srv.Clients()) == 1, err
		}),
	}
}

func hi(_ context.Context, s *string) (*string, error) { return s, nil }

type service struct{}

// Hi is called by servers.
func (service) Hi(_ context.Context, s *string) (*string, error) { return s, nil }

func called(c *cell) (bool, error) {
	_, err := c.call("T.Back", "x")
	return err == nil, err
}

func clientRows() map[string]row {
	json := func(*cell) client.Option { return client.WithCodec(codec.JSON()) }
	return map[string]row{
		"client.WithTLS": {
			prepare: func(c *cell) {
				c.serverOpts = []server.Option{server.WithTLS(c.tls[0])}
				c.clientOpts = []client.Option{client.WithTLS(c.tls[1])}
			},
			effect: func(c *cell) (bool, error) {
				_, err := c.call("T.Echo", "x")
				return err == nil && c.last().Peer.TLS != nil, err
			},
		},
		"client.WithCodec": forClient(json, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return c.last().Codec == "json", err
		}),
		"client.WithCompressor":  forClient(func(c *cell) client.Option { return client.WithCompressor(press{compress.Gzip(), c}) }, counts("T.Echo", string(make([]byte, longText)))),
		"client.WithCompressors": forClient(func(c *cell) client.Option { return client.WithCompressors(press{compress.Gzip(), c}) }, pressed(longText)),
		"client.WithCompressAbove": {
			prepare: func(c *cell) {
				c.clientOpts = []client.Option{client.WithCompressors(press{compress.Gzip(), c}), client.WithCompressAbove(1)}
			},
			effect: pressed(100),
		},
		"client.WithInterceptors":        forClient(func(c *cell) client.Option { return client.WithInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"client.WithAttemptInterceptors": forClient(func(c *cell) client.Option { return client.WithAttemptInterceptors(counting(c)) }, counts("T.Echo", "x")),
		"client.WithPlugins":             forClient(func(c *cell) client.Option { return client.WithPlugins(plugin{c}) }, counts("T.Echo", "x")),
		"client.WithTimeout":             forClient(func(*cell) client.Option { return client.WithTimeout(20 * time.Millisecond) }, refuses("T.Hold", "x")),
		"client.WithAttemptTimeout":      forClient(func(*cell) client.Option { return client.WithAttemptTimeout(20 * time.Millisecond) }, refuses("T.Hold", "x")),
		"client.WithMaxMessage":          forClient(func(*cell) client.Option { return client.WithMaxMessage(1000) }, refuses("T.Big", longText)),
		"client.WithExplain":             forClient(func(c *cell) client.Option { return client.WithExplain(func(*client.Explanation) { c.count() }) }, counts("T.Echo", "x")),
		"client.WithHashKey": forClient(func(c *cell) client.Option {
			return client.WithHashKey(func(string, any) string { c.count(); return "k" })
		}, counts("T.Echo", "x")),
		"client.WithRoute": forClient(func(*cell) client.Option { return client.WithRoute(tandem.Route{Version: "7"}) }, refuses("T.Echo", "x")),
		"client.WithID": {
			prepare: func(c *cell) {
				c.serverOpts = []server.Option{server.WithClients(nil)}
				c.clientOpts = []client.Option{client.WithID("lamp")}
			},
			effect: func(c *cell) (bool, error) {
				_, err := c.call("T.Echo", "x")
				return err == nil && len(c.srv.Clients()) == 1, err
			},
		},
		"client.WithService": forClient(func(*cell) client.Option { return client.WithService("C", service{}) }, called),
		"client.WithFunc":    forClient(func(*cell) client.Option { return client.WithFunc("C.Hi", hi) }, called),
		"client.WithServingPlugins": {
			prepare: func(c *cell) {
				c.clientOpts = []client.Option{client.WithFunc("C.Hi", hi), client.WithServingPlugins(plugin{c})}
			},
			effect: counts("T.Back", "x"),
		},
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

// pressed makes a call whose message is to be compressed.
func pressed(n int) func(c *cell) (bool, error) {
	return func(c *cell) (bool, error) {
		c.callOpts = append(c.callOpts, client.Compressor("gzip"))
		_, err := c.call("T.Echo", string(make([]byte, n)))
		return c.counted(), err
	}
}

func callRows() map[string]row {
	return map[string]row{
		"client.Codec": forCall(func(*cell) tandem.CallOption { return client.Codec("json") }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return c.last().Codec == "json", err
		}),
		"client.Compressor": {
			prepare: func(c *cell) { c.clientOpts = []client.Option{client.WithCompressors(press{compress.Gzip(), c})} },
			effect:  pressed(longText),
		},
		"client.Timeout":        forCall(func(*cell) tandem.CallOption { return client.Timeout(20 * time.Millisecond) }, refuses("T.Hold", "x")),
		"client.AttemptTimeout": forCall(func(*cell) tandem.CallOption { return client.AttemptTimeout(20 * time.Millisecond) }, refuses("T.Hold", "x")),
		"client.Metadata": forCall(func(*cell) tandem.CallOption { return client.Metadata("k", "v") }, func(c *cell) (bool, error) {
			_, err := c.call("T.Echo", "x")
			return c.last().Metadata.Get("k") == "v", err
		}),
		"client.Route":    forCall(func(*cell) tandem.CallOption { return client.Route(tandem.Route{Version: "7"}) }, refuses("T.Echo", "x")),
		"client.Instance": forCall(func(*cell) tandem.CallOption { return client.Instance("none") }, refuses("T.Echo", "x")),
		"client.FailMode": forCall(func(*cell) tandem.CallOption { return client.FailMode(99) }, refuses("T.Echo", "x")),
		"client.Explain": {
			prepare: func(*cell) {},
			effect: func(c *cell) (bool, error) {
				var e client.Explanation
				c.callOpts = []tandem.CallOption{client.Explain(&e)}
				_, err := c.call("T.Echo", "x")
				return e.String() != new(client.Explanation).String(), err
			},
		},
		"client.Trailer": {
			prepare: func(*cell) {},
			effect: func(c *cell) (bool, error) {
				var md tandem.Metadata
				c.callOpts = []tandem.CallOption{client.Trailer(&md)}
				_, err := c.call("T.Trail", "x")
				bare := strings.HasPrefix(c.scheme, "netrpc") || strings.HasPrefix(c.scheme, "jsonrpc")
				return md.Get("k") == "v" || bare && md == nil, err // as Trailer says of such protocols
			},
		},
	}
}

// shownElsewhere are options whose effect takes time, several servers, or another view.
func shownElsewhere() map[string]string {
	return map[string]string{
		"server.WithTransport": "TestTLSAppliesEverywhere", "server.WithProtocols": "TestNoTwoTakeTheSame",
		"server.WithStreamWindow": "TestConnectionWindow", "server.WithMaxOpenCalls": "TestLimitsOfForeignConnections",
		"server.WithHandshakeTimeout": "TestHandshakeTimeIsOne", "server.WithStallTimeout": "TestHalfAFrame",
		"server.WithProxies": "TestLargestNetworkMakesRoom", "server.WithSilence": "TestHungPeer",
		"server.WithMaxConnectionAge": "TestOldForeignConnectionsEnd", "server.WithLameDuck": "TestLameDuck",
		"server.WithRegistrar": "TestServicesBeforeAndAfter", "server.WithLoadReport": "TestLoadIsReportedToTheRegistry",
		"client.WithTransport": "TestTLSOnEveryTransport", "client.WithProtocols": "TestOneSideOfTLS",
		"client.WithCodecs": "TestEveryCodecWithEveryCompressor", "client.WithSnapshots": "ExampleWithSnapshots",
		"client.WithResolver": "ExampleWithResolver", "client.WithBalancer": "TestOwnBalancersCompose", "client.WithEjection": "TestWithoutEjectionNobodyIsLeftOut",
		"client.WithBreaker": "TestMethodBreaker", "client.WithFailMode": "TestFailover", "client.WithRetries": "TestFailover",
		"client.WithRetryBudget": "TestDefaultRetryBudget", "client.WithFailback": "TestFailbackTriesLater",
		"client.WithFailbackGiveUp": "TestFailbackGivesUp", "client.WithBroadcast": "TestBroadcastAtOnce",
		"client.WithFork": "TestForkSpreads", "client.WithBackup": "TestBackupWins", "client.WithConnectTimeout": "ExampleWithConnectTimeout",
		"client.WithConnections": "TestSeveralConnections", "client.WithBackoff": "TestLinkBacksOff",
		"client.WithHealthCheck": "TestSilentServerIsFoundBeforeACall", "client.WithSilence": "TestHungPeer",
		"client.WithStreamWindow": "TestConnectionWindow", "client.WithPolicy": "TestPolicyInCode",
		"client.WithPolicyFrom": "TestPolicyChangesUnderCalls", "client.WithName": "TestPolicyReportersHaveNames",
		"client.WithWait": "TestWaitIsBounded", "client.Idempotent": "TestFailover", "client.HashKey": "TestHashKeyOfArguments",
		"server.MethodTimeout": "TestMethodLimits", "server.MethodConcurrency": "TestMethodLimits", "server.MethodMaxMessage": "TestMethodLimits",
		"server.MethodReuse": "TestContextIsUsedAgain", "server.MethodSafe": "ExampleServer_Describe", "server.MethodName": "ExampleForMethod",
		"server.MethodHidden": "ExampleForMethod", "server.ForMethod": "ExampleForMethod", "server.SkipUnsuitable": "ExampleSkipUnsuitable",
		"server.WithMemory": "TestLargeRequestsWaitForMemory", "server.WithMaxDecoded": "TestDecompressedRequestsAreReserved",
	}
}
