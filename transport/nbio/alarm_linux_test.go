package nbio

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarm(t *testing.T) {
	in := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for name, tc := range map[string]struct {
		sets []time.Duration // a second apart; 0 for never
		want time.Duration   // after the last one; 0 for never
	}{
		"never":              {[]time.Duration{0}, 0},
		"in time":            {[]time.Duration{time.Minute}, time.Minute},
		"in the past":        {[]time.Duration{-time.Minute}, time.Nanosecond},
		"later":              {[]time.Duration{2 * time.Second, time.Hour}, time.Hour},
		"sooner":             {[]time.Duration{time.Hour, time.Minute}, time.Minute},
		"not after all":      {[]time.Duration{time.Minute, 0}, 0},
		"again":              {[]time.Duration{time.Millisecond, time.Minute}, time.Minute},
		"at the same moment": {[]time.Duration{time.Second, time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a alarm
				for i, d := range tc.sets {
					if i > 0 {
						<-time.After(time.Second)
					}
					at := time.Time{}
					if d != 0 {
						at = in(d)
					}
					a.set(at)
				}
				start, never := time.Now(), time.After(24*time.Hour)
				select {
				case <-a.rung():
					if passed := time.Since(start); tc.want == 0 || passed.Truncate(time.Millisecond) != tc.want.Truncate(time.Millisecond) {
						t.Errorf("it rang after %v, want %v", passed, tc.want)
					}
				case <-never:
					if tc.want != 0 {
						t.Error("it did not ring")
					}
				}
			})
		})
	}
}

// A goroutine that waits already notices a deadline that is set meanwhile.
func TestAlarmIsSetDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm
		a.set(time.Time{})
		bell := a.rung()
		a.set(time.Now().Add(time.Hour))
		a.set(time.Now().Add(time.Minute))
		start := time.Now()
		<-bell
		if passed := time.Since(start); passed != time.Minute {
			t.Errorf("it rang after %v", passed)
		}
	})
}
