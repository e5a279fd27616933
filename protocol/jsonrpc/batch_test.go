package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever has no answer takes no room and gets no error, also when there is none
// left.
func TestBatchWithoutRoom(t *testing.T) {
	sent := ""
	b := &batch{left: 4, limit: 10, done: func(answer []byte) { sent += string(answer) }}
	asked := &request{Version: version2, ID: json.RawMessage("7")}
	told := &request{Version: version2, notification: true}
	b.answered(asked, []byte(`"small"`))
	b.answered(asked, []byte(`"large"`))
	b.answered(told, nil)
	if sent != "" {
		t.Errorf("sent before the last: %s", sent)
	}
	b.answered(told, nil)
	if !json.Valid([]byte(sent)) || !strings.HasPrefix(sent, `["small",{`) || strings.Count(sent, `"id":`) != 1 || !strings.Contains(sent, `"id":7`) {
		t.Error(sent)
	}
}
