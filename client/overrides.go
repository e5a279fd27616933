package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"

	"github.com/tandem-rpc/tandem/internal/steer"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// watcher returns the function that watches the list of instances. It applies the overrides of
// the list if the registry keeps documents.
func (c *Client) watcher(k *adapter.Keeper, r registry.Resolver, t registry.Target) func(ctx context.Context) error {
	watch := func(ctx context.Context, update func(adapter.View)) error { return k.Watch(ctx, r, t, update) }
	plain := func(ctx context.Context) error { return watch(ctx, c.pool.Update) }
	of, ok := r.(registry.DocumentFinder)
	if !ok {
		return plain
	}
	documents, key, err := of.DocumentsOf(t)
	if err != nil {
		c.log().Warn("overrides of the instances are not followed", "error", err)
		return plain
	}
	f := override.Follower{Documents: documents, Key: key, File: c.overridesFile(t), Log: c.log(), Applied: c.takeOverrides}
	c.nameItself()
	c.overridden.Begin()
	if reporter, ok := policy.FromRegistry(documents, key).(policy.Reporter); ok {
		c.life.Go(func() { c.overridden.Report(c.life.Context(), reporter, c.log()) })
	}
	return func(ctx context.Context) error { return f.Run(ctx, watch, c.pool.Update) }
}

// overridesFile returns the file in which the overrides of a list are kept, beside the list; ""
// if lists are not kept.
func (c *Client) overridesFile(t registry.Target) string {
	if c.opts.snapshots == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.String()))
	return filepath.Join(c.opts.snapshots, hex.EncodeToString(sum[:16])+".overrides")
}

// takeOverrides records what was done with a document of overrides.
func (c *Client) takeOverrides(version string, err error) {
	a := policy.Applied{Client: c.opts.name, Version: version, InForce: version, At: time.Now()}
	if err != nil {
		a.Error, a.InForce = steer.Shortened(err), c.overridden.Last().InForce
	}
	c.overridden.Record(a)
}
