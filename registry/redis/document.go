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
)

var (
	_ registry.Documents      = (*Registry)(nil)
	_ registry.DocumentWriter = (*Registry)(nil)
)

//go:embed lua/document.lua
var documentText string

//go:embed lua/write.lua
var writeText string

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
func (r *Registry) checkDocumentKey(key string) error {
	if r.own == nil {
		return errors.New(name + ": there are no documents; use New with a target")
	}
	if len(key) < 2 || key[0] != '/' || len(key) > 1024 || strings.ContainsAny(key, "{}") {
		return fmt.Errorf("%s: key %.100q: want one such as /shop/policies/Cart, without braces", name, key)
	}
	return nil
}

// WatchDocument delivers the value of a Redis key and its changes: for the key
// /shop/policies/Cart the value of tandem:{shop/policies/Cart}:document. A change by
// WriteDocument is delivered at once; any other change within two seconds, or when its
// writer publishes on the channel of the same name. See [registry.Documents].
func (r *Registry) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	if err := r.checkDocumentKey(key); err != nil {
		return err
	}
	conn, release, err := r.shared.Acquire(r.own.server())
	if err != nil {
		return err
	}
	defer release()
	return registry.DocumentFollower{Name: name, Session: func(ctx context.Context, deliver func([]byte)) error {
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
	value, err := c.documents.read.Run(ctx, c.client, []string{key}, known, registry.MaxDocument).Result()
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

// WriteDocument sets the value of a key and announces it, or deletes it. See
// [registry.DocumentWriter].
func (r *Registry) WriteDocument(ctx context.Context, key string, text []byte) error {
	if err := registry.CheckDocument(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.withDocuments(ctx, key, func(ctx context.Context, c *connection) error {
		at := documentKey(key)
		return c.documents.write.Run(ctx, c.client, []string{at}, text, at).Err()
	})
}

// withDocuments checks the key and runs f with a timeout.
func (r *Registry) withDocuments(ctx context.Context, key string, f func(context.Context, *connection) error) error {
	if err := r.checkDocumentKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f(ctx, r.conn); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// PutReport puts a report into a hash, and the time of its end into a sorted set, as for
// instances. See [registry.Documents].
func (r *Registry) PutReport(ctx context.Context, key, reporter string, report []byte, life time.Duration) error {
	if err := registry.CheckReport(reporter, report, life); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.withDocuments(ctx, key, func(ctx context.Context, c *connection) error {
		err := c.documents.report.Run(ctx, c.client, reportKeys(key), reporter, report, life.Milliseconds(), registry.MaxReports).Err()
		if errors.Is(err, goredis.Nil) {
			return registry.ErrReports
		}
		return err
	})
}

// Reports reads the reports whose life is not over. See [registry.Documents].
func (r *Registry) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	reports := make(map[string][]byte)
	err := r.withDocuments(ctx, key, func(ctx context.Context, c *connection) error {
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
