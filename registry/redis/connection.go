package redis

import (
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// connection is the client of one server: a pool of connections for scripts, and one
// connection that listens to announcements while there is a watch.
type connection struct {
	client                goredis.UniversalClient
	put, renew, del, list *goredis.Script
	scripts               documentScripts

	mu   sync.Mutex
	line *line // nil before the first watch
}

func newConnection(client goredis.UniversalClient) *connection {
	return &connection{
		client: client,
		put:    goredis.NewScript(putText),
		renew:  goredis.NewScript(renewText),
		del:    goredis.NewScript(deleteText),
		list:   goredis.NewScript(listText),
		scripts: documentScripts{
			goredis.NewScript(documentText), goredis.NewScript(reportText),
		},
	}
}

// documentScripts are the scripts for documents.
type documentScripts struct{ read, report *goredis.Script }

// close closes the connection, which has no user any more.
func (c *connection) close() { _ = c.client.Close() } // an error changes nothing here

// keys returns the keys of a list: its entries, and until when each is listed. The braces
// put them in one slot of a Cluster.
func keys(list string) []string {
	return []string{"tandem:{" + list + "}", "tandem:{" + list + "}:until"}
}

// channel returns the channel on which changes of a list are announced.
func channel(list string) string { return "tandem:{" + list + "}" }

// listen returns a receiver for a channel, on the line that all watches share. A line that has
// failed is replaced.
func (c *connection) listen(channel string) *receiver {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line != nil {
		if s := c.line.add(channel); s != nil {
			return s
		}
	}
	var first *receiver
	c.line, first = newLine(c.client, channel)
	return first
}
