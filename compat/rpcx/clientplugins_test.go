package rpcx_test

import (
	"errors"
	"net/rpc"
	"net/rpc/jsonrpc"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/clientselector"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
	"github.com/tandem-rpc/tandem/plugin/metrics"
)

// stubborn is a plugin that refuses at one point, and counts its calls by point.
type stubborn struct {
	point string
	asked map[string]int
}

var errNo = errors.New("no")

func (p *stubborn) at(point string) error {
	p.asked[point]++
	if p.point == point {
		return errNo
	}
	return nil
}

func (p *stubborn) PreWriteRequest(r *rpc.Request, args any) error {
	if a, ok := args.(*Args); !ok || *a != (Args{7, 8}) || r.ServiceMethod != "Arith.Mul" {
		return errors.New("these are not its arguments")
	}
	return p.at("request")
}
func (p *stubborn) PostReadResponseHeader(*rpc.Response) error { return p.at("header") }
func (p *stubborn) PostReadResponseBody(body any) error {
	if r, ok := body.(*Reply); !ok || r.C != 56 {
		return errors.New("this is not the reply")
	}
	return p.at("body")
}

// TestClientPluginsRefuse: an error of a plugin ends the call in every fail mode, with and
// without the program's own codec, and the caller gets the same value.
func TestClientPluginsRefuse(t *testing.T) {
	points := []string{"request", "header", "body"}
	plain, coded := rpcx.NewServer(), rpcx.NewServer()
	coded.ServerCodecFunc = jsonrpc.NewServerCodec
	for at, codec := range map[string]rpcx.ClientCodecFunc{
		start(t, plain, new(Arith)): nil, start(t, coded, new(Arith)): jsonrpc.NewClientCodec,
	} {
		s := direct(t, at)
		for i, point := range append(points, "none") {
			for _, mode := range []rpcx.FailMode{rpcx.Failfast, rpcx.Failover, rpcx.Failtry} {
				p := &stubborn{point, map[string]int{}}
				c := rpcx.NewClient(s)
				c.ClientCodecFunc, c.FailMode = codec, mode
				if err := c.PluginContainer.Add(p); err != nil {
					t.Fatal(err)
				}
				err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply))
				if refused := point != "none"; errors.Is(err, errNo) != refused || refused && err.Error() != "no" {
					t.Errorf("refused at %s in mode %d: %v", point, mode, err)
				}
				for k, q := range points {
					if want := max(0, min(1, i-k+1)); p.asked[q] != want {
						t.Errorf("refused at %s in mode %d: asked %d times at %s, not %d", point, mode, p.asked[q], q, want)
					}
				}
				closeAll(t, c)
			}
		}
	}
}

// TestClientPluginsAreTheClients: clients that share a selector run only their own plugins.
func TestClientPluginsAreTheClients(t *testing.T) {
	s := direct(t, start(t, rpcx.NewServer(), new(Arith)))
	one, other := &stubborn{"none", map[string]int{}}, &stubborn{"header", map[string]int{}}
	for i, p := range []*stubborn{one, other, nil, one} {
		c := rpcx.NewClient(s)
		if p != nil {
			if err := c.PluginContainer.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); errors.Is(err, errNo) != (p == other) || p != other && err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		closeAll(t, c)
	}
	if one.asked["body"] != 2 || other.asked["header"] != 1 {
		t.Errorf("%v, %v", one.asked, other.asked)
	}
}

// TestClientPluginsSeeAttempts: as in rpcx, the plugins run for each attempt that has a
// connection.
func TestClientPluginsSeeAttempts(t *testing.T) {
	for _, codec := range []rpcx.ClientCodecFunc{nil, jsonrpc.NewClientCodec} {
		srv := rpcx.NewServer()
		if codec != nil {
			srv.ServerCodecFunc = jsonrpc.NewServerCodec
		}
		s := multi(t, []clientselector.ServerPair{{Network: "tcp", Address: start(t, srv, new(Arith))}, {Network: "tcp", Address: nobody(t)}}, rpcx.RoundRobin)
		p := &stubborn{"none", map[string]int{}}
		c := rpcx.NewClient(s)
		c.ClientCodecFunc, c.FailMode = codec, rpcx.Failover
		if err := c.PluginContainer.Add(p); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
				t.Error(err)
			}
		}
		closeAll(t, c)
		if p.asked["request"] != 4 || p.asked["header"] != 4 || p.asked["body"] != 4 {
			t.Errorf("%v", p.asked)
		}
	}
}

// TestTandemsClientPlugins: plugins of tandem's clients can be added, too.
func TestTandemsClientPlugins(t *testing.T) {
	counted := plugin.NewMetricsPlugin()
	c := rpcx.NewClient(direct(t, start(t, rpcx.NewServer(), new(Arith))))
	defer closeAll(t, c)
	if err := c.PluginContainer.Add(counted); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.Call("Arith.Mul", &Args{7, 8}, new(Reply)); err != nil {
			t.Error(err)
		}
	}
	if !slices.ContainsFunc(counted.Snapshot(), func(s metrics.Snapshot) bool { return s.Side == metrics.Client && s.Calls() == 3 }) {
		t.Errorf("%+v", counted.Snapshot())
	}
}
