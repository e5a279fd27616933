package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// A request without a response uses none of the batch's limit and gets no error, also when
// the limit is used up.
func TestBatchWithoutRoom(t *testing.T) {
	sent := ""
	b := newBatch(4, 10, func(answer []byte) { sent += string(answer) })
	asked := &request{Version: version2, ID: json.RawMessage("7")}
	told := &request{Version: version2, notification: true}
	b.answered(1, asked, []byte(`"small"`))
	b.answered(3, asked, []byte(`"large"`))
	b.answered(0, told, nil)
	if sent != "" {
		t.Errorf("sent before the last: %s", sent)
	}
	b.answered(2, told, nil)
	if !json.Valid([]byte(sent)) || !strings.HasPrefix(sent, `["small",{`) || strings.Count(sent, `"id":`) != 1 || !strings.Contains(sent, `"id":7`) {
		t.Error(sent)
	}
}

// The count of requests does not depend on how the bytes are split.
func TestBatchIsCountedBytewise(t *testing.T) {
	for n, refused := range map[int]bool{maxBatch: false, maxBatch + 1: true} {
		message := "[" + strings.Repeat("{},", n-1) + "{}]"
		got := readAll(t, iotest.OneByteReader(bytes.NewReader([]byte(message))), len(message))
		if len(got) != 1 || (got[0] == nil) != refused {
			t.Errorf("%d requests: %.50q", n, got)
		}
	}
}

// Commas that do not separate requests are not counted.
func TestBatchCountsRequests(t *testing.T) {
	if _, err := whole([]byte(`[{"a":[` + strings.Repeat("1,", 2*maxBatch) + `1]},",,"]`)); err != nil {
		t.Error(err)
	}
	if _, err := whole([]byte("[" + strings.Repeat("{},", maxBatch) + "{}]")); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
}
