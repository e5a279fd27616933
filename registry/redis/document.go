package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it tells whether a text has changed, and Redis's scripts have no other
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

// lookEvery is after which time a document is looked at that nobody has announced: it
// may have been written by hand. What has not changed is not sent.
const lookEvery = 2 * time.Second

// maxReportsBytes bounds what is read of all reports beside one document.
const maxReportsBytes = registry.MaxReports * registry.MaxReport

// documentKey returns the key in Redis of a document; its changes are announced on
// the channel of the same name.
func documentKey(key string) string { return "tandem:{" + key[1:] + "}:document" }

// reportKeys returns the keys of the reports beside a document, which are a list.
func reportKeys(key string) []string {
	at := "tandem:{" + key[1:] + "}:applied"
	return []string{at, at + ":until"}
}

// checkDocumentKey fails for a key that can't be that of a document.
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
// /shop/policies/Cart that of tandem:{shop/policies/Cart}:document. What is written by
// WriteDocument is seen at once, what is written by others within two seconds, or when
// they publish on the channel of the same name. See [registry.Documents].
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

// followDocument subscribes, then reads the document, so that no change falls between
// the two, and again whenever it may have changed.
func (c *connection) followDocument(ctx context.Context, key string, deliver func([]byte)) error {
	text, changed, err := c.document(ctx, key, "-")
	if err != nil {
		return err // before it joins the line of all
	}
	ear := c.listen(key)
	defer ear.close()
	select {
	case <-ear.ready:
	case <-ear.line.done:
		return ear.line.err
	case <-ctx.Done():
		return ctx.Err()
	}
	for known := ""; ; {
		if changed {
			deliver(text)
			known = sha1Of(text)
		}
		if err := ear.wait(ctx, lookEvery, ear.news); err != nil {
			return err
		}
		if text, changed, err = c.document(ctx, key, known); err != nil {
			return err
		}
	}
}

// document reads a document, unless it is the one with the sum.
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

// withDocuments runs f for a bounded time.
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

// PutReport puts a report into a hash beside the document, and when it goes into a
// sorted set, as instances are listed. See [registry.Documents].
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
			if text, ok := fields[1].(string); ok && named { // else it is larger than any report
				reports[reporter] = []byte(text)
			}
		}
		return err
	})
	return reports, err
}
