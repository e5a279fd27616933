package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
)

// noticeTime bounds the time until a client notices that a server was killed.
const noticeTime = time.Second

// faultResult is the result of a fault.
type faultResult struct {
	fault

	err    error // why the fault did not have its effect, or nil
	detail string
	before int // calls that the server had answered before the fault
}

// direct makes the faults happen at their times, until ctx ends.
func (r *run) direct(ctx context.Context, start time.Time) {
	volleys := 0
	for _, f := range r.plan.faults {
		if f.kind == kill || f.kind == drain {
			if !sleepUntil(ctx, start.Add(f.at-volleyLead)) {
				return
			}
			r.load.volley(ctx, volleys)
			volleys++
		}
		if !sleepUntil(ctx, start.Add(f.at)) {
			return
		}
		res := r.applyFault(ctx, f)
		if ctx.Err() != nil {
			return // the fault failed because the demo ends
		}
		r.faults = append(r.faults, res)
		r.screen.event(time.Since(start), res.String())
		if r.cfg.Explain {
			r.screen.event(time.Since(start), "where a call would go now:\n"+r.describe(ctx, f).String())
		}
	}
}

// describe explains where a call would go after a fault. After a kill, it waits until the client
// has noticed that the connections are closed, at most for noticeTime.
func (r *run) describe(ctx context.Context, f fault) *client.Explanation {
	for end := time.Now().Add(noticeTime); ; {
		e := r.client.Describe(services.Mul)
		unseen := f.kind == kill && usable(e, f.server)
		if !unseen || time.Now().After(end) || !sleepUntil(ctx, time.Now().Add(noticeTime/100)) {
			return e
		}
	}
}

// usable reports whether a call could go to the server.
func usable(e *client.Explanation, server string) bool {
	return slices.ContainsFunc(e.Attempts, func(a client.Attempt) bool {
		return slices.ContainsFunc(a.Instances, func(in client.InstanceState) bool {
			return in.ID == server && in.Unusable == ""
		})
	})
}

// applyFault makes one fault happen and checks its effect.
func (r *run) applyFault(ctx context.Context, f fault) faultResult {
	res := faultResult{fault: f, before: r.stats.answered()[f.server]}
	switch f.kind {
	case kill:
		res.detail, res.err = r.kill(ctx, f.server)
	case drain:
		res.detail, res.err = r.drain(ctx, f.server)
	case restart, join:
		res.detail, res.err = r.start(ctx, f.server)
	}
	return res
}

func (r *run) kill(ctx context.Context, name string) (string, error) {
	p, err := r.cluster.kill(name)
	switch {
	case err != nil:
		return "", err
	case exists(p.pid()):
		return "", fmt.Errorf("process %d still exists", p.pid())
	case p.listening(ctx):
		return "", fmt.Errorf("a process still listens at %s", p.address)
	}
	return fmt.Sprintf("process %d is gone (%s)", p.pid(), p.cmd.ProcessState), nil
}

func (r *run) drain(ctx context.Context, name string) (string, error) {
	doubts := r.stats.doubtsAt(name)
	p, err := r.cluster.drain(ctx, name)
	if err != nil {
		return "", err
	}
	running, left, acknowledged := p.drainReport()
	lost := r.stats.doubtsAt(name) - doubts
	switch {
	case !acknowledged:
		return "", fmt.Errorf("process %d has ended and did not report that it drained", p.pid())
	case running == 0:
		return "", fmt.Errorf("no call was running on process %d, so the drain showed nothing", p.pid())
	case left > 0 || lost > 0:
		return "", fmt.Errorf("of %d calls running on process %d, %d were not done and %d not answered", running, p.pid(), left, lost)
	}
	return fmt.Sprintf("process %d has answered the %d calls that were running, and ended", p.pid(), running), nil
}

func (r *run) start(ctx context.Context, name string) (string, error) {
	if err := r.cluster.start(ctx, name); err != nil {
		return "", err
	}
	p, _ := r.cluster.get(name)
	return fmt.Sprintf("process %d serves %s", p.pid(), p.address), nil
}

// String returns the fault and its result as a line of output.
func (f faultResult) String() string {
	if f.err != nil {
		return fmt.Sprintf("%s %s: FAILED: %v", f.kind, f.server, f.err)
	}
	return fmt.Sprintf("%s %s: %s", f.kind, f.server, f.detail)
}
