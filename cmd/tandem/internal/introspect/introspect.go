// Package introspect finds out which methods a server has, and what they take and return: from its
// OpenAPI document, by gRPC's reflection, and from its admin API.
package introspect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Method is a method of a server.
type Method struct {
	Name     string `json:"name"`           // with its service: "Arith.Mul"
	Kind     string `json:"kind"`           // unary, client stream, server stream, bidirectional
	Safe     bool   `json:"safe,omitempty"` // a call changes nothing
	Request  Schema `json:"request,omitempty"`
	Response Schema `json:"response,omitempty"`
}

// The kinds of methods.
const (
	Unary         = "unary"
	ClientStream  = "client stream"
	ServerStream  = "server stream"
	Bidirectional = "bidirectional"
)

// Service returns the name without the method: "Arith".
func (m *Method) Service() string {
	if dot := strings.LastIndexByte(m.Name, '.'); dot > 0 {
		return m.Name[:dot]
	}
	return ""
}

// ErrSilent is the error of a server that does not describe its methods.
var ErrSilent = errors.New("the server does not describe its methods: it has neither /openapi.json (web.WithPages) nor gRPC reflection (web.RegisterReflection) nor the admin API (package admin)")

// Access says how a server is reached.
type Access struct {
	TLS   *tls.Config // nil for a server without TLS
	Token string      // bearer token; "" for none
}

// Methods returns the methods of a server, sorted by name.
func Methods(ctx context.Context, at tandem.Endpoint, access Access) ([]Method, error) {
	document, errDocument := OpenAPI(ctx, at, access)
	if dial, ok := errors.AsType[*net.OpError](errDocument); ok && dial.Op == "dial" {
		return nil, errDocument
	}
	reflected, errReflection := Reflection(ctx, at, access)
	described, errAdmin := Admin(ctx, at, access)
	if errDocument != nil && errReflection != nil && errAdmin != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("asking %s for its methods: %w", at, ctx.Err())
		}
		return nil, fmt.Errorf("%s: %w\n  openapi.json: %w\n  reflection: %w\n  admin API: %w", at, ErrSilent, errDocument, errReflection, errAdmin)
	}
	methods := document
	known := map[string]bool{}
	for _, m := range document {
		known[m.Name] = true
	}
	for _, m := range slices.Concat(reflected, described) {
		if !known[m.Name] {
			known[m.Name] = true
			methods = append(methods, m)
		}
	}
	slices.SortFunc(methods, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return methods, nil
}
