//go:build !linux

package file

// watch has no events here: the standard library can receive them on Linux only. The
// directory is read at every tick.
type watch struct{ changes chan struct{} }

func newWatch() (*watch, error) { return nil, nil } //nolint:nilnil // there is none, and that is no failure

func (*watch) follow(string) {}
func (*watch) close()        {}
