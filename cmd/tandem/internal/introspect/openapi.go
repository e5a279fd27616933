package introspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// maxDocument is the largest document that is read, in bytes.
const maxDocument = 16 << 20

// document is the part of an OpenAPI document that methods are made of.
type document struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]struct {
		Post *operation `json:"post"`
		Get  *operation `json:"get"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID      string             `json:"operationId"`
	Kind    string             `json:"x-tandem-kind"` // "" for a unary method at its own path
	Request content            `json:"requestBody"`
	Answers map[string]content `json:"responses"`
}

type content struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

// OpenAPI returns the methods of a server's document /openapi.json.
func OpenAPI(ctx context.Context, at tandem.Endpoint, access Access) ([]Method, error) {
	text, err := get(ctx, at, access)
	if err != nil {
		return nil, err
	}
	var d document
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber() // limits of 64-bit integers are no exact floats
	if err := in.Decode(&d); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(d.OpenAPI, "3.") {
		return nil, fmt.Errorf("version %.20q of OpenAPI, want 3", d.OpenAPI)
	}
	var methods []Method
	for path, p := range d.Paths {
		if p.Post == nil || p.Post.Kind != "" {
			continue
		}
		m := Method{Name: p.Post.ID, Kind: Unary, Safe: p.Get != nil}
		if m.Name == "" {
			m.Name = nameOf(path)
		}
		m.Request, m.Response = d.schema(p.Post.Request), d.schema(p.Post.Answers["200"])
		methods = append(methods, m)
	}
	return methods, nil
}

// nameOf returns the name of the method at a path.
func nameOf(path string) string {
	path = strings.TrimPrefix(path, "/")
	if slash := strings.LastIndexByte(path, '/'); slash > 0 {
		return path[:slash] + "." + path[slash+1:]
	}
	return path
}

// schema returns the schema of a content in JSON.
func (d *document) schema(c content) Schema {
	in := &inliner{definitions: d.Components.Schemas}
	s, _ := in.inline(c.Content["application/json"].Schema, nil).(map[string]any)
	return s
}

// get returns the document of a server.
func get(ctx context.Context, at tandem.Endpoint, access Access) ([]byte, error) {
	tr := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return transport.Stream(at.Transport).Dial(ctx, at.Address)
		},
	}
	scheme, host := "http://", at.Address
	if at.Transport != "tcp" {
		host = "localhost"
	}
	if config := access.TLS; config != nil {
		scheme = "https://"
		tr.TLSClientConfig = config.Clone()
		tr.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+host+"/openapi.json", http.NoBody)
	if err != nil {
		return nil, err
	}
	if access.Token != "" {
		r.Header.Set("Authorization", "Bearer "+access.Token)
	}
	response, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("more than %d bytes", maxDocument)
	}
	return text, err
}
