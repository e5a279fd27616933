package redis

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

//go:embed lua/put.lua
var putText string

//go:embed lua/renew.lua
var renewText string

//go:embed lua/delete.lua
var deleteText string

// entry lists one instance: an [adapter.Entry].
type entry struct {
	conn  *connection
	list  string
	ttl   time.Duration
	owner string // the unique prefix of this entry's text

	in     tandem.Instance // as given to the last Put
	listed string          // the text that the last successful Put wrote
}

func newEntry(conn *connection, list string, ttl time.Duration) *entry {
	return &entry{conn: conn, list: list, ttl: ttl, owner: rand.Text() + " "}
}

// attempts bounds how often Put tries when another process lists the ID at the same time.
const attempts = 5

// Put decides in Go whether the listed entry may be replaced; the script replaces only that
// entry.
func (e *entry) Put(ctx context.Context, in tandem.Instance) error {
	data, err := adapter.Encode(in)
	if err != nil {
		return err
	}
	e.in = in
	text := e.owner + string(data)
	rival := ""
	for range attempts {
		reply := e.conn.put.Run(ctx, e.conn.client, keys(e.list), in.ID, e.owner, text, e.ttl.Milliseconds(), rival, channel(e.list))
		if errors.Is(reply.Err(), goredis.Nil) {
			e.listed = text
			return nil
		}
		if rival, err = reply.Text(); err != nil {
			return err
		}
		if supersedes(rival, &in) {
			return registry.ErrSuperseded
		}
	}
	return fmt.Errorf("other processes keep listing %q at the same time", in.ID)
}

func (e *entry) Check(ctx context.Context) error {
	reply := e.conn.renew.Run(ctx, e.conn.client, keys(e.list), e.in.ID, e.listed, e.ttl.Milliseconds())
	switch value := reply.Val().(type) {
	case int64:
		return nil
	case string:
		if supersedes(value, &e.in) {
			return registry.ErrSuperseded
		}
		return errors.New("something else is listed in its place")
	}
	if errors.Is(reply.Err(), goredis.Nil) {
		return errors.New("it is not listed")
	}
	return reply.Err()
}

func (e *entry) Delete(ctx context.Context) error {
	err := e.conn.del.Run(ctx, e.conn.client, keys(e.list), e.in.ID, e.owner, channel(e.list)).Err()
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}

// supersedes reports whether an entry is of an instance that started later than in. It is
// false for an entry that can't be read.
func supersedes(text string, in *tandem.Instance) bool {
	listed, err := decode(text)
	return err == nil && adapter.Supersedes(&listed, in)
}
