package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// secure puts TLS on all transports, if the options want it. scheme is the target's.
func (o *options) secure(scheme string) error {
	if !o.secured {
		return nil
	}
	config, option := o.tls, "WithTLS"
	if o.tlsFrom != nil {
		var err error
		option = "WithTLSFrom"
		if config, err = o.tlsFrom(); err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
	}
	if err := transport.CheckClientTLS(config); err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	if scheme == "unix" && (config == nil || config.ServerName == "" && !config.InsecureSkipVerify) {
		return errors.New(option + ": the target is a unix socket, whose address has no host to verify: set ServerName in the configuration")
	}
	transports := maps.Clone(o.transports)
	for name, t := range transports {
		secured, err := transport.Secured(t, config)
		if err != nil {
			return fmt.Errorf("%s on transport %q: %w", option, name, err)
		}
		if o.tlsFrom != nil {
			secured = &renewing{t, o.tlsFrom}
		}
		transports[name] = secured
	}
	o.transports = transports
	return nil
}

// renewing puts TLS on a transport with another configuration for each connection.
type renewing struct {
	inner  tandem.Transport
	source func() (*tls.Config, error)
}

// Dial opens a connection with the configuration of this moment.
func (r *renewing) Dial(ctx context.Context, address string) (net.Conn, error) {
	t, err := r.secured()
	if err != nil {
		return nil, err
	}
	return t.Dial(ctx, address)
}

// Listen is for servers, which have no such option.
func (r *renewing) Listen(ctx context.Context, address string) (net.Listener, error) {
	t, err := r.secured()
	if err != nil {
		return nil, err
	}
	return t.Listen(ctx, address)
}

func (r *renewing) secured() (tandem.Transport, error) {
	config, err := r.source()
	if err != nil {
		return nil, fmt.Errorf("client: WithTLSFrom: %w", err)
	}
	return transport.Secured(r.inner, config)
}
