//go:build !unix

package demo

import "os"

// exists reports whether there is a process with that ID.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release() // the handle is not needed
	return true
}
