package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry"
)

// instanceTimeout bounds one look at the registry, or one change.
const instanceTimeout = 15 * time.Second

func newInstance(sh *shell) *cobra.Command {
	return group("instance COMMAND", "list the instances of a service, and say which get calls and how many",
		newInstanceLs(sh),
		newInstanceState(sh, "disable", "give instances no new calls", override.Disabled),
		newInstanceState(sh, "drain", "the same, for instances that are about to be stopped", override.Draining),
		newInstanceState(sh, "enable", "give instances calls again", override.Enabled),
		newInstanceWeight(sh), newInstanceTag(sh), newInstanceClear(sh), newInstanceHistory(sh), newInstanceRestore(sh))
}

// chosenForm says how the commands name the instances that they change.
const chosenForm = `INSTANCE is an ID, or labels such as zone=b,version=2 that instances have.`

// instanceChange changes what is set for instances.
type instanceChange func(ctx context.Context, e *override.Editor, args []string) error

// inList runs f with the list of instances that a target, or a context, names.
func inList(ctx context.Context, arg string, f func(ctx context.Context, target string, e *override.Editor) error) error {
	target, err := targetOf(arg)
	if err != nil {
		return err
	}
	e, closeIt, err := openInstances(target)
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	within, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	return interrupted(ctx, f(within, target, e))
}

// changer returns the function that runs a command which changes the list that its first argument
// names, and then prints the list.
func changer(p *listing.Printer, change instanceChange) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return inList(cmd.Context(), args[0], func(ctx context.Context, target string, e *override.Editor) error {
			if err := change(ctx, e, args[1:]); err != nil {
				return err
			}
			if err := showInstances(ctx, p, target, e); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "tandem: the change is made, but the list can't be shown:", listing.Printable(err.Error()))
			}
			return nil
		})
	}
}

// changeFlags are the flags of all changes to instances.
type changeFlags struct {
	by, why string
	force   bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.by, "by", whoAmI(), "who makes the change")
	cmd.Flags().StringVar(&f.why, "why", "", "why")
	cmd.Flags().BoolVar(&f.force, "force", false, "also if no instance is left that gets calls, and for instances that are not listed")
}

func (f *changeFlags) request() override.Request {
	return override.Request{By: f.by, Why: f.why, AllowEmpty: f.force}
}

// lastFlag adds the flag that says how long a change lasts, and returns a function that
// returns when it ends, the zero time for never.
func lastFlag(cmd *cobra.Command) (until func() time.Time) {
	lasts := cmd.Flags().Duration("for", 0, "how long it lasts; 0 for until it is changed")
	return func() time.Time {
		if *lasts == 0 {
			return time.Time{}
		}
		return time.Now().Add(*lasts + time.Second).UTC().Truncate(time.Second)
	}
}

// choose returns overrides for the instances, by ID, and labels, such as zone=b,version=2, that
// the arguments name. An ID that is not listed is an error, unless unlisted is set.
func choose(ctx context.Context, e *override.Editor, args []string, unlisted bool) ([]override.Override, error) {
	list, err := e.Instances(ctx)
	if err != nil {
		return nil, err
	}
	var chosen []override.Override
	for _, arg := range args {
		listed := slices.ContainsFunc(list, func(in tandem.Instance) bool { return in.ID == arg })
		if labels := parseLabels(arg); labels != nil && !listed {
			o := override.Override{Labels: labels}
			if !unlisted && !slices.ContainsFunc(list, func(in tandem.Instance) bool { return o.Matches(&in) }) {
				return nil, fmt.Errorf("no listed instance has %s; tandem instance ls -o wide shows labels; --force sets it all the same", arg)
			}
			chosen = append(chosen, o)
			continue
		}
		if !listed && !unlisted {
			return nil, fmt.Errorf("no instance %q is listed; tandem instance ls lists them; --force sets it all the same", arg)
		}
		chosen = append(chosen, override.Override{Instance: arg})
	}
	return chosen, nil
}

// parseLabels returns the labels of name=value,name=value; nil if it is no such text.
func parseLabels(arg string) map[string]string {
	labels := make(map[string]string)
	for pair := range strings.SplitSeq(arg, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil
		}
		labels[name] = value
	}
	return labels
}

// whoAmI returns the user's name and the host's.
func whoAmI() string {
	name := "someone"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// openInstances returns the editor of a target's list, and the function that closes the registry.
func openInstances(target string) (*override.Editor, func() error, error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	kind, known := registryKinds()[t.Scheme]
	if !known {
		return nil, nil, usagef("%q: want a list in a registry: %s", target, strings.Join(registryExamples(), ", "))
	}
	r, err := kind.resolverOf(t)
	if err != nil {
		return nil, nil, err
	}
	e, err := override.NewEditor(r, t)
	if err != nil {
		return nil, nil, err
	}
	closeIt := func() error { return nil }
	if c, ok := r.(interface{ Close() error }); ok {
		closeIt = c.Close
	}
	return e, closeIt, nil
}
