package codec

import (
	"fmt"
	"sync"
)

// Limits of the type descriptions in one gob message, and of those that are kept.
const (
	maxGobTypes   = 1024
	maxGobWork    = 4096     // number of fields, and of the types that they are made of
	maxGobPrefix  = 64 << 10 // bytes of type descriptions
	maxGobSchemas = 256      // schemas that are kept for each codec
	maxGobKept    = 8 << 10  // bytes of the longest descriptions that are kept
)

// gobSchema holds the type descriptions at the head of a message.
type gobSchema struct {
	types    map[int]*gobWireType // not changed once the schema is made
	decoders sync.Pool            // of *gobDecoder that have read the descriptions
}

// gobSchemas keeps the schemas of messages.
type gobSchemas struct {
	mu       sync.RWMutex
	byPrefix map[string]*gobSchema // by the bytes of the descriptions
}

// of returns the schema of a message and the length of its type descriptions.
func (c *gobSchemas) of(src []byte) (*gobSchema, int, error) {
	n, err := gobPrefix(src)
	if err != nil {
		return nil, 0, err
	}
	schema, err := c.schema(src[:n])
	return schema, n, err
}

func (c *gobSchemas) schema(prefix []byte) (*gobSchema, error) {
	c.mu.RLock()
	s := c.byPrefix[string(prefix)]
	c.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	s, err := scanGobTypes(prefix)
	if err == nil && len(prefix) <= maxGobKept {
		c.keep(prefix, s)
	}
	return s, err
}

// keep stores s, in place of any other when there are too many: a peer that always
// sends new ones can slow down others, but only while it does.
func (c *gobSchemas) keep(prefix []byte, s *gobSchema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPrefix == nil {
		c.byPrefix = make(map[string]*gobSchema)
	}
	for old := range c.byPrefix {
		if len(c.byPrefix) < maxGobSchemas {
			break
		}
		delete(c.byPrefix, old)
	}
	c.byPrefix[string(prefix)] = s
}

// gobPrefix returns the length of the type descriptions that src begins with.
func gobPrefix(src []byte) (int, error) {
	s := gobScan{rest: src}
	for {
		n := len(src) - len(s.rest)
		s.next()
		isType := s.int() < 0
		if s.err != nil || !isType {
			return n, s.err
		}
		if n = len(src) - len(s.rest); n > maxGobPrefix {
			return 0, fmt.Errorf("gob: type descriptions of more than %d bytes", maxGobPrefix)
		}
	}
}

// scanGobTypes parses the type descriptions that [gobPrefix] has found.
func scanGobTypes(prefix []byte) (*gobSchema, error) {
	s := gobScan{rest: prefix, types: make(map[int]*gobWireType)}
	for len(s.rest) > 0 && s.err == nil {
		s.next()
		s.define(-s.int())
		if len(s.msg) > 0 {
			s.failf("bytes left over after a type")
		}
	}
	s.weigh()
	return &gobSchema{types: s.types}, s.err
}
