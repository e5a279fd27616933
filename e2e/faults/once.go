package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/stores/redisstore"
	"github.com/tandem-rpc/tandem/stores/sqlstore"
)

// The kinds of stores that the lab starts.
const (
	storePostgres = "postgres"
	storeRedis    = "redis"
)

// codeUndecided is the code of a keyed call that was interrupted.
const codeUndecided = "undecided"

const (
	storeLease      = 600 * time.Millisecond // of records in Redis
	poolConnections = 16                     // of each server to Postgres
)

// onceServing returns the option of a server that keeps the records of keyed calls.
func onceServing(target string) (server.Option, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kind, addr, _ := strings.Cut(target, "://")
	var store once.Store
	var err error
	if kind == storeRedis {
		store, err = redisstore.New(ctx, goredis.NewClient(&goredis.Options{Addr: addr}), redisstore.WithLease(storeLease))
	} else {
		var db *sql.DB
		if db, err = sql.Open("pgx", target); err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(poolConnections)
		db.SetMaxIdleConns(poolConnections)
		store, err = sqlstore.New(ctx, db, sqlstore.Postgres)
	}
	if err != nil {
		return nil, err
	}
	return server.WithPlugins(once.New(store, once.WithCaller(once.Anyone))), nil
}

// inTransaction handles a keyed call: it writes the execution into the database, in the transaction of the
// call's record, in place of the journal.
func (h handler) inTransaction(ctx context.Context, tx *sql.Tx, request []byte) ([]byte, error) {
	if len(request) < requestHead {
		return nil, errShort(request)
	}
	id := binary.BigEndian.Uint64(request)
	runs := 1
	if id%50 == 0 {
		switch h.spoil {
		case spoilLose:
			runs = 0
		case spoilTwice:
			runs = 2
		case spoilDrop:
			time.Sleep(time.Minute)
		}
	}
	for range runs {
		if _, err := tx.ExecContext(ctx, "INSERT INTO executions VALUES ($1, $2, $3)", int64(id), time.Now().UnixNano(), h.number); err != nil { //nolint:gosec // counted from 1
			return nil, err
		}
	}
	time.Sleep(time.Duration(binary.BigEndian.Uint32(request[8:])) * time.Microsecond)
	return append([]byte(nil), request[:answerSize]...), nil
}

// storeServer is the server of a store, on its own host.
type storeServer struct {
	*registryServer

	home string // directory to remove at the end; none if empty
	own  string // data source for the lab itself; none if empty
}

// newStoreServer returns a store's server for a host and its address. It does not start it.
func newStoreServer(kind, host, addr, dir string) (*storeServer, error) {
	s := &storeServer{registryServer: &registryServer{host: host, data: filepath.Join(dir, kind), log: filepath.Join(dir, kind+".log")}}
	if kind == storeRedis {
		s.port = addr + ":6379"
		s.target = storeRedis + "://" + s.port
		s.argv = []string{
			"redis-server", "--bind", addr, "--port", "6379", "--protected-mode", "no", "--dir", s.data, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always",
		}
		return s, nil
	}
	return s, s.preparePostgres(addr)
}

// preparePostgres creates a database in a directory of the user postgres, as the server refuses to run as
// root.
func (s *storeServer) preparePostgres(addr string) error {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	if len(found) == 0 {
		return errors.New("there is no Postgres: make faults installs it")
	}
	bin := found[len(found)-1]
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if s.home, err = os.MkdirTemp("", "faults-postgres-"); err != nil {
		return err
	}
	if err := errors.Join(err1, err2, os.Chown(s.home, uid, gid)); err != nil {
		return err
	}
	s.data = filepath.Join(s.home, "data")
	s.port = addr + ":5432"
	s.target = "postgres://lab@" + s.port + "/postgres"
	s.own = "postgres://lab@/postgres?host=" + s.home
	as := []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"}
	initdb := exec.Command(as[0], append(as[1:], filepath.Join(bin, "initdb"), "-D", s.data, "-A", "trust", "-U", "lab", "-E", "UTF8")...) //nolint:gosec // our words
	initdb.Dir = s.home
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	hba := "local all all trust\nhost all all all trust\n"                                         //nolint:dupword // a word of each column
	if err := os.WriteFile(filepath.Join(s.data, "pg_hba.conf"), []byte(hba), 0o644); err != nil { //nolint:gosec // the lab's own database
		return err
	}
	s.argv = append(as, filepath.Join(bin, "postgres"), "-D", s.data, "-k", s.home, "-h", addr, "-p", "5432", "-c", "max_connections=200")
	return nil
}

// start starts the server and, for Postgres, creates the table of the executions.
func (s *storeServer) start() error {
	if s.own == "" {
		return s.registryServer.start()
	}
	if err := s.registryServer.start(); err != nil {
		return err
	}
	db, err := sql.Open("pgx", s.own)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for range 100 { // it listens before it takes connections
		if _, err = db.Exec("CREATE TABLE IF NOT EXISTS executions (id BIGINT, at BIGINT, server INT)"); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// readExecutions adds what the servers have committed to all. Redis has none: there the servers' journals
// have them.
func (s *storeServer) readExecutions(ctx context.Context, all executions) error {
	if s.own == "" {
		return nil
	}
	db, err := sql.Open("pgx", s.own)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // read only
	rows, err := db.QueryContext(ctx, "SELECT id, at, server FROM executions")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has the error
	for rows.Next() {
		var id, at int64
		var number int
		if err := rows.Scan(&id, &at, &number); err != nil {
			return err
		}
		all[uint64(id)] = append(all[uint64(id)], execution{time.Unix(0, at), number}) //nolint:gosec // counted from 1
	}
	return rows.Err()
}

// remove ends the server and removes its directory.
func (s *storeServer) remove() {
	if s.own != "" && s.cmd != nil {
		_ = s.signal(syscall.SIGQUIT) // with its children; kill would leave them
	}
	s.kill()
	if s.home != "" {
		_ = os.RemoveAll(s.home) // a temporary directory
	}
}
