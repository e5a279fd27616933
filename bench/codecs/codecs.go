// Package codecs measures tandem's codecs with the seeds' message: each alone,
// and in a whole call, beside net/rpc with the same codec.
package codecs

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem/bench/micro"
)

// Plan says what is measured.
type Plan struct {
	Callers []int // that share a connection
}

// Check finds what cannot be meant.
func (p Plan) Check() error {
	if len(p.Callers) == 0 || slices.Min(p.Callers) < 1 {
		return fmt.Errorf("codecs: %v callers: there must be at least one", p.Callers)
	}
	return nil
}

// Frameworks in the order of their columns.
const (
	ours   = "tandem"
	theirs = "netrpc"
)

// Source has the benchmarks of the plan. Those of tandem and of net/rpc follow
// each other, so that the machine does the same for both.
func (p Plan) Source() micro.Source {
	var group micro.Group
	for _, k := range kinds() {
		group = append(group,
			micro.Bench{Name: aloneName(k.name, "encode"), Func: k.encode},
			micro.Bench{Name: aloneName(k.name, "decode"), Func: k.decode})
	}
	for _, k := range kinds() {
		for _, n := range p.Callers {
			group = append(group,
				micro.Bench{Name: callName(k.name, n, ours), Func: func(b *testing.B) error { return calls(b, k.tandem, n) }},
				micro.Bench{Name: callName(k.name, n, theirs), Func: func(b *testing.B) error { return calls(b, k.netrpc, n) }})
		}
	}
	return group
}

func aloneName(kind, direction string) string { return "Alone/" + kind + "/" + direction }

func callName(kind string, callers int, framework string) string {
	return fmt.Sprintf("Call/%s/%d/%s", kind, callers, framework)
}

// warmUp is how many calls are made before the measurement: connections, pools
// and what is learnt about methods are not what is measured.
const warmUp = 500

// calls makes b.N calls, from callers that share them evenly.
func calls(b *testing.B, start func() (*pair, error), callers int) error {
	p, err := start()
	if err != nil {
		return err
	}
	all := make([]func() error, callers)
	for i := range all {
		all[i] = p.newCaller()
	}
	if err = together(all, max(warmUp, callers)); err == nil {
		b.ResetTimer()
		err = together(all, b.N)
		b.StopTimer()
	}
	if e := p.close(); err == nil {
		err = e
	}
	return err
}

// together makes n calls and returns the first error. A caller whose call has
// failed makes no more.
func together(callers []func() error, n int) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(callers))
	for i, call := range callers {
		wg.Go(func() {
			for range n*(i+1)/len(callers) - n*i/len(callers) {
				if err := call(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
