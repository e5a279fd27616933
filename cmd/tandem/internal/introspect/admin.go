package introspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/plugin/auth"
)

// adminTimeout bounds how long a server is asked that may not know tandem's own protocol.
const adminTimeout = 2 * time.Second

// Admin returns the methods that a server's admin API describes, over tandem's own protocol.
func Admin(ctx context.Context, at tandem.Endpoint, access Access) ([]Method, error) {
	if at.Protocol != "" && at.Protocol != "tandem" {
		return nil, errors.New("the endpoint is of another protocol than tandem's own")
	}
	at.Protocol = ""
	opts := []client.Option{
		client.WithResolver("only", only{ID: at.String(), Endpoints: []tandem.Endpoint{at}}),
		client.WithCodec(codec.JSON()), client.WithFailMode(client.Failfast), client.WithTimeout(adminTimeout),
	}
	if access.TLS != nil {
		opts = append(opts, client.WithTLS(access.TLS))
	}
	if access.Token != "" {
		opts = append(opts, client.WithPlugins(auth.Token("Bearer", access.Token)))
	}
	c, err := client.Dial("only://server", opts...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	s, err := client.Invoke[admin.Schema](ctx, c, admin.Service+".Schema", admin.SchemaRequest{})
	if err != nil {
		return nil, err
	}
	return fromAdmin(s)
}

func fromAdmin(s *admin.Schema) ([]Method, error) {
	definitions := map[string]any{}
	if err := decodeExactly(s.Definitions, &definitions); err != nil {
		return nil, err
	}
	var methods []Method
	for i := range s.Methods {
		of := &s.Methods[i]
		m := Method{Name: of.Method, Kind: of.Kind, Safe: of.Safe}
		for _, side := range []struct {
			text json.RawMessage
			to   *Schema
		}{{of.Request, &m.Request}, {of.Response, &m.Response}} {
			var schema any
			if err := decodeExactly(side.text, &schema); err != nil {
				return nil, err
			}
			in := &inliner{definitions: definitions}
			*side.to, _ = in.inline(schema, nil).(map[string]any)
		}
		methods = append(methods, m)
	}
	return methods, nil
}

// decodeExactly decodes JSON; limits of 64-bit integers are no exact floats.
func decodeExactly(text []byte, v any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	return in.Decode(v)
}
