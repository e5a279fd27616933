//go:build integration

package websocket_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/transport/websocket"
)

// A script calls a method with the WebSocket that browsers have.
func TestScript(t *testing.T) {
	node := os.Getenv("NODE")
	if node == "" {
		t.Fatal("$NODE, a Node.js of version 20.10 or later, is not set: run testdata/script.sh")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--experimental-websocket", "--no-warnings", "testdata/call.mjs", "ws://"+serve(t, websocket.WithPath("rpc")))
	out, err := cmd.CombinedOutput()
	if err != nil || string(bytes.TrimSpace(out)) != `"from a script"` {
		t.Errorf("%v: %s", err, out)
	}
}
