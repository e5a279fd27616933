// Package kubernetes (experimental) finds the pods of a Service by the EndpointSlices that
// Kubernetes keeps for it. It is a client of the API server's HTTP API, without client-go.
//
//	c, err := client.Dial("kubernetes://shop/price:tandem",
//		client.WithResolver("kubernetes", kubernetes.Resolver()))
//
// # Targets
//
// kubernetes://namespace/service:port. The port is a name of a port of the Service, or a number:
// that on which the pods listen (targetPort), because EndpointSlices don't have the Service's
// own. The Service may be headless or not. Options:
//
//	transport=tcp   the transport of the endpoints; tcp unless given
//	protocol=grpc   the protocol of the endpoints; tandem's own unless given
//	family=ipv6     list addresses of this family only, ipv4 or ipv6; unless given, an instance
//	                with both is listed with its IPv4 address
//
// # Instances
//
// A pod is an instance; its name is the ID, and the tag "node" names its node. An endpoint that is
// no pod has the ID transport://address. An endpoint is listed while it is ready. One that is
// terminating is not, even if it still serves, unless no endpoint of the Service is ready: calls
// in flight go on, and new calls go to others while there are any.
//
// The zone of an instance is that of its endpoint. If every listed endpoint has hints
// (topology aware routing, trafficDistribution), it is the zone that the hint names, so a client
// with a zone follows the hints.
//
// EndpointSlices have no weights and no labels of pods. For a canary, use two Services.
//
// # Registration
//
// Kubernetes lists pods by itself, so there is no [registry.Registrar]: what a server has to do is
// answer the readiness probe.
//
// # Access
//
// In a pod, the resolver uses the pod's service account: the environment variables
// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT and the files below
// /var/run/secrets/kubernetes.io/serviceaccount. Elsewhere, see [WithKubeconfig]. Files are read
// again before every request, so tokens and certificates may change. The account needs the verbs
// list and watch for endpointslices in the API group discovery.k8s.io.
//
// # Watching
//
// The list is read whole at the start, and again every 15 to 30 minutes; a watch reports what
// changes between. It survives restarts of the API server without reading the list again, unless
// the API server has forgotten the changes since (410 Gone). A client that is refused with 429
// waits as long as Retry-After says.
package kubernetes

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// name is the registry's name in errors and the log.
const name = "kubernetes registry"

// relist is the longest time between two reads of a whole list.
const relist = 30 * time.Minute

// Option changes a [Resolver].
type Option func(*options)

type options struct {
	kubeconfig     string // "" for the service account of the pod
	serviceAccount string // directory
	log            *slog.Logger
}

// WithKubeconfig takes the API server and the credentials from the current context of a kubeconfig
// file instead of the pod's service account. It refuses what it does not implement: exec and
// auth-provider, user and password, impersonation, insecure-skip-tls-verify and proxy-url, and
// credentials for a server without TLS.
func WithKubeconfig(path string) Option { return func(o *options) { o.kubeconfig = path } }

// WithLogger sets the log for invalid endpoints. By default, they are not logged.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// Resolver returns a resolver for kubernetes:// targets, for
// [github.com/tandem-rpc/tandem/client.WithResolver]. It is also a [registry.Directory]: below
// kubernetes://namespace are the ports of the Services that have endpoints. Its watches share
// connections.
func Resolver(opts ...Option) registry.Resolver {
	o := options{serviceAccount: serviceAccount}
	for _, opt := range opts {
		opt(&o)
	}
	o.log = cmp.Or(o.log, slog.New(slog.DiscardHandler))
	r := &resolver{options: o}
	r.shared.Open = func(string) (*apiServer, error) { return &apiServer{load: r.access}, nil }
	r.shared.Close = (*apiServer).close
	return r
}

type resolver struct {
	options
	shared adapter.Shared[*apiServer]
}

var (
	_ registry.Checker   = (*resolver)(nil)
	_ registry.Directory = (*resolver)(nil)
)

// Check fails for a target that can never work, and when the pod's service account or the
// kubeconfig can't be used.
func (r *resolver) Check(target registry.Target) error {
	if _, err := parse(target); err != nil {
		return err
	}
	_, err := r.access()
	return err
}

// Watch delivers the list of the target; see [registry.Resolver].
func (r *resolver) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	at, err := parse(target)
	if err != nil {
		return err
	}
	if _, err := r.access(); err != nil {
		return err
	}
	s, release, err := r.shared.Acquire("")
	if err != nil {
		return err
	}
	defer release()
	w := &watch{server: s, place: at}
	return adapter.Follower{Name: name, Session: w.session, Relist: relist, Log: r.log}.Follow(ctx, update)
}
