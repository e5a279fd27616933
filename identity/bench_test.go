package identity_test

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
)

// BenchmarkKnownToken is what a call costs whose token was seen before.
func BenchmarkKnownToken(b *testing.B) {
	key := newKey(b)
	v := verifier(b, &key.PublicKey, nil)
	call := &tandem.Call{Metadata: tandem.Metadata{"authorization": {"Bearer " + sign(b, jwt.SigningMethodES256, key, "", claims())}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Authenticate(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewToken is what the first call with a token costs.
func BenchmarkNewToken(b *testing.B) {
	key := newKey(b)
	v := verifier(b, &key.PublicKey, nil)
	for b.Loop() {
		b.StopTimer()
		token := sign(b, jwt.SigningMethodES256, key, "", claims())
		b.StartTimer()
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
