package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it only compares texts, and Redis's scripts have no other hash
	_ "embed"     // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
	_ registry.DocumentFinder = (*Registry)(nil)
	_ registry.DocumentWriter = documents{}
)

// documents are the documents of a place's server. They share the connection of the
// registry.
type documents struct {
	registry *Registry
	place    *place // nil for a Resolver's own, which has none
}

// DocumentsOf returns the documents of the server that the target names, or of the
// registry's own if it is empty. The key of the document of the list /prod/Arith is
// /tandem-overrides/prod/Arith. See [registry.DocumentFinder].
func (r *Registry) DocumentsOf(target registry.Target) (d registry.Documents, key string, err error) {
	at, err := r.placeOf(target)
	if err != nil {
		return nil, "", err
	}
	key = registry.OverridesKey(at.list)
	return documents{r, &at}, key, checkDocumentKey(key)
}

//go:embed lua/document.lua
var documentText string

//go:embed lua/swap.lua
var swapText string

//go:embed lua/report.lua
var reportText string

// lookEvery is the interval between reads of a document without an announcement: it may
// have been written by hand. A document that has not changed is not sent.
const lookEvery = 2 * time.Second

// maxReportsBytes bounds the bytes that are read of all reports on one document.
const maxReportsBytes = registry.MaxReports * registry.MaxReport

// documentKey returns a document's key in Redis. Its changes are announced on the channel
// of the same name.
func documentKey(key string) string { return "tandem:{" + key[1:] + "}:document" }

// reportKeys returns the keys of the reports on a document, which are stored like a list.
func reportKeys(key string) []string {
	at := "tandem:{" + key[1:] + "}:applied"
	return []string{at, at + ":until"}
}

// checkDocumentKey fails if key can't be the key of a document.
func checkDocumentKey(key string) error {
	if len(key) < 2 || key[0] != '/' || len(key) > 1024 || strings.ContainsAny(key, "{}") {
		return fmt.Errorf("%s: key %.100q: want one such as /shop/policies/Cart, without braces, of up to 1024 bytes", name, key)
	}
	return nil
}

// connect returns the connection, and the function that releases it. It fails if key can't
// be the key of a document.
func (d documents) connect(key string) (*connection, func(), error) {
	if d.place == nil {
		return nil, nil, errors.New(name + ": a Resolver has no documents of its own; use New with a target, or DocumentsOf")
	}
	if err := checkDocumentKey(key); err != nil {
		return nil, nil, err
	}
	return d.registry.shared.Acquire(d.place.server())
}

// WatchDocument delivers the value of a Redis key and its changes: for the key
// /shop/policies/Cart the value of tandem:{shop/policies/Cart}:document. A change by
// SwapDocument is delivered at once; any other change within two seconds, or when its
// writer publishes on the channel of the same name. See [registry.Documents].
func (d documents) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	conn, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	return adapter.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
		return conn.followDocument(ctx, documentKey(key), deliver)
	}}.Follow(ctx, update)
}

// followDocument subscribes, and then reads the document, so that it misses no change
// between the two. It reads the document again whenever it may have changed.
func (c *connection) followDocument(ctx context.Context, key string, deliver func([]byte)) error {
	text, changed, err := c.document(ctx, key, "-")
	if err != nil {
		return err // of this document only: the shared line is not disturbed
	}
	rcv := c.listen(key)
	defer rcv.close()
	select {
	case <-rcv.ready:
	case <-rcv.line.done:
		return rcv.line.err
	case <-ctx.Done():
		return ctx.Err()
	}
	for known := ""; ; {
		if changed {
			deliver(text)
			known = sha1Of(text)
		}
		if err := rcv.wait(ctx, lookEvery, rcv.news); err != nil {
			return err
		}
		if text, changed, err = c.document(ctx, key, known); err != nil {
			return err
		}
	}
}

// document reads a document. changed is false, and text nil, if its SHA-1 sum is known.
func (c *connection) document(ctx context.Context, key, known string) (text []byte, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value, err := c.scripts.read.Run(ctx, c.client, []string{key}, known, registry.MaxDocument).Result()
	switch v := value.(type) {
	case string:
		return []byte(v), true, nil
	case int64:
		return nil, false, fmt.Errorf("the document has %d bytes, limit %d", v, registry.MaxDocument)
	}
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	return nil, false, err
}

func sha1Of(text []byte) string {
	sum := sha1.Sum(text) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// ReadDocument reads the value of a key, from the master. See [registry.DocumentWriter].
func (d documents) ReadDocument(ctx context.Context, key string) (text []byte, err error) {
	err = d.withConnection(ctx, key, func(ctx context.Context, c *connection) error {
		text, _, err = c.document(ctx, documentKey(key), "-")
		return err
	})
	if len(text) == 0 {
		text = nil
	}
	return text, err
}

// SwapDocument sets the value of a key and announces it, or deletes the key, in one script
// that compares the value first. A master that fails before its replica has the change
// loses it, as any write to Redis. See [registry.DocumentWriter].
func (d documents) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if err := adapter.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.withConnection(ctx, key, func(ctx context.Context, c *connection) error {
		at := documentKey(key)
		swap := once{goredis.NewCmd(ctx, "eval", swapText, 1, at, old, text, at)}
		if err := c.client.Process(ctx, swap); err != nil {
			return err
		}
		done, err := swap.Int()
		if err == nil && done == 0 {
			err = fmt.Errorf("%s: %w", at, registry.ErrChanged)
		}
		return err
	})
}

// once is a command that the client of a Cluster sends only once. If the response is lost,
// a second try would find its own text, and take it for a change.
type once struct{ *goredis.Cmd }

// NoRetry is asked by the client before it tries again.
func (once) NoRetry() bool { return true }

// withConnection checks the key and runs f with the connection and a timeout.
func (d documents) withConnection(ctx context.Context, key string, f func(context.Context, *connection) error) error {
	conn, release, err := d.connect(key)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f(ctx, conn); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// PutReport puts a report into a hash, and the time of its end into a sorted set, as for
// instances. See [registry.Documents].
func (d documents) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := adapter.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.withConnection(ctx, key, func(ctx context.Context, c *connection) error {
		err := c.scripts.report.Run(ctx, c.client, reportKeys(key), reporter, report, life.Milliseconds(), registry.MaxReports).Err()
		if errors.Is(err, goredis.Nil) {
			return registry.ErrReports
		}
		return err
	})
}

// Reports reads the reports whose life is not over. See [registry.Documents].
func (d documents) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	err := d.withConnection(ctx, key, func(ctx context.Context, c *connection) error {
		fields, err := c.list.Run(ctx, c.client, reportKeys(key), registry.MaxReports, registry.MaxReport, maxReportsBytes).Slice()
		for ; len(fields) >= 3; fields = fields[3:] {
			reporter, named := fields[0].(string)
			if text, ok := fields[1].(string); ok && named { // else the report is too large, and text is its size
				reports[reporter] = []byte(text)
			}
		}
		return err
	})
	return reports, err
}
