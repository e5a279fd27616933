package tandem

import "slices"

// KeyKey is the key, in a call's metadata, of the call's idempotency key. A server whose plugin
// of package once serves the method runs calls with equal keys at most once. A server without
// it refuses them.
const KeyKey = "tandem-key"

// FingerprintKey is the key of the fingerprint of a keyed call's request in its metadata. A
// client makes it once a call, and sends it with every attempt. A server compares fingerprints
// for equality only.
const FingerprintKey = "tandem-fingerprint"

// AttemptsKey is the key, in a keyed call's metadata, of what its client knows of the call's
// attempts: [AttemptsAlone] and [AttemptsAgain], each as a value.
const AttemptsKey = "tandem-attempts"

// The values of [AttemptsKey].
const (
	AttemptsAlone = "alone" // every attempt goes to one instance
	AttemptsAgain = "again" // an earlier attempt may have run, or one runs in parallel
)

// IsKeyed reports whether the call has an idempotency key in its metadata.
func (c *Call) IsKeyed() bool { return len(c.Metadata) > 0 && len(c.Metadata[KeyKey]) > 0 }

// HasAttempts reports whether the client of a keyed call said that of its attempts.
func (c *Call) HasAttempts(value string) bool { return slices.Contains(c.Metadata[AttemptsKey], value) }

// Encoded is a message with its encoded form. Given to the Encode of a server's [Body], it shows
// how Value is encoded, or replaces the encoding: [Encoded.Append] says how. Bodies of
// protocols that don't know it fail, or leave Message nil.
type Encoded struct {
	Value   any    // what to encode, as long as Message is nil
	Message []byte // the encoding; not nil if it is empty
}

// Append appends Message to dst. If it is nil, Append appends Value by encode, and keeps a copy
// of what was appended as Message.
func (e *Encoded) Append(dst []byte, encode func(dst []byte, v any) ([]byte, error)) ([]byte, error) {
	if e.Message != nil {
		return append(dst, e.Message...), nil
	}
	out, err := encode(dst, e.Value)
	if err == nil {
		e.Message = append([]byte{}, out[len(dst):]...)
	}
	return out, err
}
