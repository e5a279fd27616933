package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tandem-rpc/tandem/e2e/interop/certificate"
)

// env is the environment of the suites: a folder with the installed programs, and the servers.
type env struct {
	bin    string
	plain  server
	secure server // serves with TLS

	together string // folder with the clients of interop/together
}

// server is a running testservice.
type server struct {
	cmd        *exec.Cmd
	host, port string
}

func (e *env) path(parts ...string) string {
	return filepath.Join(append([]string{e.bin}, parts...)...)
}

// command returns a command that runs in the folder bin.
func (e *env) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = e.bin
	c.WaitDelay = 10 * time.Second
	return c
}

// output runs a command and returns its output. If it fails, the error has the last lines.
func (e *env) output(ctx context.Context, name string, args ...string) (string, error) {
	b, err := e.command(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, tail(b))
	}
	return string(b), err
}

// tail returns the last lines of an output.
func tail(b []byte) []byte {
	const lines = 40
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

// build builds our servers. The working directory must be the module's folder.
func (e *env) build(ctx context.Context) error {
	if err := os.MkdirAll(e.bin, 0o755); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-o", e.bin+string(filepath.Separator), "./conformance", "./testservice")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// goInstall installs a program of a module, unless that version is installed.
func (e *env) goInstall(ctx context.Context, pkg, version string) error {
	mark := e.path(filepath.Base(pkg) + "." + version)
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	c := e.command(ctx, "go", "install", pkg+"@"+version)
	c.Env = append(os.Environ(), "GOBIN="+e.bin, "GOWORK=off", "GOFLAGS=")
	if b, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(b))
	}
	return os.WriteFile(mark, nil, 0o644)
}

// packages installs packages of Debian if a program of theirs is missing. That needs root.
func (e *env) packages(ctx context.Context, program string, names ...string) error {
	_, err := exec.LookPath(program)
	if err == nil || os.Getuid() != 0 {
		return err
	}
	if _, err := e.output(ctx, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	_, err = e.output(ctx, "apt-get", append([]string{"install", "-qq", "-y", "--no-install-recommends"}, names...)...)
	return err
}

// moduleDir returns the folder of a module's source.
func (e *env) moduleDir(ctx context.Context, module, version string) (string, error) {
	c := e.command(ctx, "go", "mod", "download", "-json", module+"@"+version)
	c.Env = append(os.Environ(), "GOWORK=off")
	b, err := c.Output()
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(b), `"Dir": "`)
	dir, _, ok := strings.Cut(after, `"`)
	if !ok {
		return "", errors.New("go mod download did not say where it is")
	}
	return dir, nil
}

// serve starts the servers.
func (e *env) serve(ctx context.Context) error {
	if err := certificate.Write(e.path("cert.pem"), e.path("key.pem")); err != nil {
		return err
	}
	return errors.Join(
		e.start(ctx, &e.plain),
		e.start(ctx, &e.secure, "-cert", e.path("cert.pem"), "-key", e.path("key.pem")))
}

func (e *env) start(ctx context.Context, s *server, args ...string) error {
	s.cmd = e.command(ctx, e.path("testservice"), args...)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("testservice did not say where it is: %w", err)
	}
	s.host, s.port, err = net.SplitHostPort(strings.TrimSpace(line))
	return err
}

// stop ends the servers.
func (e *env) stop() error {
	var failed error
	for _, s := range []*server{&e.plain, &e.secure} {
		if s.cmd == nil || s.cmd.Process == nil {
			continue
		}
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it has ended already
		if err := s.cmd.Wait(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("testservice: %w", err))
		}
	}
	return failed
}
