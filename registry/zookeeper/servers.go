package zookeeper

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// lasting is how long a connection holds that was worth having: after one, the
// servers are tried again without a pause.
const lasting = time.Second

// rota says which server is dialed next: one after the other, beginning anywhere.
//
// The library's own provider looks names up once and for ever, and dials addresses,
// so that servers that move are lost and certificates can't be checked.
type rota struct {
	mu        sync.Mutex
	servers   []string
	next      int
	tried     int       // servers since the last connection that lasted
	connected time.Time // when the last connection was made; zero if it was not
}

var _ zk.HostProvider = (*rota)(nil)

// newRota returns a rota of these servers in any order.
func newRota(servers []string) *rota {
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return &rota{servers: servers}
}

// Init does nothing: the servers are known.
func (*rota) Init([]string) error { return nil }

func (r *rota) Len() int { return len(r.servers) }

// Next returns the next server, and whether all have been tried in vain, so that
// the library pauses for a second.
func (r *rota) Next() (string, bool) {
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

func (r *rota) Connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected = time.Now()
}

// again lets the next server be tried without a pause.
func (r *rota) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = 0
}
