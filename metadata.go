package tandem

// Metadata is the set of key and value pairs that travels beside a message:
// request metadata with a request, trailing metadata with a response. Keys are
// lower case; the methods fold ASCII letters and leave other bytes alone. Keys that
// start with "tandem-" are reserved. A nil Metadata can be read; Set and Add need a
// non-nil map.
//
// It is not safe for concurrent writing.
type Metadata map[string][]string

// Get returns the first value of key, or "".
func (m Metadata) Get(key string) string {
	if v := m[fold(key)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Values returns all values of key. The slice is the stored one.
func (m Metadata) Values(key string) []string { return m[fold(key)] }

// Set replaces the values of key.
func (m Metadata) Set(key string, values ...string) { m[fold(key)] = values }

// Add appends a value to key.
func (m Metadata) Add(key, value string) {
	key = fold(key)
	m[key] = append(m[key], value)
}

// Del removes key.
func (m Metadata) Del(key string) { delete(m, fold(key)) }

// Clone returns a deep copy; nil for nil.
func (m Metadata) Clone() Metadata {
	if m == nil {
		return nil
	}
	c := make(Metadata, len(m))
	for k, v := range m {
		c[k] = append([]string(nil), v...)
	}
	return c
}

// fold returns key in lower case. It changes no byte but ASCII letters: a key
// may be any bytes, and folding it twice must change nothing more.
func fold(key string) string {
	for i := range len(key) {
		if 'A' <= key[i] && key[i] <= 'Z' {
			return foldFrom(i, []byte(key))
		}
	}
	return key
}

func foldFrom(i int, key []byte) string {
	for ; i < len(key); i++ {
		if 'A' <= key[i] && key[i] <= 'Z' {
			key[i] += 'a' - 'A'
		}
	}
	return string(key)
}
