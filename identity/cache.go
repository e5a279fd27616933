package identity

import (
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/plugin/auth"
)

// maxCached is how many bytes of tokens a Verifier remembers as valid.
const maxCached = 16 << 20

// entryCost is what an entry takes besides its token and its claims, which are about as long.
const entryCost = 1 << 10

// cache remembers valid tokens, as checking a signature takes longer than a call.
type cache struct {
	mu    sync.RWMutex
	valid map[string]entry
	size  int
}

// entry is a token that was valid.
type entry struct {
	who   *auth.Principal
	keys  *keySet // with which it was checked: others may lack its key
	until time.Time
}

func cost(token string) int { return 3*len(token) + entryCost }

// get returns the owner of a token that is known to be valid; nil if it has to be checked.
func (c *cache) get(token string, keys *keySet, now time.Time) *auth.Principal {
	c.mu.RLock()
	e, ok := c.valid[token]
	c.mu.RUnlock()
	if !ok || e.keys != keys || !now.Before(e.until) {
		return nil
	}
	return e.who
}

// put remembers a token. It forgets others when there are too many: Go's maps choose which.
func (c *cache) put(token string, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.valid == nil {
		c.valid = map[string]entry{}
	}
	if _, known := c.valid[token]; known {
		delete(c.valid, token)
		c.size -= cost(token)
	}
	c.size += cost(token)
	for other := range c.valid {
		if c.size <= maxCached {
			break
		}
		delete(c.valid, other)
		c.size -= cost(other)
	}
	c.valid[token] = e
}
