package main

import (
	"context"
	"errors"
	"net"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/log"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/server"
)

func serveRPCX(h handler) backend {
	log.SetDummyLogger()
	srv := server.NewServer()
	srv.DisableHTTPGateway, srv.DisableJSONRPC = true, true
	srv.AddHandler("Lab", "Echo", func(ctx *server.Context) error {
		answer, err := h.serve(context.Background(), ctx.Payload()) // rpcx gives its handlers no deadline
		if err != nil {
			return err
		}
		return ctx.Write(answer)
	})
	srv.AddHandler("Lab", "Quick", func(ctx *server.Context) error {
		answer, err := h.quick(ctx.Payload())
		if err != nil {
			return err
		}
		return ctx.Write(answer)
	})
	return backend{
		serve: func(ln net.Listener) error { return srv.ServeListener("tcp", ln) },
		stop:  srv.Shutdown,
	}
}

type rpcxCaller struct {
	client.XClient
	plan plan
}

// dialRPCX returns a client with Failover and RoundRobin, as in rpcx's documentation.
func dialRPCX(p plan) (caller, error) {
	log.SetDummyLogger()
	var pairs []*client.KVPair
	for _, a := range p.Addrs {
		pairs = append(pairs, &client.KVPair{Key: "tcp@" + a})
	}
	list, err := client.NewMultipleServersDiscovery(pairs)
	if err != nil {
		return nil, err
	}
	option := client.DefaultOption
	option.SerializeType = protocol.SerializeNone
	return rpcxCaller{client.NewXClient("Lab", client.Failover, client.RoundRobin, list, option), p}, nil
}

func (c rpcxCaller) call(ctx context.Context, variant string, request []byte) ([]byte, error) {
	if variant == variantFresh {
		return callFresh(ctx, c.plan, request)
	}
	method := "Echo"
	if variant == variantQuick {
		method = "Quick"
	}
	var answer []byte
	err := c.Call(ctx, method, request, &answer)
	return answer, err
}

func (rpcxCaller) verdict(err error) (string, bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded", false
	case errors.Is(err, client.ErrXClientNoServer):
		return "no server", false
	}
	return "error", false
}

func (c rpcxCaller) close() { _ = c.Close() } // the process ends
