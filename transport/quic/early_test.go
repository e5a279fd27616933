//go:build !race

package quic_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/transport/quic"
)

// Not under the race detector: in quic-go opening a stream early races with the end of the
// handshake (https://github.com/quic-go/quic-go/issues/4303).
func TestBehaviourWithEarlyData(t *testing.T) { behaves(t, quic.WithEarlyData()) }
