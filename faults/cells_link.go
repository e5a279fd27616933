package main

import (
	"fmt"
	"time"
)

// linkCells have a bad link from the beginning.
func linkCells() []cell {
	small := func(rate float64, deadline time.Duration) plan {
		return plan{Rate: rate, Duration: 10 * time.Second, Deadline: deadline, Work: 2 * time.Millisecond, Size: 256}
	}
	cells := []cell{
		{
			Name: "rtt3s", Title: "a round trip takes 3 s", Instances: 1, Beside: sysGRPC,
			Load: small(20, 30*time.Second), Link: link{Delay: 1500 * time.Millisecond},
			Proof: proveHeld, Judge: completesWhatGRPCDoes,
		},
		{
			Name: "reorder", Title: "each packet is held 20 to 60 ms and so overtakes others", Instances: 1, Beside: sysGRPC,
			Load: small(50, 10*time.Second), Link: link{Delay: 20 * time.Millisecond, Jitter: 40 * time.Millisecond},
			Proof: proveHeld, Judge: completesWhatGRPCDoes,
		},
		{
			Name: "slow256k", Title: "two uploads of 1 MiB at once over 256 kbit/s, two small calls a second beside them", Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 1,
			Load: plan{
				Rate: 2, Deadline: time.Minute, Size: 64,
				Uploads: 2, UploadSize: 1 << 20, UploadDeadline: 150 * time.Second,
			},
			Link: link{Mbit: 0.256}, Proof: proveRate(0.256), Judge: completesWhatGRPCDoes,
		},
	}
	for _, pct := range []int{5, 20} {
		cells = append(cells, cell{
			Name: fmt.Sprintf("loss-%d", pct), Title: fmt.Sprintf("%d %% of the packets are lost in each direction", pct), Instances: 1, Beside: sysGRPC, Paired: true, MaxRounds: 2,
			Load: small(50, 30*time.Second), Link: link{LossPct: pct}, Proof: proveLoss, Judge: completesWhatGRPCDoes,
		})
	}
	return cells
}

// proveHeld shows that the packets went through the lab's queues.
func proveHeld(r *rig) error {
	var held int64
	for _, q := range r.net.queues {
		held += q.held.Load()
	}
	r.provef("%d packets held", held)
	if held == 0 {
		return fmt.Errorf("no packet was held")
	}
	return nil
}

// proveLoss shows that packets were dropped.
func proveLoss(r *rig) error {
	dropped, err := r.net.dropped(r.net.servers[0])
	r.provef("%d packets dropped", dropped)
	if err == nil && dropped == 0 {
		err = fmt.Errorf("no packet was dropped")
	}
	return err
}

// completesWhatGRPCDoes is the bar that tandem loses no more calls than grpc-go, all
// rounds together.
func completesWhatGRPCDoes(o *outcome) []check {
	failed := map[arm]int{} // by system and congestion control
	ran := map[arm]bool{}
	for _, a := range o.arms {
		if a.Control || a.invalid != nil {
			continue
		}
		kind := arm{System: a.System, CC: a.CC}
		ran[kind] = true
		failed[kind] += a.summary(all).Failed
	}
	var checks []check
	for kind := range ran {
		if kind.System == sysTandem {
			bar := failed[arm{System: sysGRPC, CC: kind.CC}] // 0 where grpc-go did not run
			checks = append(checks, atMost(kind.String()+": failed, beside grpc-go", failed[kind], bar))
		}
	}
	return checks
}
