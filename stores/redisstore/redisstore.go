// Package redisstore (experimental) keeps the records of calls with a key, for package
// [once], in Redis 6.0 or later.
//
//	client := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"})
//	store, err := redisstore.New(ctx, client)
//	srv := server.New(server.WithPlugins(auth, once.New(store)))
//
// A call runs at most once, as long as Redis has its record. So [New] fails unless Redis writes
// each change to disk before it answers (appendonly yes, appendfsync always), and evicts no
// keys (maxmemory-policy noeviction). A replica that is promoted may lack the last changes:
// with Sentinel or a Cluster, a failover may let a call run twice.
//
// An instance renews the record of a call that runs. If it ends, or can't reach Redis for the
// time of [WithLease], the call is undecided: see [once.Undecided].
//
// # Layout
//
// All keys are in one slot of a Cluster. With the default prefix they are
//
//	{tandem:once}:<hash>   a hash: a call's record; <hash> is of its caller, method and key
//	{tandem:once}:open     a sorted set: the records of calls that run or are undecided, scored
//	                       with the time when their leases end, in milliseconds since 1970
//
// All times are those of the Redis server.
package redisstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/once"
)

const (
	defaultPrefix = "tandem:once"
	defaultLease  = 10 * time.Second
	defaultTTL    = 24 * time.Hour
	leastLease    = 100 * time.Millisecond
)

// Option changes what [New] returns.
type Option func(*Store)

// WithPrefix sets the prefix of the keys, "tandem:once" by default. Services with a prefix of their
// own have records of their own.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// WithLease sets how long an instance may be silent until its calls count as undecided; 10 s by
// default, 100 ms at least.
func WithLease(d time.Duration) Option { return func(s *Store) { s.lease = d } }

// WithTTL sets how long answers, and records that are undecided, are kept; 24 hours by default. It must be
// longer than the lease.
func WithTTL(d time.Duration) Option { return func(s *Store) { s.ttl = d } }

// WithWeakDurability accepts a Redis that may lose records when it, or its machine, ends: then calls
// may run twice. It also accepts one whose configuration can't be read.
func WithWeakDurability() Option { return func(s *Store) { s.weak = true } }

// Store keeps records in Redis. It is safe for concurrent use.
type Store struct {
	client     redis.UniversalClient
	prefix     string
	lease, ttl time.Duration
	weak       bool

	// The scripts. Each runs again without harm if its answer was lost.
	begin, finish, renew, resolve *redis.Script
}

var _ once.Store = (*Store)(nil)

// New returns a store that uses the client, which the caller closes. It checks the configuration of
// Redis.
func New(ctx context.Context, client redis.UniversalClient, opts ...Option) (*Store, error) {
	s := &Store{
		client: client, prefix: defaultPrefix, lease: defaultLease, ttl: defaultTTL,
		begin: redis.NewScript(beginText), finish: redis.NewScript(finishText), renew: redis.NewScript(renewText), resolve: redis.NewScript(resolveText),
	}
	for _, o := range opts {
		o(s)
	}
	switch {
	case s.prefix == "" || strings.ContainsAny(s.prefix, "{}"):
		return nil, fmt.Errorf("redisstore: WithPrefix: got %q: want a text without braces", s.prefix)
	case s.lease < leastLease:
		return nil, fmt.Errorf("redisstore: WithLease: got %v: want %v or more", s.lease, leastLease)
	case s.ttl <= s.lease:
		return nil, fmt.Errorf("redisstore: WithTTL: got %v: want more than the lease, %v", s.ttl, s.lease)
	}
	if s.weak {
		return s, nil
	}
	if err := s.check(ctx); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return s, nil
}

// check returns an error for a Redis that may lose records.
func (s *Store) check(ctx context.Context) error {
	for _, want := range [][2]string{{"appendonly", "yes"}, {"appendfsync", "always"}, {"maxmemory-policy", "noeviction"}} {
		got, err := s.client.ConfigGet(ctx, want[0]).Result()
		if err != nil {
			return fmt.Errorf("reading the configuration of Redis: %w: allow CONFIG GET, or give WithWeakDurability", err)
		}
		if got[want[0]] != want[1] {
			return fmt.Errorf("calls may run twice, as Redis has %s %s: set it to %s, or give WithWeakDurability", want[0], got[want[0]], want[1])
		}
	}
	return nil
}

//go:embed begin.lua
var beginText string

//go:embed finish.lua
var finishText string

//go:embed renew.lua
var renewText string

//go:embed resolve.lua
var resolveText string

// keys returns the keys of a record, as the scripts want them.
func (s *Store) keys(id once.ID) []string {
	sum := sha256.New()
	for _, part := range []string{id.Caller, id.Method, id.Key} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash does not fail
	}
	return []string{s.key(hex.EncodeToString(sum.Sum(nil))), s.key("open")}
}

func (s *Store) key(name string) string { return "{" + s.prefix + "}:" + name }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Begin claims a record.
func (s *Store) Begin(ctx context.Context, r once.Request) (once.Claim, once.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, once.Record{}, err
	}
	c := &claim{store: s, keys: s.keys(r.ID), nonce: rand.Text()}
	got, err := s.begin.Run(ctx, s.client, c.keys, c.nonce, milliseconds(s.lease), milliseconds(s.ttl),
		r.Fingerprint, r.Caller, r.Method, r.Key).StringSlice()
	if err != nil {
		c.giveUp(ctx)
		return nil, once.Record{}, err
	}
	if got[0] == "claimed" {
		c.token, err = strconv.ParseUint(got[1], 10, 64)
		return c, once.Record{}, err
	}
	record, err := parse(got)
	record.ID = r.ID
	return nil, record, err
}

// The length of a record in an answer of a script, with and without an answer of the call.
const (
	lengthOpen = 3
	lengthDone = 4
)

var errRecord = errors.New("a record in Redis is not of this package: does another program use the prefix?")

// parse reads a record as the script begin answers it: the state, the fingerprint, the time, and the answer
// if there is one.
func parse(got []string) (r once.Record, err error) {
	if len(got) < lengthOpen {
		return r, errRecord
	}
	switch got[0] {
	case "running":
		r.State = once.StateRunning
	case "undecided":
		r.State = once.StateUndecided
	case "done":
		r.State = once.StateDone
	default:
		return r, errRecord
	}
	r.Fingerprint = got[1]
	ms, err := strconv.ParseInt(got[2], 10, 64)
	if err != nil {
		return r, errRecord
	}
	r.Since = time.UnixMilli(ms)
	if len(got) >= lengthDone {
		r.Answer = []byte(got[3])
	}
	return r, nil
}

// claim is the claim of a record, by a nonce that no other claim has.
type claim struct {
	store *Store
	keys  []string
	nonce string
	token uint64
}

var _ once.Leased = (*claim)(nil)

// Lease returns how long the claim lasts without Renew.
func (c *claim) Lease() time.Duration { return c.store.lease }

// Token returns the fencing token: the time of the claim in microseconds, or one more than the
// record's last one.
func (c *claim) Token() uint64 { return c.token }

// run runs a script that answers whether the record is the claim's.
func (c *claim) run(ctx context.Context, script *redis.Script, args ...any) error {
	own, err := script.Run(ctx, c.store.client, c.keys, append([]any{c.nonce}, args...)...).Bool()
	if err == nil && !own {
		return once.ErrFenced
	}
	return err
}

// Renew extends the lease.
func (c *claim) Renew(ctx context.Context) error {
	return c.run(ctx, c.store.renew, milliseconds(c.store.lease), milliseconds(c.store.ttl))
}

// Finish keeps the answer.
func (c *claim) Finish(ctx context.Context, answer []byte) error {
	return c.run(ctx, c.store.finish, milliseconds(c.store.ttl), answer)
}

// Release removes the record.
func (c *claim) Release(ctx context.Context) error { return c.run(ctx, c.store.finish, "0") }

// giveUp removes the record that a Begin may have made whose answer was lost: nothing ran for it.
func (c *claim) giveUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.Release(ctx) // if Redis is gone, the record becomes undecided
}

// Undecided returns records that are undecided.
func (s *Store) Undecided(ctx context.Context, limit int) (all []once.Record, err error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	open := s.key("open")
	late, err := s.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: open, ByScore: true, Start: "-inf", Stop: now.UnixMilli(), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, err
	}
	for _, z := range late {
		key, _ := z.Member.(string)
		fields, err := s.client.HMGet(ctx, key, "caller", "method", "key", "fingerprint").Result()
		if err != nil {
			return nil, err
		}
		if fields[0] == nil { // its time to live is over
			s.client.ZRem(ctx, open, key)
			continue
		}
		text := func(i int) string { t, _ := fields[i].(string); return t }
		all = append(all, once.Record{
			ID: once.ID{Caller: text(0), Method: text(1), Key: text(2)}, Fingerprint: text(3), //nolint:mnd // as asked for
			State: once.StateUndecided, Since: time.UnixMilli(int64(z.Score)),
		})
	}
	return all, nil
}

// Resolve settles an undecided record.
func (s *Store) Resolve(ctx context.Context, id once.ID, ran bool) error {
	verdict := "not"
	if ran {
		verdict = "ran"
	}
	found, err := s.resolve.Run(ctx, s.client, s.keys(id), verdict, milliseconds(s.ttl)).Bool()
	if err == nil && !found {
		return once.ErrNotUndecided
	}
	return err
}
