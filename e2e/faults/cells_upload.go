package main

import (
	"fmt"
	"slices"
	"time"
)

// uploadCells returns cells that send large requests over slow links, and small calls at the
// same time on the same connection.
func uploadCells() []cell {
	var cells []cell
	for _, u := range []struct {
		count, size int
		mbit        float64
		short       bool
	}{
		{200, 200 << 10, 10, false},
		{30, 1 << 20, 10, false},
		{64, 1 << 20, 20, false},
		{200, 1 << 20, 100, false},
	} {
		cells = append(cells, cell{
			Name:  fmt.Sprintf("upload-%dx%dk", u.count, u.size>>10),
			Title: fmt.Sprintf("%d uploads of %d KiB at once over %g Mbit/s, one connection, in parallel with 20 small calls a second", u.count, u.size>>10, u.mbit),
			Short: u.short, Alone: true, Instances: 1, Beside: sysGRPC, Paired: true,
			Load: plan{
				Rate: 20, Deadline: time.Minute, Size: 64,
				Uploads: u.count, UploadSize: u.size, UploadDeadline: 150 * time.Second,
			},
			Link: link{Mbit: u.mbit}, Proof: proveRate(u.mbit), Judge: likeGRPC,
		})
	}
	return cells
}

// proveRate proves that the link carried bytes, and at most 1.1 times as fast as its rate.
func proveRate(mbit float64) func(*rig) error {
	return func(r *rig) error {
		bytes, err := r.net.sent(r.net.client, r.net.near(0))
		if err != nil {
			return err
		}
		took := time.Since(r.result.start)
		got := float64(bytes) * 8 / 1e6 / took.Seconds()
		r.provef("%.1f MB in %v: %.1f Mbit/s", float64(bytes)/1e6, round(took), got)
		if bytes == 0 || got > 1.1*mbit {
			return fmt.Errorf("the link carried %.1f Mbit/s, want more than 0 and about %g at most", got, mbit)
		}
		return nil
	}
}

// likeGRPC is the bar for uploads: no call fails, the median of uploadTime is at most 1.05
// times grpc-go's, and the median of the small calls' p99 is not above grpc-go's.
func likeGRPC(o *outcome) []check {
	var checks []check
	var ccs []string
	for _, a := range o.tandems() {
		if !slices.Contains(ccs, a.CC) {
			ccs = append(ccs, a.CC)
		}
		checks = append(checks, atMost(a.String()+": failed", a.summary(all).Failed, 0))
	}
	for _, cc := range ccs {
		ours, small := medians(o.of(sysTandem, cc))
		theirs, theirSmall := medians(o.of(sysGRPC, cc))
		if theirs == 0 {
			checks = append(checks, check{What: "grpc " + cc, Bar: "ran", Got: "no valid arm to compare with"})
			continue
		}
		checks = append(checks,
			notLonger("tandem "+cc+": time of all uploads", ours, theirs, 1.05),
			notLonger("tandem "+cc+": p99 of small calls", small, theirSmall, 1))
	}
	return checks
}

// medians returns the medians, over the arms, of uploadTime and of the small calls' p99.
func medians(arms []*armResult) (whole, small time.Duration) {
	var wholes, smalls []time.Duration
	for _, a := range arms {
		if a.invalid != nil {
			continue
		}
		wholes = append(wholes, uploadTime(a))
		smalls = append(smalls, a.summary(isSmall).P99)
	}
	return median(wholes), median(smalls)
}

// uploadTime returns the time from the start of the load, when all uploads begin, to the end
// of the last upload.
func uploadTime(a *armResult) time.Duration {
	var end time.Time
	for _, e := range a.entries {
		if isUpload(e) && e.end().After(end) {
			end = e.end()
		}
	}
	return end.Sub(a.start)
}
