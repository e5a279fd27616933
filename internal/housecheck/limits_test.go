//go:build !race

package housecheck

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limits maps the rows of docs/reference/limits.md to the constants, or fields of a literal, that the
// code takes their defaults from. Several are separated by spaces. A row with "" has no figure
// that one constant holds.
var limits = map[string]string{ //nolint:gochecknoglobals // a constant
	"payload of a frame":                                                                               "wire.MaxBlock",
	"a message, before and after decompression":                                                        "wire.DefaultMaxMessage",
	"memory of a message when it is decoded, as estimated":                                             "server.defaultMaxDecoded",
	"metadata of a request or a response":                                                              "wire.MaxMetadata wire.MaxMetadataPairs",
	"a method's name":                                                                                  "wire.MaxName",
	"method names that a connection remembers, per direction":                                          "wire.MaxNames wire.MaxNameBytes",
	"nesting of a message; of Protocol Buffers":                                                        "codec.MaxDepth codec.maxProtoDepth codec/protobuf.maxDepth",
	"deadline of a call that names none":                                                               "client.defaultTimeout",
	"open calls of a connection, per direction; the client queues the rest":                            "wire.DefaultMaxOpen",
	"queued calls of a client's connection":                                                            "internal/machine.maxQueued",
	"time that calls wait while no instance is connected":                                              "client.defaultWait",
	"calls, and bytes of their arguments, that wait for a connection or the first list":                "internal/pool.maxWaiting internal/pool.maxWaitingBytes",
	"calls that Failback will try again":                                                               "client.failbackQueue",
	"instances that Broadcast calls at a time":                                                         "client.broadcastAtOnce",
	"second attempts of Backup":                                                                        "",
	"methods whose latency a client measures":                                                          "resilience.maxMethods",
	"requests that wait in an overloaded server; one-way ones among them":                              "internal/overload.Calls internal/overload.OneWay",
	"bytes of the requests that wait; time that a request without a deadline waits":                    "internal/overload.Bytes",
	"streams that run in an overloaded server in any case":                                             "internal/overload.Streams",
	"large requests (above 4 KiB, or 32 KiB when decoded), from the first byte until the handler ends": "server.mostMemory",
	"large requests of one connection":                                                                 "",
	"first blocks of large requests that wait for memory, and what arrives of those over HTTP/2; further ones are refused": "",
	"large messages of a connection that are received beside the oldest":                                                   "internal/machine.AssemblyBudget",
	"first blocks of large requests of a connection; further large requests are refused":                                   "internal/machine.MaxHeld",
	"write queue of a connection: new calls wait; calls are refused":                                                       "internal/machine.WriteSoft internal/machine.WriteHard",
	"goroutines of a connection for calls that have not begun; for responses that are encoded":                             "internal/session.maxStarting internal/session.maxEncoding",
	"time for the first bytes of a connection":                                                                             "server.defaultHandshake internal/session.defaultHandshake",
	"connections in their handshake; then the oldest of the network with the most of them is closed, if it is 100 ms old":  "server.maxGreeting",
	"rest of a frame; a write that the peer does not take":                                                                 "server.defaultStall internal/session.defaultStall",
	"time without any block of a large request for which the peer has credit; then all incomplete requests are refused":    "server.defaultStall",
	"silence with calls outstanding until a peer is suspect":                                                               "internal/session.leastSuspectAfter",
	"silence until a peer is given up":                                                                                     "internal/session.DefaultSilence",
	"silence of an idle connection before it is pinged; rounds of pings in an interval":                                    "client.healthCheck internal/pool.roundsAnInterval",
	"unanswered control frames":                                                                        "internal/machine.maxPongs",
	"unsent bytes of a TCP connection in the kernel (Linux)":                                           "transport.mostUnsent",
	"age of a connection; time for its running calls after that":                                       "server.defaultAgeGrace",
	"time that a server goes on serving in a shutdown":                                                 "",
	"an HTTP proxy's answer to CONNECT":                                                                "transport.maxProxyHead transport.proxyTime",
	"ID of a client that the server may call":                                                          "server.MaxClientID",
	"window of a stream; of all streams of a connection":                                               "internal/session.DefaultStreamWindow",
	"time for the server to accept a stream":                                                           "internal/call.StreamOpening",
	"unread bytes of a stream over HTTP/2 at servers of other protocols; of the connection":            "",
	"KCP: packets in flight; further bytes on each side; silence":                                      "transport/kcp.defaultWindow transport/kcp.defaultIdle",
	"KCP: sessions that are not accepted yet, closed as connections in their handshake are":            "transport/kcp.maxWaiting transport/kcp.defaultWait",
	"QUIC: unread bytes; silence; time for written bytes at a close":                                   "transport/quic.defaultWindow transport/quic.defaultIdle transport/quic.partTime",
	"WebSocket: connections in their handshake; header; unread bytes":                                  "transport/websocket.defaultPending transport/websocket.defaultHello transport/websocket.MaxHeaderBytes transport/websocket.maxMessage",
	"first bytes that a protocol sees before it has decided":                                           "server.MaxSniff",
	"responses of a connection in the write queue; then its calls wait":                                "server.maxQueued",
	"requests of a client's connection in the write queue; a write that the server does not take":      "internal/multiplex.maxQueued internal/multiplex.writeTime",
	"idle goroutines, kept for calls of other protocols":                                               "server.maxIdle",
	"name of a method that does not exist, as plugins see it":                                          "server.longestAbsent",
	"net/rpc: type descriptions of a connection; a request without its arguments; header of a CONNECT": "protocol/netrpc.maxTypes protocol/netrpc.maxHeader protocol/netrpc.maxHead",
	"rpcx: names of service and method; metadata":                                                      "protocol/rpcx.maxName protocol/rpcx.maxMetadata protocol/rpcx.maxPairs",
	"Thrift: a frame; names; metadata":                                                                 "protocol/thrift.maxFrame protocol/thrift.maxName protocol/thrift.maxMetadata protocol/thrift.maxPairs",
	"Thrift: nesting; elements of a container that are read at a time":                                 "protocol/thrift.maxNesting",
	"HTTP: header of a request; an idle connection":                                                    "protocol/web.defaultMaxHeader protocol/web.defaultIdle",
	"HTTP: silence of server-sent events; unknown fields that are logged":                              "protocol/web.heartbeat protocol/web.maxWarnings",
	"paths of google.api.http: segments of a request; nested fields of a parameter":                    "protocol/rest.maxSegments protocol/rest.maxDepth",
	"HTTP/1: rest of a refused request; then the connection closes":                                    "protocol/web.stallBytes",
	"HTTP when the server drains: each piece of a request; an idle connection of HTTP/1.1":             "protocol/web.lastPiece protocol/web.lastRequest",
	"HTTP/2: requests of a connection":                                                                 "protocol/web.defaultMaxStreams",
	"HTTP/2: calls in interceptors that have not passed authentication":                                "protocol/web.maxEntering protocol/web.maxEnteringConn",
	"HTTP/2: 64 KiB of a frame, a header or a stream's message":                                        "",
	"HTTP/2: body of a refused request that is read before the response":                               "protocol/web.stallBytes",
	"HTTP/2: silence of a client before it is pinged":                                                  "protocol/web.pingAfter",
	"Triple: arguments of a wrapped call":                                                              "protocol/triple.maxArgs",
	"JSON-RPC: requests of a batch":                                                                    "protocol/jsonrpc.maxBatch",
	"compat/netrpc: a message, as with encoding/gob; the answer to a CONNECT":                          "compat/netrpc.maxMessage compat/netrpc.maxAnswer",
	"access log: lines that wait to be written, then lines are dropped":                                "plugin/accesslog.room",
	"rate limits: keys of a limit":                                                                     "plugin/ratelimit.defaultMaxKeys",
	"a token; all that are remembered as valid":                                                        "identity.maxToken identity.maxCached",
	"keys of an issuer; their text; an answer of the issuer":                                           "identity.maxKeys identity.maxKeyBytes identity.fetchTime",
	"calls that wait for an issuer's keys; the rest is refused":                                        "identity.maxWaiting",
	"authorization rules; patterns of a field; conditions of a rule; a text":                           "plugin/authz.maxRules plugin/authz.maxPatterns plugin/authz.maxConditions plugin/authz.maxText",
	"a file with certificates or keys for TLS":                                                         "transport/tlsfiles.maxFile",
	"limits in Redis: time for an answer; keys that are counted without Redis":                         "stores/redislimit.defaultTimeout stores/redislimit.maxLocal",
	"metrics: methods that a client counts separately":                                                 "plugin/metrics.defaultMaxMethods",
	"trace: a tracestate that is passed on":                                                            "plugin/trace.maxState",
	"instances of a list; reports beside a document":                                                   "registry.MaxInstances registry.MaxReports",
	"calls with a key: key and fingerprint; an answer that is kept; a run":                             "once.maxKey once.defaultMaxAnswer once.defaultTimeout",
	"calls with a key, in memory: records; answers; time to live":                                      "once.defaultRecords once.defaultBytes once.defaultTTL",
	"calls with a key, in Redis and SQL: time to live; lease (Redis)":                                  "stores/redisstore.defaultTTL stores/sqlstore.defaultTTL stores/redisstore.defaultLease",
	"a document":          "registry.MaxDocument",
	"methods of a policy": "policy.maxMethods",
	"baggage of a call; with the rest of its metadata":                                    "..MaxBaggage ..MaxBaggageMembers client.roomForBaggage",
	"callers, and tenants, of a method that a server's rules count apart":                 "internal/served.maxKeys",
	"good answers of a method that a client keeps to degrade calls":                       "client.lastEntries client.lastBytes client.lastAge",
	"routes of a policy; subsets of one, and as many fallbacks":                           "policy.MaxRoutes policy.maxSubsets",
	"values of one list of a route; bytes of a value, of a regular expression":            "policy.maxRouteList policy.maxRouteText policy.maxExpression",
	"routes of a list with a picker of their own; keys that Sticky remembers in a client": "balance.maxRoutes",
}

// TestLimits compares the defaults in docs/reference/limits.md with the code.
func TestLimits(t *testing.T) {
	values := constants(goFiles(t))
	rows := 0
	for line := range strings.Lines(files(t)["docs/reference/limits.md"]) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "limit" { //nolint:mnd // two, and the ends
			continue
		}
		rows++
		row, text := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		names, known := limits[row]
		if !known {
			t.Errorf("docs/reference/limits.md: %q: add the row to the test, with the constants of its default", row)
		}
		for name := range strings.FieldsSeq(names) {
			v, found := values[name]
			switch {
			case !found:
				t.Errorf("docs/reference/limits.md: %q: the code has no %s", row, name)
			case !says(text, v):
				t.Errorf("docs/reference/limits.md: %q: the default is %q, but %s is %v", row, text, name, forms(v))
			}
		}
	}
	if rows != len(limits) {
		t.Errorf("docs/reference/limits.md has %d rows, the test has %d", rows, len(limits))
	}
	if says("1,024 for 5 s", 4096) || !says("1,024 for 5 s", 1024) || !says("1,024 for 5 s", int64(5*time.Second)) {
		t.Error("the test does not tell figures apart")
	}
}

// says reports whether a text has a value, in one of its forms, between other words.
func says(text string, v int64) bool {
	padded := " " + strings.NewReplacer(";", " ; ", ",  ", " , ", "(", " ( ", ")", " ) ").Replace(strings.ReplaceAll(text, ", ", " , ")) + " "
	for _, form := range forms(v) {
		if strings.Contains(padded, " "+form+" ") {
			return true
		}
	}
	return false
}

// forms are the ways to write a number: plain, in KiB and so on, and as a time in nanoseconds.
func forms(v int64) (all []string) {
	plain := strconv.FormatInt(v, 10)
	for i := len(plain) - 3; i > 0; i -= 3 {
		plain = plain[:i] + "," + plain[i:]
	}
	all = append(all, plain, plain+" bytes")
	for shift, unit := range map[int]string{10: "KiB", 20: "MiB", 30: "GiB"} {
		if v>>shift > 0 && v>>shift<<shift == v {
			all = append(all, fmt.Sprintf("%d %s", v>>shift, unit))
		}
	}
	for size, unit := range map[time.Duration]string{time.Millisecond: "ms", time.Second: "s", time.Minute: "min"} {
		if n := v / int64(size); n > 0 && n*int64(size) == v {
			all = append(all, fmt.Sprintf("%d %s", n, unit))
		}
	}
	return all
}

// constants returns the integers that constants, variables and fields of literals have, by
// folder and name.
func constants(all []*source) map[string]int64 {
	values := map[string]int64{}
	for _, s := range all {
		if s.test {
			continue
		}
		note := func(name *ast.Ident, e ast.Expr) {
			if v := integer(e); v != nil {
				n, _ := constant.Int64Val(v)
				values[s.folder()+"."+name.Name] = n
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch v := n.(type) {
			case *ast.ValueSpec:
				for i, e := range v.Values {
					note(v.Names[i], e)
				}
			case *ast.KeyValueExpr:
				if name, ok := v.Key.(*ast.Ident); ok {
					note(name, v.Value)
				}
			}
			return true
		})
	}
	return values
}

// integer returns the value of an expression of integers and times, nil for another.
func integer(e ast.Expr) constant.Value {
	switch v := e.(type) {
	case *ast.BasicLit:
		if v.Kind == token.INT {
			return constant.MakeFromLiteral(v.Value, v.Kind, 0)
		}
	case *ast.ParenExpr:
		return integer(v.X)
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		if of, ok := v.X.(*ast.Ident); ok && of.Name == "time" && units[v.Sel.Name] > 0 {
			return constant.MakeInt64(int64(units[v.Sel.Name]))
		}
	case *ast.BinaryExpr:
		a, b := integer(v.X), integer(v.Y)
		switch {
		case a == nil || b == nil:
		case v.Op == token.SHL:
			n, _ := constant.Uint64Val(b)
			return constant.Shift(a, v.Op, uint(n))
		case v.Op == token.MUL:
			return constant.BinaryOp(a, v.Op, b)
		}
	}
	return nil
}
