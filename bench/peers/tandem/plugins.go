package main

import (
	"io"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/server"
)

// plugins returns what the options metrics, trace and accesslog ask for, as it comes
// out of the box: metrics and trace, one trace in a hundred sampled, for both sides, and
// on the server a log of every call. Its lines are formatted and gathered as always, and
// then thrown away: what a disk takes is not tandem's.
func (o options) plugins(serving bool) (list []any) {
	if o.Has("metrics") {
		list = append(list, metrics.New())
	}
	if o.Has("trace") {
		list = append(list, trace.New(trace.Sample(0.01)))
	}
	if o.Has("accesslog") && serving {
		list = append(list, accesslog.New(accesslog.To(io.Discard)))
	}
	return list
}

// withPlugins are the options of a server and of a client that have plugins.
func (o options) withPlugins(opts []server.Option) []server.Option {
	if list := o.plugins(true); len(list) > 0 {
		opts = append(opts, server.WithPlugins(list...))
	}
	return opts
}

func (o options) callWithPlugins(opts []client.Option) []client.Option {
	if list := o.plugins(false); len(list) > 0 {
		opts = append(opts, client.WithPlugins(list...))
	}
	return opts
}
