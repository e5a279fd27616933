package redis

import (
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// connection is what one server is used by: a pool of connections for scripts, and
// one that listens to announcements for as long as somebody watches.
type connection struct {
	client                goredis.UniversalClient
	put, renew, del, list *goredis.Script
	documents             documentScripts

	mu   sync.Mutex
	line *line // nil when nobody listens
}

func newConnection(client goredis.UniversalClient) *connection {
	return &connection{
		client: client,
		put:    goredis.NewScript(putText),
		renew:  goredis.NewScript(renewText),
		del:    goredis.NewScript(deleteText),
		list:   goredis.NewScript(listText),
		documents: documentScripts{
			goredis.NewScript(documentText), goredis.NewScript(writeText), goredis.NewScript(reportText),
		},
	}
}

// documentScripts are the scripts for documents.
type documentScripts struct{ read, write, report *goredis.Script }

// close releases the connection, which nobody uses any more.
func (c *connection) close() { _ = c.client.Close() } // there is nothing to be done about an error

// keys returns the keys of a list. The braces put them in one slot of a Cluster.
func keys(list string) []string {
	return []string{"tandem:{" + list + "}", "tandem:{" + list + "}:until"}
}

// channel returns where changes of a list are announced.
func channel(list string) string { return "tandem:{" + list + "}" }

// listen returns an ear for a channel, on the line that all share. A line that
// has broken is replaced.
func (c *connection) listen(channel string) *ear {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line != nil {
		if e := c.line.add(channel); e != nil {
			return e
		}
	}
	var first *ear
	c.line, first = newLine(c.client, channel)
	return first
}
