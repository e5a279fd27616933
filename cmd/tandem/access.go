package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/contexts"
)

// accessFlags say how servers are reached. They count more than those of a context.
type accessFlags struct {
	on           bool
	tls          contexts.TLS
	tokenFile    string
	tokenCommand string
}

func (f *accessFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.BoolVar(&f.on, "tls", false, "use TLS, and trust the system's authorities")
	set.StringVar(&f.tls.CA, "tls-ca", "", "use TLS, and trust the authorities in this `file`")
	set.StringVar(&f.tls.Cert, "tls-cert", "", "`file` with the client's certificate")
	set.StringVar(&f.tls.Key, "tls-key", "", "`file` with its key")
	set.StringVar(&f.tls.Name, "tls-name", "", "`name` in the server's certificate, if it is not the host")
	set.StringVar(&f.tokenFile, "token-file", "", "`file` with a bearer token")
	set.StringVar(&f.tokenCommand, "token-command", "", "`command` that prints a bearer token")
}

// over returns a context with the flags that were given.
func (f *accessFlags) over(c contexts.Context) contexts.Context {
	if f.on || f.tls != (contexts.TLS{}) {
		t := contexts.TLS{}
		if c.TLS != nil {
			t = *c.TLS
		}
		for _, file := range []struct{ from, to *string }{{&f.tls.CA, &t.CA}, {&f.tls.Cert, &t.Cert}, {&f.tls.Key, &t.Key}, {&f.tls.Name, &t.Name}} {
			if *file.from != "" {
				*file.to = *file.from
			}
		}
		c.TLS = &t
	}
	if f.tokenFile != "" || f.tokenCommand != "" {
		c.TokenFile, c.TokenCommand = f.tokenFile, strings.Fields(f.tokenCommand)
	}
	return c
}

// place returns what a target, or @NAME for a context, stands for.
func (f *accessFlags) place(ctx context.Context, arg string) (*place, error) {
	if f.tokenFile != "" && f.tokenCommand != "" {
		return nil, usagef("--token-file and --token-command contradict each other")
	}
	c, err := contextOf(arg)
	if err != nil {
		return nil, err
	}
	return placeOf(ctx, f.over(c))
}

// placeOf returns what a context stands for.
func placeOf(ctx context.Context, c contexts.Context) (p *place, err error) {
	p = &place{target: c.Target}
	if p.tls, err = c.TLS.Config(); err != nil {
		return nil, usagef("TLS: %v", err)
	}
	p.token, err = c.Token(ctx)
	return p, err
}

// contextOf returns the context that an argument @NAME refers to, and one with the argument as its
// target if it is none.
func contextOf(arg string) (contexts.Context, error) {
	if !strings.HasPrefix(arg, "@") {
		return contexts.Context{Target: arg}, nil
	}
	_, file, err := loadContexts()
	if err != nil {
		return contexts.Context{}, err
	}
	c, err := file.Find(arg)
	if err != nil {
		return c, usagef("%v", err)
	}
	return c, nil
}

// targetOf returns the target that an argument stands for.
func targetOf(arg string) (string, error) {
	c, err := contextOf(arg)
	return c.Target, err
}

// loadContexts returns the user's contexts and the path of their file.
func loadContexts() (path string, f *contexts.File, err error) {
	if path, err = contexts.Path(); err == nil {
		f, err = contexts.Load(path)
	}
	return path, f, err
}

// absolute makes the paths of a context absolute, as it is used from other directories.
func absolute(c *contexts.Context) error {
	return absolutePaths(c.TLS, &c.TokenFile)
}

// absolutePaths makes paths absolute, and those of files of TLS.
func absolutePaths(t *contexts.TLS, paths ...*string) error {
	if t != nil {
		paths = append(paths, &t.CA, &t.Cert, &t.Key)
	}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		full, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = full
	}
	return nil
}
