package client

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Key gives the call an idempotency key, such as "order-17": a server with the plugin of package
// once runs calls of one caller with the same method and key at most once, and answers later
// ones with the answer of the first. So fail modes may retry the call although an attempt may
// have run. A tandem server without the plugin refuses the call; other servers must know what
// they do with the metadata [tandem.KeyKey] and [tandem.FingerprintKey].
//
// A key has 1 to 255 bytes of printable ASCII, without spaces. It is for unary calls.
func Key(key string) tandem.CallOption {
	return func(c *tandem.Call) {
		c.Keyed = true
		c.SetMetadata(tandem.KeyKey, key)
	}
}

// NewKey returns a key for [Key] that no other call has. The caller keeps it for as long as it
// may make the call again, for example in the job that makes the call.
func NewKey() string { return rand.Text() }

// Fingerprint says what identifies the request of a call with a [Key]. By default it is a hash of
// the encoded arguments, which is not the same for equal arguments if they have maps and the
// codec is gob or MessagePack, or if another program encodes them with gob. It has 1 to 255
// bytes of printable ASCII, without spaces.
func Fingerprint(text string) tandem.CallOption {
	return func(c *tandem.Call) { c.SetMetadata(tandem.FingerprintKey, text) }
}

const maxKey = 255 // bytes of a key or a fingerprint

// isKey reports whether a text can be a key or a fingerprint.
func isKey(text string) bool {
	return text != "" && len(text) <= maxKey && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// wrongKey returns why a keyed call can't be made; "" if it can.
func wrongKey(call *tandem.Call) string {
	switch {
	case call.Kind != tandem.Unary:
		return "Key: it is for calls with one response: not for Notify and streams"
	case !isKey(call.Metadata.Get(tandem.KeyKey)):
		return "Key: want 1 to 255 bytes of printable ASCII, without spaces"
	case len(call.Metadata[tandem.FingerprintKey]) > 0 && !isKey(call.Metadata.Get(tandem.FingerprintKey)):
		return "Fingerprint: want 1 to 255 bytes of printable ASCII, without spaces"
	}
	return ""
}

func refuseKey(_ context.Context, call *tandem.Call) error {
	return notSent(tandem.InvalidArgument, "%s", wrongKey(call))
}
