package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/once/oncetest"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/stores/sqlstore"
	"github.com/tandem-rpc/tandem/tandemtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a file?#%.db")
	oncetest.Run(t, oncetest.Harness{Shared: true, New: func(t *testing.T, _, ttl time.Duration) once.Store {
		return open(t, path, sqlstore.WithTTL(ttl))
	}})
}

func TestSQLiteWork(t *testing.T) {
	work(t, func(t *testing.T) *sqlstore.Store { return open(t, filepath.Join(t.TempDir(), "shop.db")) }, "?")
}

// work checks what a method does in its transaction, with empty databases that fresh returns.
func work(t *testing.T, fresh func(t *testing.T) *sqlstore.Store, placeholder string) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, *shop){
		"Commits": commits, "RollsBack": rollsBack, "EndsTheTransaction": endsTheTransaction, "RetryAfterTheCommit": retryAfterTheCommit,
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{store: fresh(t), insert: "INSERT INTO orders VALUES (" + placeholder + ")", network: tandemtest.NewNetwork(t)}
			if _, err := s.store.DB().ExecContext(t.Context(), "CREATE TABLE orders (what TEXT)"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.instances = append(s.instances, s.network.Serve("shop", s.register, server.WithLogger(slog.New(slog.DiscardHandler)),
					server.WithPlugins(once.New(s.store, once.WithCaller(once.Anyone)))))
			}
			s.client = s.network.Dial("shop", client.WithFailMode(client.Failover))
			check(t, s)
		})
	}
}

// shop has a method that writes an order in the transaction of the call's record.
type shop struct {
	store     *sqlstore.Store
	insert    string
	network   *tandemtest.Network
	instances []*tandemtest.Server
	client    *client.Client
	runs      atomic.Int64
	after     func(run int64, tx *sql.Tx) error // called when the order is written
}

func (s *shop) register(srv *server.Server) error { return server.Handle(srv, "Shop.Place", s.place) }

func (s *shop) place(ctx context.Context, what *string) (*int64, error) {
	n := s.runs.Add(1)
	tx, ok := sqlstore.Tx(ctx)
	if !ok {
		return nil, errors.New("no transaction")
	}
	if _, err := tx.ExecContext(ctx, s.insert, *what); err != nil {
		return nil, err
	}
	if s.after != nil {
		if err := s.after(n, tx); err != nil {
			return nil, err
		}
	}
	return &n, nil
}

func (s *shop) call(t *testing.T, key string) (run int64, err error) {
	t.Helper()
	what := "tea"
	err = s.client.Call(t.Context(), "Shop.Place", &what, &run, client.Key(key))
	return run, err
}

func (s *shop) wantOrders(t *testing.T, want int) {
	t.Helper()
	var n int
	if err := s.store.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&n); err != nil || n != want {
		t.Errorf("%d orders, want %d; %v", n, want, err)
	}
}

// The order is written once, however often the call is made.
func commits(t *testing.T, s *shop) {
	for range 3 {
		if run, err := s.call(t, "k"); err != nil || run != 1 {
			t.Fatalf("run %d, %v", run, err)
		}
	}
	s.wantOrders(t, 1)
	what := "tea"
	if err := s.client.Call(t.Context(), "Shop.Place", &what, nil); err == nil || !strings.Contains(err.Error(), "no transaction") {
		t.Error("a call without a key:", err)
	}
}

// An error or a panic takes the order back, and the key is free again.
func rollsBack(t *testing.T, s *shop) {
	s.after = func(run int64, _ *sql.Tx) error {
		switch run {
		case 1:
			return tandem.Errorf(tandem.OutOfRange, "sold out")
		case 2:
			panic("on purpose")
		}
		return nil
	}
	for _, want := range []tandem.Code{tandem.OutOfRange, tandem.Internal} {
		if _, err := s.call(t, "k"); tandem.CodeOf(err) != want {
			t.Fatalf("%v, want %v", err, want)
		}
		s.wantOrders(t, 0)
	}
	if run, err := s.call(t, "k"); err != nil || run != 3 {
		t.Fatalf("run %d, %v", run, err)
	}
	s.wantOrders(t, 1)
}

// A method that ends the transaction itself gets an error, and does not run again.
func endsTheTransaction(t *testing.T, s *shop) {
	s.after = func(_ int64, tx *sql.Tx) error { return tx.Commit() }
	if _, err := s.call(t, "k"); once.ReasonOf(err) != once.Unrepeatable { // the answer to the retry
		t.Fatal(err)
	}
	if n := s.runs.Load(); n != 1 {
		t.Fatalf("%d runs", n)
	}
	s.wantOrders(t, 1)
}

// A retry of a call whose answer was lost gets that answer.
func retryAfterTheCommit(t *testing.T, s *shop) {
	s.after = func(int64, *sql.Tx) error {
		for _, i := range s.instances {
			i.Cut()
		}
		return nil
	}
	if run, err := s.call(t, "k"); err != nil || run != 1 {
		t.Fatalf("run %d, %v", run, err)
	}
	s.wantOrders(t, 1)
}

// Answers are in the file when the program starts again.
func TestReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	request := once.Request{ID: once.ID{Method: "Shop.Place", Key: "k"}, Fingerprint: "f"}
	s, err := sqlstore.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	claim, _, err := s.Begin(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(claim.Finish(t.Context(), []byte("a")), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, record, err := open(t, path).Begin(t.Context(), request); err != nil || string(record.Answer) != "a" {
		t.Fatalf("%+v, %v", record, err)
	}
}

// Old records leave the table.
func TestOldRecordsAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	for n, want := range []int{1, 2, 1} {
		ttl := time.Hour
		if n == 2 { // a store removes old records when it begins its first call
			ttl = time.Millisecond
			time.Sleep(5 * ttl) // until the records are old
		}
		s := open(t, path, sqlstore.WithTTL(ttl))
		claim, _, err := s.Begin(t.Context(), once.Request{ID: once.ID{Key: string(rune('a' + n))}})
		if err != nil {
			t.Fatal(err)
		}
		if err := claim.Finish(t.Context(), []byte("a")); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.DB().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM tandem_once").Scan(&rows); err != nil || rows != want {
			t.Fatalf("%d records, want %d; %v", rows, want, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for want, o := range map[string]sqlstore.Option{"WithTable": sqlstore.WithTable("a; --"), "WithTTL": sqlstore.WithTTL(0)} {
		if _, err := sqlstore.New(t.Context(), nil, sqlstore.SQLite, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if _, err := sqlstore.New(t.Context(), nil, 9); err == nil || !strings.Contains(err.Error(), "dialect") {
		t.Error(err)
	}
}
