package harness

import (
	"fmt"
	"time"
)

// estimate tells how far a run is and how long it will go on.
type estimate struct {
	began   time.Time
	done    int
	planned int
}

func newEstimate(s Settings) *estimate {
	n, _ := s.Estimate()
	return &estimate{began: time.Now(), planned: n}
}

// next counts a measurement and returns how far the run is, once several are
// done with the time that is left if the others take as long as these on
// average.
func (e *estimate) next() string {
	const enough = 5
	e.done++
	text := fmt.Sprintf("%d/%d", e.done, e.planned)
	if e.done < enough || e.done >= e.planned {
		return text
	}
	left := time.Since(e.began) / time.Duration(e.done) * time.Duration(e.planned-e.done)
	return fmt.Sprintf("%s, %v left", text, left.Round(time.Second))
}
