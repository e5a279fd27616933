package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

func newRegistryGet(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [flags] TARGET [NAME]",
		Short: "print an instance or a document",
		Long: "NAME is the ID of an instance, the key of a document, or \"overrides\" for those of the list. Without\n" +
			"it, the document at the target's path is printed. A document is printed as it is, an instance as\n" +
			"YAML; with -o json or yaml there are version, size and reports, too.",
		Example: "tandem registry get etcd://h1:2379/shop/Cart overrides",
		Args:    wantArgs(1, 2),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, false, contextTargets, heldNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := strings.Join(args[1:], "")
		return inHoldings(cmd.Context(), args[0], func(ctx context.Context, h *holdings) error {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			return h.get(ctx, p, name)
		})
	}
	return cmd
}

// heldNames completes the names of what can be printed.
func heldNames(ctx context.Context, before []string) completions {
	return append(completions{cobra.CompletionWithDesc(kindOverrides, "the overrides of the list")}, instanceIDs(ctx, before)...)
}

// get prints the instance or the document of a name; "" is the document at the target's path.
func (h *holdings) get(ctx context.Context, p *listing.Printer, name string) error {
	var list []tandem.Instance
	var err error
	if name != "" && name != kindOverrides {
		if list, err = h.list(ctx); err != nil {
			return err
		}
	}
	if at := slices.IndexFunc(list, func(in tandem.Instance) bool { return in.ID == name }); at >= 0 {
		return h.printInstance(ctx, p, list, at)
	}
	if h.documents == nil {
		return fmt.Errorf("no instance %q is listed, and this registry keeps no documents; tandem registry ls lists what there is", name)
	}
	key := name
	switch name {
	case "":
		key = h.target.Path
	case kindOverrides:
		key = h.overrides
	}
	d, err := h.read(ctx, key)
	if err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("there is no instance or document %q; tandem registry ls lists them", key)
	}
	return printDocument(p, h.place.target, d)
}

// oneInstance is what tandem registry get prints of an instance.
type oneInstance struct {
	Target   string       `json:"target"`
	Instance heldInstance `json:"instance"`
}

func (h *holdings) printInstance(ctx context.Context, p *listing.Printer, list []tandem.Instance, at int) error {
	documents, err := h.all(ctx, nil)
	if err != nil {
		return err
	}
	if p.Format != listing.JSON {
		p.Format = listing.YAML
	}
	held := heldInstances(list, overridesIn(documents), time.Now())
	return p.Print(&listing.List{Value: oneInstance{registry.Redact(h.place.target), held[at]}})
}

// oneDocument is what tandem registry get prints of a document. Its fields are documented in
// docs/reference/cli.md.
type oneDocument struct {
	Target string `json:"target"`
	heldDocument

	Reports []policy.Applied `json:"reports"`
	Content json.RawMessage  `json:"content,omitempty"` // of a document in JSON
	Text    string           `json:"text,omitempty"`    // of others
}

func printDocument(p *listing.Printer, target string, d *heldDocument) error {
	if p.Format != listing.JSON && p.Format != listing.YAML {
		_, err := io.WriteString(p.Out, strings.TrimSuffix(listing.Printable(d.text), "\n")+"\n")
		return err
	}
	one := oneDocument{Target: registry.Redact(target), heldDocument: *d, Reports: append([]policy.Applied{}, d.Reports...)}
	if json.Valid([]byte(d.text)) {
		one.Content = json.RawMessage(d.text)
	} else {
		one.Text = d.text
	}
	return p.Print(&listing.List{Value: one})
}
