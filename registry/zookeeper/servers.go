package zookeeper

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// lasting is how long a connection must have lasted for the servers to be tried again
// without a pause.
const lasting = time.Second

// hostProvider chooses the server to dial next: one after the other, in random order.
//
// The library's own provider resolves names only once, and dials addresses, so that
// servers that move are lost and certificates can't be checked against names.
type hostProvider struct {
	mu        sync.Mutex
	servers   []string
	next      int
	tried     int       // servers dialed since the last connection that lasted
	connected time.Time // when the server dialed last gave a session; zero if it has not
}

var _ zk.HostProvider = (*hostProvider)(nil)

// newHostProvider returns a hostProvider of these servers, which it shuffles.
func newHostProvider(servers []string) *hostProvider {
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return &hostProvider{servers: servers}
}

// Init does nothing: the servers are known.
func (*hostProvider) Init([]string) error { return nil }

func (r *hostProvider) Len() int { return len(r.servers) }

// Next returns the next server, and true if all have been tried without success, which
// makes the library pause for a second.
func (r *hostProvider) Next() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.connected.IsZero() && time.Since(r.connected) >= lasting {
		r.tried = 0
	}
	r.connected = time.Time{}
	server := r.servers[r.next%len(r.servers)]
	r.next++
	pause := r.tried >= len(r.servers)
	if pause {
		r.tried = 0
	}
	r.tried++
	return server, pause
}

func (r *hostProvider) Connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected = time.Now()
}

// again makes Next return all servers once without a pause.
func (r *hostProvider) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = 0
}
