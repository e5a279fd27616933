package client

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tandem-rpc/tandem/transport"
)

// secure puts TLS on all transports, if the options want it. scheme is the target's.
func (o *options) secure(scheme string) error {
	if !o.secured {
		return nil
	}
	if err := transport.CheckClientTLS(o.tls); err != nil {
		return fmt.Errorf("WithTLS: %w", err)
	}
	if scheme == "unix" && (o.tls == nil || o.tls.ServerName == "" && !o.tls.InsecureSkipVerify) {
		return errors.New("WithTLS: the target is a unix socket, whose address has no host to verify: set ServerName in the configuration")
	}
	transports := maps.Clone(o.transports)
	for name, t := range transports {
		secured, err := transport.Secured(t, o.tls)
		if err != nil {
			return fmt.Errorf("WithTLS on transport %q: %w", name, err)
		}
		transports[name] = secured
	}
	o.transports = transports
	return nil
}
