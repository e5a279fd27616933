// Package sqlstore (experimental) keeps the records of calls with a key, for package [once], in
// an SQL database: SQLite or Postgres.
//
//	store, err := sqlstore.Open(ctx, "shop.db")                        // SQLite, in a file
//	store, err := sqlstore.New(ctx, db, sqlstore.Postgres)             // any *sql.DB
//	srv := server.New(server.WithPlugins(auth, once.New(store)))
//
// A record commits in a transaction that the method uses, too:
//
//	func place(ctx context.Context, o *Order) (*Receipt, error) {
//		tx, ok := sqlstore.Tx(ctx) // false for calls without a key
//		…
//	}
//
// What the method does in that transaction, and nothing else, happens exactly once: after a
// crash the database has both the record and the work, or neither, and then a retry does
// the work. No call is ever undecided. An error of the method rolls the transaction back, and
// the next call with the key runs. What the method does elsewhere may happen several times.
//
// A second call with the key waits in the database for the first one's transaction, with a connection
// of its own. With SQLite calls with a key run one after the other in a process, as a database has
// one writer.
//
// The database must not acknowledge commits before they are on disk, which both do by default
// (Open sets synchronous to FULL), and a replica that is promoted must have them all.
package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver of Open

	"github.com/tandem-rpc/tandem/once"
)

const (
	defaultTable = "tandem_once"
	defaultTTL   = 24 * time.Hour
	cleaning     = time.Minute // between two removals of old records
	cleanTimeout = 2 * time.Second
	cleanRows    = 1000
)

// Dialect is the database's SQL.
type Dialect uint8

// The dialects. Others with ON CONFLICT DO NOTHING may work with one of them.
const (
	SQLite   Dialect = iota // its driver must begin transactions by BEGIN IMMEDIATE
	Postgres                // 9.5 or later, at its default isolation, READ COMMITTED
)

// Option changes what [New] and [Open] return.
type Option func(*Store)

// WithTable sets the name of the table, "tandem_once" by default: letters, digits and
// underscores. Services with tables of their own have records of their own.
func WithTable(name string) Option { return func(s *Store) { s.table = name } }

// WithTTL sets how long answers are kept; 24 hours by default.
func WithTTL(d time.Duration) Option { return func(s *Store) { s.ttl = d } }

// Store keeps records in a table. It is safe for concurrent use.
type Store struct {
	db      *sql.DB
	owned   bool // Close closes db
	table   string
	ttl     time.Duration
	turn    chan struct{} // taken by the one transaction of SQLite; nil for others
	cleaned atomic.Int64  // when old records were last removed, in Unix milliseconds

	insert, read, remove, update, clean string // statements
}

var _ once.Store = (*Store)(nil)

// Open returns a store in an SQLite file, which it creates if there is none. DB returns the database
// for the program's own tables. Close closes it.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "foreign_keys(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	s, err := New(ctx, db, SQLite, opts...)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.owned = true
	return s, nil
}

// New returns a store in a database, which the caller closes. It creates the table if there is none.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	s := &Store{db: db, table: defaultTable, ttl: defaultTTL}
	for _, o := range opts {
		o(s)
	}
	isName := s.table != "" && strings.Trim(s.table, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && (s.table[0] < '0' || s.table[0] > '9')
	switch {
	case !isName:
		return nil, fmt.Errorf("sqlstore: WithTable: got %q: want letters, digits and underscores", s.table)
	case s.ttl <= 0:
		return nil, fmt.Errorf("sqlstore: WithTTL: got %v: want more than 0", s.ttl)
	case d != SQLite && d != Postgres:
		return nil, fmt.Errorf("sqlstore: there is no dialect %d: give SQLite or Postgres", d)
	}
	if d == SQLite {
		s.turn = make(chan struct{}, 1)
	}
	s.prepare(d)
	if err := s.create(ctx, d); err != nil {
		return nil, fmt.Errorf("sqlstore: creating the table %s: %w", s.table, err)
	}
	return s, nil
}

// prepare writes the statements.
func (s *Store) prepare(d Dialect) {
	statement := func(text string) string {
		text = strings.ReplaceAll(text, "TABLE", s.table)
		if d == SQLite {
			return text
		}
		for n := 1; strings.Contains(text, "?"); n++ {
			text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
		}
		return text
	}
	s.insert = statement("INSERT INTO TABLE (id, caller, method, call_key, fingerprint, since) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING")
	s.read = statement("SELECT fingerprint, since, answer FROM TABLE WHERE id = ?")
	s.remove = statement("DELETE FROM TABLE WHERE id = ? AND since <= ?")
	s.update = statement("UPDATE TABLE SET answer = ?, since = ? WHERE id = ?")
	s.clean = statement(fmt.Sprintf("DELETE FROM TABLE WHERE id IN (SELECT id FROM TABLE WHERE since <= ? LIMIT %d)", cleanRows))
}

// create creates the table and its index. Instances that start together may disturb each other, so
// it tries twice.
func (s *Store) create(ctx context.Context, d Dialect) (err error) {
	bytes := "BLOB"
	if d == Postgres {
		bytes = "BYTEA"
	}
	for range 2 {
		for _, text := range []string{
			"CREATE TABLE IF NOT EXISTS " + s.table + " (id TEXT PRIMARY KEY, caller TEXT NOT NULL, method TEXT NOT NULL, " +
				"call_key TEXT NOT NULL, fingerprint TEXT NOT NULL, since BIGINT NOT NULL, answer " + bytes + ")",
			"CREATE INDEX IF NOT EXISTS " + s.table + "_since ON " + s.table + " (since)",
		} {
			if _, err = s.db.ExecContext(ctx, text); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// DB returns the database.
func (s *Store) DB() *sql.DB { return s.db }

// Close closes the database that [Open] has opened; for a store of [New] it does nothing.
func (s *Store) Close() error {
	if !s.owned {
		return nil
	}
	return s.db.Close()
}

// hash returns the primary key of a record.
func hash(id once.ID) string {
	sum := sha256.New()
	for _, part := range []string{id.Caller, id.Method, id.Key} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash does not fail
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// readable returns a text that every database takes, for people who look at the table.
func readable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Begin claims a record in a new transaction. While another transaction has it, Begin waits.
func (s *Store) Begin(ctx context.Context, r once.Request) (once.Claim, once.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, once.Record{}, err
	}
	s.removeOld(ctx)
	for {
		c, record, err := s.try(ctx, r)
		switch {
		case c != nil:
			return c, record, nil
		case errors.Is(err, sql.ErrNoRows) && ctx.Err() == nil:
			continue // the record was removed between two statements
		}
		s.leave()
		record.ID = r.ID
		return nil, record, err
	}
}

// enter waits until no other transaction of SQLite runs.
func (s *Store) enter(ctx context.Context) error {
	if s.turn == nil {
		return ctx.Err()
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) leave() {
	if s.turn != nil {
		<-s.turn
	}
}

// try makes one attempt to claim a record. It returns sql.ErrNoRows if another one may succeed.
func (s *Store) try(ctx context.Context, r once.Request) (*claim, once.Record, error) {
	c, err := s.begin(ctx, hash(r.ID))
	if err != nil {
		return nil, once.Record{}, err
	}
	record := once.Record{State: once.StateDone}
	now := time.Now()
	done, err := c.tx.ExecContext(ctx, s.insert, c.id, readable(r.Caller), readable(r.Method), readable(r.Key), r.Fingerprint, now.UnixMilli())
	if err == nil {
		var n int64
		if n, err = done.RowsAffected(); err == nil && n == 1 {
			return c, record, nil
		}
	}
	var since int64
	if err == nil {
		err = c.tx.QueryRowContext(ctx, s.read, c.id).Scan(&record.Fingerprint, &since, &record.Answer)
	}
	record.Since = time.UnixMilli(since)
	if oldest := now.Add(-s.ttl); err == nil && !record.Since.After(oldest) {
		if _, err = c.tx.ExecContext(ctx, s.remove, c.id, oldest.UnixMilli()); err == nil {
			if err = c.tx.Commit(); err == nil {
				err = sql.ErrNoRows
			}
		}
	}
	c.rollBack()
	return nil, record, err
}

// begin begins a transaction. ctx bounds only that, not the transaction.
func (s *Store) begin(ctx context.Context, id string) (*claim, error) {
	c := &claim{store: s, id: id}
	lasts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	var err error
	c.cancel = cancel
	if c.tx, err = s.db.BeginTx(lasts, nil); err != nil {
		stop()
		cancel()
		return nil, err
	}
	if !stop() {
		c.rollBack()
		return nil, ctx.Err()
	}
	return c, nil
}

// removeOld removes old records from time to time. An error does no harm: old records are not used.
func (s *Store) removeOld(ctx context.Context) {
	now, last := time.Now().UnixMilli(), s.cleaned.Load()
	if now-last < cleaning.Milliseconds() || !s.cleaned.CompareAndSwap(last, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	_, _ = s.db.ExecContext(ctx, s.clean, now-s.ttl.Milliseconds())
}

// claim is a transaction with a record.
type claim struct {
	store  *Store
	id     string
	tx     *sql.Tx
	cancel context.CancelFunc
}

var _ once.Transaction = (*claim)(nil)

type txKey struct{}

// Tx returns the transaction of the call with a key that a method runs for; false without a key.
// The method must not end it.
func Tx(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

// Context returns a context in which [Tx] finds the transaction.
func (c *claim) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, c.tx)
}

// rollBack ends the transaction, if it has not ended.
func (c *claim) rollBack() {
	_ = c.tx.Rollback() // if that fails, the database does it when the connection is closed
	c.cancel()
}

// Finish keeps the answer and commits.
func (c *claim) Finish(ctx context.Context, answer []byte) error {
	defer c.store.leave()
	defer c.rollBack()
	_, err := c.tx.ExecContext(ctx, c.store.update, answer, time.Now().UnixMilli(), c.id)
	if err == nil {
		err = c.tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) {
		return fmt.Errorf("the method has ended the transaction of package sqlstore, which it must not: %w", err)
	}
	return err
}

// Release rolls back.
func (c *claim) Release(context.Context) error {
	defer c.store.leave()
	err := c.tx.Rollback()
	c.cancel()
	if errors.Is(err, sql.ErrTxDone) {
		return nil // the connection is lost, or the method has ended it
	}
	return err
}

// Undecided returns nothing: a transaction is committed or not.
func (*Store) Undecided(context.Context, int) ([]once.Record, error) { return nil, nil }

// Resolve returns [once.ErrNotUndecided].
func (*Store) Resolve(context.Context, once.ID, bool) error { return once.ErrNotUndecided }
