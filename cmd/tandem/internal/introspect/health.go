package introspect

import (
	"context"
	"strings"

	health "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// Health is what a server says of its health.
type Health string

// The healths.
const (
	NoHealth   Health = ""            // the server has no health service
	Serving    Health = "SERVING"     // it takes calls
	NotServing Health = "NOT_SERVING" // it asks for none
)

const healthCheck = "grpc.health.v1.Health.Check"

// HealthOf asks a server for its health as a whole, by gRPC's health service, over the protocol of
// the endpoint.
func HealthOf(ctx context.Context, at tandem.Endpoint, access Access) (Health, error) {
	if strings.HasPrefix(at.Protocol, "netrpc") {
		return NoHealth, nil // its messages need Go types that both sides share
	}
	protocols, binary := all.Clients(), at.Protocol == "grpc"
	if binary {
		protocols = []client.Protocol{web.GRPC()} // its codec is the default then
	}
	opts := []client.Option{
		client.WithProtocols(protocols...),
		client.WithResolver("only", only{ID: at.String(), Endpoints: []tandem.Endpoint{at}}),
	}
	if access.TLS != nil {
		config := access.TLS.Clone()
		if at.Protocol == "grpc" || at.Protocol == "connect" {
			config.NextProtos = []string{"h2"}
		}
		opts = append(opts, client.WithTLS(config))
	}
	if access.Token != "" {
		opts = append(opts, client.WithPlugins(auth.Token("Bearer", access.Token)))
	}
	if !binary {
		opts = append(opts, client.WithCodec(codec.JSON()))
	}
	c, err := client.Dial("only://server", opts...)
	if err != nil {
		return NoHealth, err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	status, err := askHealth(ctx, c, binary)
	switch tandem.CodeOf(err) {
	case tandem.Unimplemented, tandem.NotFound:
		return NoHealth, nil
	}
	return Health(status), err
}

func askHealth(ctx context.Context, c *client.Client, binary bool) (string, error) {
	if binary {
		var reply health.HealthCheckResponse
		err := c.Call(ctx, healthCheck, &health.HealthCheckRequest{}, &reply)
		return reply.GetStatus().String(), err
	}
	var reply struct {
		Status string `json:"status"`
	}
	err := c.Call(ctx, healthCheck, struct{}{}, &reply)
	return reply.Status, err
}
