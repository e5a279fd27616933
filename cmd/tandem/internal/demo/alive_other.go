//go:build !unix

package demo

import "os"

// exists reports whether there is a process of that number.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release() // it was only a question
	return true
}
