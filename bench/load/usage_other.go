//go:build !unix

package load

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// cpuTime fails: without the cost of a call a measurement says too little.
func cpuTime() (time.Duration, error) {
	return 0, fmt.Errorf("load: processor time on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
