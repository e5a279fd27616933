package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/transport"
)

// tooLate chooses a connected instance, once, and pauses before its connection is used: by then
// the instance is gone.
type tooLate struct {
	armed atomic.Bool
	leave func()
}

func (*tooLate) Name() string         { return "too late" }
func (*tooLate) Needs() balance.Needs { return balance.Needs{} }

func (l *tooLate) Build(nodes []*balance.Node) balance.Picker { return latePicker{l, nodes} }

type latePicker struct {
	l     *tooLate
	nodes []*balance.Node
}

func (p latePicker) Pick(_ *tandem.Call, usable func(*balance.Node) bool) *balance.Node {
	for _, n := range p.nodes {
		if !usable(n) {
			continue
		}
		if strings.HasSuffix(n.Instance.ID, "leaver") && p.l.armed.CompareAndSwap(true, false) {
			p.l.leave()
			for usable(n) {
				time.Sleep(time.Millisecond) // in virtual time
			}
		}
		return n
	}
	return nil
}

// A call whose instance goes away between the choice and the use of its connection goes to
// another connected one: it does not wait for the first to come back, nor fail.
func TestInstanceGoesAfterTheChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := transport.NewMemory()
		leaver, _ := serveOn(t, network, "leaver", whoAnswers("leaver"))
		serveOn(t, network, "stayer", whoAnswers("stayer"))
		policy := &tooLate{leave: func() { _ = leaver.Shutdown(t.Context()) }}
		c := dial(t, "static://leaver,stayer?transport=mem", client.WithTransport("mem", network), client.WithBalancer(policy))
		if _, err := client.Invoke[string](t.Context(), c, "Who.Is", "", client.FailMode(client.Broadcast)); err != nil {
			t.Fatal(err) // both are connected
		}
		policy.armed.Store(true)
		got, err := client.Invoke[string](context.Background(), c, "Who.Is", "")
		if err != nil || *got != "stayer" {
			t.Errorf("%v answered, %v", got, err)
		}
		if policy.armed.Load() {
			t.Error("the leaver was never chosen")
		}
	})
}
