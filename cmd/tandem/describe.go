package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

// describeTimeout bounds how long servers are asked for their methods by default.
const describeTimeout = 5 * time.Second

func newDescribe(sh *shell) *cobra.Command {
	var access accessFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "describe [flags] TARGET [SERVICE[.METHOD]]",
		Short: "list the methods of a target, with what they take and return",
		Long: "It asks one instance for /openapi.json (web.WithPages), by gRPC reflection (web.RegisterReflection),\n" +
			"and its admin API (package admin), which describes streams of Go types, too. That API's own methods\n" +
			"are shown when it is named: tandem.Admin.",
		Example: "tandem describe tcp://127.0.0.1:8972 Arith.Mul",
		Args:    wantArgs(1, 2),
	}
	p := outputFlag(sh, cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", describeTimeout, "how long to wait for a description, from all instances together")
	access.add(cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets, access.serviceNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := access.place(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		methods, err := at.methods(cmd.Context(), timeout)
		if err != nil {
			return interrupted(cmd.Context(), err)
		}
		if len(args) == 1 {
			methods = slices.DeleteFunc(methods, func(m introspect.Method) bool { return m.Service() == admin.Service })
			return p.Print(methodList(at.target, methods))
		}
		methods, err = narrow(methods, args[1])
		if err != nil {
			return err
		}
		if len(methods) == 1 && methods[0].Name == args[1] {
			return p.Print(oneMethod(at.target, &methods[0]))
		}
		return p.Print(methodList(at.target, methods))
	}
	return cmd
}

// methods returns the methods of a place, which the first instance describes that answers.
func (p *place) methods(ctx context.Context, timeout time.Duration) ([]introspect.Method, error) {
	list, err := p.instances(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = fmt.Errorf("%s lists no instance with an endpoint over TCP or a unix socket", registry.Redact(p.target))
	for _, in := range list {
		for _, e := range in.Endpoints {
			if e.Transport != "tcp" && e.Transport != "unix" {
				continue
			}
			methods, failed := introspect.Methods(ctx, e, introspect.Access{TLS: p.tls, Token: p.token})
			if failed == nil {
				return methods, nil
			}
			if err = failed; ctx.Err() != nil {
				return nil, err
			}
		}
	}
	return nil, err
}

// narrow returns the methods of a service, or the method of that name.
func narrow(methods []introspect.Method, name string) ([]introspect.Method, error) {
	var names []string
	var chosen []introspect.Method
	for _, m := range methods {
		names = append(names, m.Name, m.Service())
		if m.Name == name || m.Service() == name {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	hint := "tandem describe TARGET lists them"
	if meant := similar(name, names); meant != "" {
		hint = fmt.Sprintf("did you mean %s?", meant)
	}
	return nil, fmt.Errorf("no service or method %q is described; %s", name, hint)
}

// methodsOf is what tandem describe prints. Its fields are documented in docs/reference/cli.md.
type methodsOf struct {
	Target  string              `json:"target"`
	Methods []introspect.Method `json:"methods"`
}

func methodList(target string, methods []introspect.Method) *listing.List {
	list := &listing.List{
		Columns: []listing.Column{{Name: "METHOD"}, {Name: "KIND"}, {Name: "SAFE", Wide: true}, {Name: "REQUEST"}, {Name: "RESPONSE"}},
		Value:   methodsOf{registry.Redact(target), append([]introspect.Method{}, methods...)},
	}
	for i := range methods {
		m := &methods[i]
		safe := "no"
		if m.Safe {
			safe = "yes"
		}
		list.Rows = append(list.Rows, []string{m.Name, m.Kind, safe, m.Request.String(), m.Response.String()})
	}
	return list
}

// oneMethod returns a method with its types, a field a line.
func oneMethod(target string, m *introspect.Method) *listing.List {
	notes := []string{m.Name + ": " + m.Kind}
	if m.Safe {
		notes[0] += ", safe"
	}
	notes = append(notes, m.Request.Fields("request")...)
	notes = append(notes, m.Response.Fields("response")...)
	return &listing.List{Notes: notes, Value: methodsOf{registry.Redact(target), slices.Clone([]introspect.Method{*m})}}
}
