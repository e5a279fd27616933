//go:build integration

package sqlstore_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/once/oncetest"
	"github.com/tandem-rpc/tandem/stores/sqlstore"
)

// postgres is a Postgres server, which "make test-stores" installs. It refuses to run as root.
type postgres struct {
	t         testing.TB
	bin, data string
	port      string
	as        *syscall.Credential
	cmd       *exec.Cmd
	databases atomic.Int64
}

func startPostgres(t testing.TB) *postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		t.Fatal("there is no Postgres: run make test-stores, which installs it")
	}
	dir, err := os.MkdirTemp("", "postgres-") //nolint:usetesting // the name of its socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	p := &postgres{t: t, bin: filepath.Dir(found[len(found)-1]), data: filepath.Join(dir, "data"), port: port}
	if os.Geteuid() == 0 {
		p.become("postgres", dir)
	}
	if out, err := p.command("initdb", "-D", p.data, "-A", "trust", "-U", "shop", "-E", "UTF8").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	p.cmd = p.command("postgres", "-D", p.data, "-k", dir, "-h", "127.0.0.1", "-p", port)
	p.run()
	return p
}

// become makes the server run as another user, who gets the folder.
func (p *postgres) become(name, dir string) {
	p.t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		p.t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	p.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(p.bin, name), args...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGKILL}
	return c
}

// run starts the server and waits until it is ready.
func (p *postgres) run() {
	p.t.Helper()
	log, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ready := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "ready to accept connections") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			p.t.Fatal("Postgres has ended")
		}
	case <-time.After(20 * time.Second):
		p.t.Fatal("Postgres does not get ready")
	}
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGINT) // fast shutdown
		_ = p.cmd.Wait()
	})
}

func (p *postgres) connect(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://shop@127.0.0.1:%s/%s", p.port, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// fresh returns a store in a new database.
func (p *postgres) fresh(t *testing.T) *sqlstore.Store {
	t.Helper()
	name := fmt.Sprintf("shop%d", p.databases.Add(1))
	if _, err := p.connect(t, "postgres").ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return newStore(t, p.connect(t, name))
}

func newStore(t *testing.T, db *sql.DB, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, sqlstore.Postgres, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPostgres(t *testing.T) {
	p := startPostgres(t)
	t.Run("Store", func(t *testing.T) {
		oncetest.Run(t, oncetest.Harness{Shared: true, New: func(t *testing.T, _, ttl time.Duration) once.Store {
			return newStore(t, p.connect(t, "postgres"), sqlstore.WithTTL(ttl))
		}})
	})
	t.Run("Work", func(t *testing.T) { work(t, p.fresh, "$1") })
	t.Run("LostConnection", func(t *testing.T) { lostConnection(t, p) })
	t.Run("CrashWhileItRuns", func(t *testing.T) { crashWhileItRuns(t, p) })
}

// A method whose connection to the database breaks has done nothing, and the retry does it.
func lostConnection(t *testing.T, p *postgres) {
	admin := p.connect(t, "postgres")
	s := p.fresh(t)
	request := once.Request{ID: once.ID{Key: "k"}, Fingerprint: "f"}
	claim, _, err := s.Begin(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	tx, _ := sqlstore.Tx(claim.(once.Transaction).Context(t.Context()))
	var backend int
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ExecContext(t.Context(), "SELECT pg_terminate_backend($1)", backend); err != nil {
		t.Fatal(err)
	}
	if err := claim.Finish(t.Context(), []byte("lost")); err == nil {
		t.Fatal("a transaction without a connection was committed")
	}
	claim, record, err := s.Begin(t.Context(), request)
	if err != nil || claim == nil {
		t.Fatalf("%v, %+v, %v", claim, record, err)
	}
	if err := claim.Finish(t.Context(), []byte("again")); err != nil {
		t.Fatal(err)
	}
}

// A second caller that waits for a transaction goes on when the first one's process is gone.
func crashWhileItRuns(t *testing.T, p *postgres) {
	first, s := p.fresh(t), (*sqlstore.Store)(nil)
	name := fmt.Sprintf("shop%d", p.databases.Load())
	s = newStore(t, p.connect(t, name))
	request := once.Request{ID: once.ID{Key: "k"}, Fingerprint: "f"}
	claim, _, err := first.Begin(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	tx, _ := sqlstore.Tx(claim.(once.Transaction).Context(t.Context()))
	var backend int
	if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, record, err := s.Begin(ctx, request)
		if err == nil && c == nil {
			err = tandem.Errorf(tandem.Internal, "%+v", record)
		}
		if err == nil {
			err = c.Finish(ctx, []byte("b"))
		}
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatal("the second caller did not wait:", err)
	case <-time.After(200 * time.Millisecond): // in which it begins to wait
	}
	if _, err := p.connect(t, name).ExecContext(t.Context(), "SELECT pg_terminate_backend($1)", backend); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	_ = claim.Release(t.Context()) // its connection is gone
}
