package client

import (
	"testing"
	"time"
)

// Times that the client compares have a monotonic clock reading, so that a step of the wall
// clock neither ends a connection nor keeps a silent one.
func TestHeardSurvivesClockSteps(t *testing.T) {
	f := &foreign{made: time.Now()}
	f.noteLife()
	if heard := f.Heard(); heard == heard.Round(0) { //nolint:staticcheck // Equal would not see the difference
		t.Errorf("Heard returns %v, which has only a wall clock's reading", heard)
	}
}
