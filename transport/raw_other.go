//go:build !unix

package transport

import (
	"errors"
	"syscall"
)

const nonBlocking = false

// Without non-blocking descriptors every connection takes the plain path; the
// types exist so that Conn has one shape.
type (
	lazyRead struct {
		step   func(uintptr) bool
		lender Lender
		once   bool
	}
	tryWrite struct{ step func(uintptr) bool }
)

var errPlain = errors.New("transport: no raw connections on this system")

func (*lazyRead) run(uintptr) bool { return true }
func (*tryWrite) run(uintptr) bool { return true }

func (*lazyRead) result(error) ([]byte, int, error) { return nil, 0, errPlain }

func (*tryWrite) write(syscall.RawConn, []byte) (int, error) { return 0, errPlain }

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
