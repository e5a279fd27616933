//go:build !(linux || windows || darwin || dragonfly || freebsd || netbsd || openbsd)

package file

import (
	"errors"
	"os"
	"runtime"
)

var errNoLocks = errors.New("the file registry does not work on " + runtime.GOOS + ", whose file locks it does not know; use another registry")

func seize(*os.File) (bool, error) { return false, errNoLocks }
func own(*os.File) (bool, error)   { return false, errNoLocks }
func held(string) (bool, error)    { return false, errNoLocks }
