package rest_test

import (
	"encoding/json"
	"testing"

	"github.com/tandem-rpc/tandem/protocol/web"
)

// The OpenAPI document has paths with the custom verbs of google.api.http, such as :merge, and requests
// by verbs that OpenAPI does not know, such as PURGE, in a field of their own.
func TestCustomVerbsInOpenAPI(t *testing.T) {
	h1, _ := newLibrary(t, web.WithPages())
	status, text := ask(t, h1, "GET /openapi.json", "")
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	for path, verb := range map[string]string{
		"/v1/shelves/{name}:merge": "post", "/v1/shelves/{name}:last": "get", "/v1/shelves/{name}:follow": "get", "/v1/files/{name}:raw": "get",
		"/v1/files/{name}": "x-tandem-operations",
	} {
		if doc.Paths[path][verb] == nil {
			t.Errorf("%s has no %s", path, verb)
		}
	}
	var more map[string]struct {
		OperationID string           `json:"operationId"`
		Parameters  []map[string]any `json:"parameters"`
	}
	if err := json.Unmarshal(doc.Paths["/v1/files/{name}"]["x-tandem-operations"], &more); err != nil {
		t.Fatal(err)
	}
	if purge := more["PURGE"]; len(more) != 1 || purge.OperationID != "test.library.v1.Library.Files.PURGE.3" || len(purge.Parameters) == 0 || purge.Parameters[0]["name"] != "name" {
		t.Errorf("%+v", more)
	}
	if doc.Paths["/v1/any/{segment_1}"] != nil {
		t.Error("a path of all verbs is described")
	}
}
