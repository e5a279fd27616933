//go:build !unix

package load

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// cpuTime fails: a measurement without the cost of a call says too little.
func cpuTime() (time.Duration, error) {
	return 0, fmt.Errorf("load: processor time on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
