package nbio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// proof is a connection that tests, before any other is made, that the poller runs and that the
// engine does not close descriptors when it releases them. nbio promises neither: an engine
// that is stopped before its poller runs loops forever, and if a version closed descriptors of
// a stranger, they would be closed twice.
type proof struct {
	*conn

	inode uint64
}

// proofTime is how long an engine may take to begin; it is only a bound for one that does not
// work.
const proofTime = 30 * time.Second

// newProof opens the descriptors of the proof. Its peer has sent a byte, and closed.
func newProof() (*proof, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	_, err = syscall.Write(pair[1], []byte{1})
	file := os.NewFile(uintptr(pair[0]), "socketpair")
	defer func() { _ = file.Close() }() // net.FileConn has copied it
	if err := errors.Join(err, syscall.Close(pair[1])); err != nil {
		return nil, err
	}
	ours, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	c, err := newConn(ours.(socket))
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	p := &proof{conn: c}
	if p.inode, err = inode(c.fd); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// end closes a proof that was not added to the engine.
func (p *proof) end() error { return syscall.Close(p.fd) }

// begun waits until the engine has seen the proof, and has released it.
func (l *loop) begun(p *proof) error {
	if err := l.watch(p.conn); err != nil {
		return errors.Join(err, p.end())
	}
	late := time.NewTimer(proofTime)
	defer late.Stop()
	select {
	case <-p.left:
		return nil
	case <-late.C:
		return fmt.Errorf("the engine has not begun within %v", proofTime)
	}
}

// check tests the descriptor that the engine has released, and closes it.
func (p *proof) check() error {
	after, err := inode(p.fd)
	if err != nil || after != p.inode {
		return errors.Join(errors.New("this version of the engine closes descriptors that are not its own"), err)
	}
	n, err := p.Read(make([]byte, 2))
	if err := errors.Join(err, p.Close()); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("of what came before the end %d bytes of 1 are left", n), err)
	}
	return nil
}

// inode returns the inode number of a descriptor's socket.
func inode(fd int) (uint64, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return stat.Ino, nil
}
