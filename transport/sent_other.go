//go:build !linux || 386 || s390x

package transport

// boundUnsent does nothing: package syscall does not offer it here.
func boundUnsent(uintptr) {}

// received returns false: package syscall does not offer it here.
func received(uintptr) (r Received, ok bool) { return r, false }

// sent returns false: package syscall does not offer it here.
func sent(uintptr) (s Sent, ok bool) { return s, false }
