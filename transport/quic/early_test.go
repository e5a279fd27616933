//go:build !race

package quic_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/transport/quic"
)

// Without the race detector: quic-go opens streams for early data while the end of the
// handshake writes what that reads (https://github.com/quic-go/quic-go/issues/4303).
func TestBehaviourWithEarlyData(t *testing.T) { behaves(t, quic.WithEarlyData()) }
