package main

import (
	"fmt"
	"time"
)

// linkCells returns cells with a slow or lossy link from the beginning.
func linkCells() []cell {
	small := func(rate float64, deadline time.Duration) plan {
		return plan{Rate: rate, Duration: 10 * time.Second, Deadline: deadline, Work: 2 * time.Millisecond, Size: 256}
	}
	cells := []cell{
		{
			Name: "rtt3s", Title: "a round trip takes 3 s", Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 1,
			Load: small(20, 30*time.Second), Link: link{Delay: 1500 * time.Millisecond},
			Proof: proveHeld, Judge: completesWhatGRPCDoes,
		},
		{
			Name: "reorder", Title: "each packet is delayed by 20 to 60 ms, which reorders packets", Short: true, Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 1,
			Load: small(50, 10*time.Second), Link: link{Delay: 20 * time.Millisecond, Jitter: 40 * time.Millisecond},
			Proof: proveHeld, Judge: completesWhatGRPCDoes,
		},
		{
			Name: "slow256k", Title: "two uploads of 1 MiB at once over 256 kbit/s, in parallel with two small calls a second", Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 1,
			Load: plan{
				Rate: 2, Deadline: time.Minute, Size: 64,
				Uploads: 2, UploadSize: 1 << 20, UploadDeadline: 150 * time.Second,
			},
			Link: link{Mbit: 0.256}, Proof: proveRate(0.256), Judge: completesWhatGRPCDoes,
		},
	}
	for _, lossy := range []struct {
		name, title string
		link        link
	}{
		{"loss-5", "5 % of the packets are lost in each direction", link{LossIn: 5, LossOut: 5}},
		{"loss-20", "20 % of the packets are lost in each direction", link{LossIn: 20, LossOut: 20}},
		{"loss-requests-20", "20 % of the packets to the server are lost, none from it", link{LossIn: 20}},
		{"loss-answers-20", "20 % of the packets from the server are lost, none to it", link{LossOut: 20}},
	} {
		cells = append(cells, cell{
			Name: lossy.name, Title: lossy.title, Short: lossy.name == "loss-20", Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 2,
			Load: small(50, 30*time.Second), Link: lossy.link, Proof: proveLoss, Judge: completesWhatGRPCDoes,
		})
	}
	return cells
}

// proveHeld proves that packets went through the lab's queues. completesWhatGRPCDoes checks
// how long the calls took.
func proveHeld(r *rig) error {
	var held int64
	for _, q := range r.net.queues {
		held += q.held.Load()
	}
	r.provef("%d packets delayed", held)
	if held == 0 {
		return fmt.Errorf("no packet was delayed")
	}
	return nil
}

// proveLoss proves that the share of dropped packets is between half and twice the share that
// the link asks for.
func proveLoss(r *rig) error {
	in, out, err := r.net.dropped(r.net.servers[0])
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		pct  int
		passage
	}{{"to", r.cell.Link.LossIn, in}, {"from", r.cell.Link.LossOut, out}} {
		if way.pct == 0 {
			continue
		}
		r.provef("%d of %d packets %s the server dropped", way.dropped, way.seen, way.name)
		if 100*way.dropped < way.pct*way.seen/2 || 100*way.dropped > way.pct*way.seen*2 || way.dropped == 0 {
			err = fmt.Errorf("%d of %d packets %s the server were dropped, want %d %%", way.dropped, way.seen, way.name, way.pct)
		}
	}
	return err
}

// completesWhatGRPCDoes is the bar that no more calls of tandem fail than of grpc-go, in the
// sum of all rounds. No call may be faster than the link's delay allows.
func completesWhatGRPCDoes(o *outcome) []check {
	failed := map[arm]int{} // by system and congestion control
	ran := map[arm]bool{}
	var checks []check
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		kind := arm{System: a.System, CC: a.CC}
		ran[kind] = true
		failed[kind] += a.summary(all).Failed
		if trip := 2 * o.cell.Link.Delay; trip > 0 {
			s := a.summary(all)
			checks = append(checks, check{a.String() + ": fastest call", fmt.Sprintf("≥ %v", trip), fmt.Sprint(round(s.Min)), s.OK == 0 || s.Min >= trip})
		}
	}
	for _, a := range o.tandems() {
		kind := arm{System: a.System, CC: a.CC}
		if ran[kind] {
			bar := failed[arm{System: sysGRPC, CC: a.CC}] // 0 where grpc-go did not run
			checks = append(checks, atMost(kind.String()+": failed, compared with grpc-go", failed[kind], bar))
			delete(ran, kind)
		}
	}
	return checks
}
