package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

const instanceArgs = "ls | disable | drain | enable | weight | clear | history | restore  [flags] TARGET [INSTANCE…]"

// instanceTimeout bounds one look at the registry, or one change.
const instanceTimeout = 15 * time.Second

// instanceFlags are the flags of tandem instance.
type instanceFlags struct {
	by, why  string
	lasts    time.Duration
	ramp     time.Duration
	allowAll bool
}

func runInstance(ctx context.Context, sh *shell, args []string) error {
	var f instanceFlags
	set := newFlags("instance")
	set.StringVar(&f.by, "by", whoAmI(), "who makes the change")
	set.StringVar(&f.why, "why", "", "why")
	set.DurationVar(&f.lasts, "for", 0, "how long it lasts; 0 for until it is changed")
	set.DurationVar(&f.ramp, "ramp", 0, "with weight: time in which the weight changes to the new one")
	set.BoolVar(&f.allowAll, "force", false, "also if no instance is left that gets calls, and for instances that are not listed")
	what := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	if err := parse(set, sh, args); err != nil {
		return err
	}
	change, known := instanceChanges()[what]
	if !known && what != "ls" && what != "history" {
		return usagef("instance %q: want %s", what, instanceArgs)
	}
	if set.NArg() == 0 {
		return usagef("instance %s: want the target of a list, such as etcd://host:2379/shop/Cart", what)
	}
	e, closeIt, err := openInstances(set.Arg(0))
	if err != nil {
		return err
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	ctx, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	rest := set.Args()[1:]
	switch {
	case what == "history":
		err = showHistory(ctx, sh, e)
	case what == "ls":
		err = showInstances(ctx, sh, e)
	default:
		err = change(ctx, e, &f, rest)
		if err == nil {
			err = showInstances(ctx, sh, e)
		}
	}
	return interrupted(ctx, err)
}

// instanceChange changes what is set for instances.
type instanceChange func(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) error

func instanceChanges() map[string]instanceChange {
	return map[string]instanceChange{
		"disable": setState(override.Disabled), "drain": setState(override.Draining), "enable": setState(override.Enabled),
		"weight": setWeight, "clear": clearInstances, "restore": restoreInstances,
	}
}

func (f *instanceFlags) request() override.Request {
	return override.Request{By: f.by, Why: f.why, AllowEmpty: f.allowAll}
}

// until returns when what is set ends, the zero time for never.
func (f *instanceFlags) until() time.Time {
	if f.lasts == 0 {
		return time.Time{}
	}
	return time.Now().Add(f.lasts).UTC().Truncate(time.Second)
}

func setState(s override.State) instanceChange {
	return func(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) error {
		chosen, err := choose(ctx, e, f, args)
		if err != nil {
			return err
		}
		for i := range chosen {
			chosen[i].State, chosen[i].Until = s, f.until()
		}
		_, err = e.Set(ctx, f.request(), chosen...)
		return err
	}
}

func setWeight(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) error {
	if len(args) < 2 {
		return usagef("instance weight: want a target, instances and a weight")
	}
	weight, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return usagef("weight %q: want a number from 1 to %d", args[len(args)-1], tandem.MaxWeight)
	}
	chosen, err := choose(ctx, e, f, args[:len(args)-1])
	if err != nil {
		return err
	}
	for i := range chosen {
		chosen[i].Weight, chosen[i].Ramp, chosen[i].Until = weight, policy.Duration(f.ramp), f.until()
	}
	_, err = e.Set(ctx, f.request(), chosen...)
	return err
}

func clearInstances(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) error {
	chosen, err := choose(ctx, e, &instanceFlags{allowAll: true}, args)
	if err != nil {
		return err
	}
	_, err = e.Clear(ctx, f.request(), chosen...)
	return err
}

func restoreInstances(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) error {
	if len(args) != 1 {
		return usagef("instance restore: want a target and a revision; tandem instance history lists them")
	}
	revision, err := strconv.Atoi(args[0])
	if err != nil {
		return usagef("revision %q: want a number", args[0])
	}
	_, err = e.Restore(ctx, f.request(), revision)
	return err
}

// choose returns overrides for the instances, by ID, and labels, such as zone=b,version=2, that
// the arguments name.
func choose(ctx context.Context, e *override.Editor, f *instanceFlags, args []string) ([]override.Override, error) {
	if len(args) == 0 {
		return nil, usagef("want IDs of instances, or labels such as zone=b,version=2")
	}
	list, err := e.Instances(ctx)
	if err != nil {
		return nil, err
	}
	var chosen []override.Override
	for _, arg := range args {
		listed := slices.ContainsFunc(list, func(in tandem.Instance) bool { return in.ID == arg })
		if labels := parseLabels(arg); labels != nil && !listed {
			chosen = append(chosen, override.Override{Labels: labels})
			continue
		}
		if !listed && !f.allowAll {
			return nil, fmt.Errorf("no instance %q is listed; tandem instance ls lists them; -force sets it all the same", arg)
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
	e, err := override.NewEditor(kind.resolver, t)
	if err != nil {
		return nil, nil, err
	}
	closeIt := func() error { return nil }
	if c, ok := kind.resolver.(interface{ Close() error }); ok {
		closeIt = c.Close
	}
	return e, closeIt, nil
}

// showInstances prints the list with what is set for it.
func showInstances(ctx context.Context, sh *shell, e *override.Editor) error {
	list, err := e.Instances(ctx)
	if err != nil {
		return err
	}
	o, err := e.Read(ctx)
	if err != nil {
		return err
	}
	effect := o.Apply(list, time.Now())
	weights := make(map[string]int)
	for _, in := range effect.Enabled {
		weights[in.ID] = cmp.Or(in.Weight, tandem.DefaultWeight)
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "INSTANCE\tSTATE\tWEIGHT\tVERSION\tZONE\tADDRESS\tWHY")
	for _, in := range list {
		state, weight, why := string(override.Enabled), strconv.Itoa(weights[in.ID]), "-"
		if s, out := effect.Withheld[in.ID]; out {
			state, weight, why = string(s.State), "-", strings.TrimPrefix(s.String(), string(s.State)+" ")
		}
		var address string
		if len(in.Endpoints) > 0 {
			address = in.Endpoints[0].String()
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", in.ID, state, weight, cmp.Or(in.Version, "-"), cmp.Or(in.Zone, "-"), address, why)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if o.Change.Revision == 0 {
		return nil
	}
	rollout, err := e.Rollout(ctx)
	if err == nil {
		fmt.Fprintf(sh.out, "revision %v\n", rollout)
	}
	return err
}

// showHistory prints the revisions that are kept.
func showHistory(ctx context.Context, sh *shell, e *override.Editor) error {
	kept, err := e.Store.Versions(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "REVISION\tAT\tBY\tWHY\tSET")
	for _, v := range slices.Backward(kept) {
		o, err := override.Parse([]byte(v.Text))
		var set []string
		if err != nil {
			set = []string{err.Error()}
		} else {
			for i := range o.Set {
				set = append(set, describeOverride(&o.Set[i]))
			}
		}
		fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%s\n", v.Revision, v.At.UTC().Format(time.RFC3339), cmp.Or(v.By, "-"), cmp.Or(v.Why, "-"), cmp.Or(strings.Join(set, "; "), "nothing"))
	}
	return out.Flush()
}

// describeOverride says in one phrase for what something is set, and what.
func describeOverride(o *override.Override) string {
	name := o.Instance
	if name == "" {
		var pairs []string
		for label, value := range o.Labels {
			pairs = append(pairs, label+"="+value)
		}
		slices.Sort(pairs)
		name = strings.Join(pairs, ",")
	}
	if o.Weight > 0 {
		return fmt.Sprintf("%s weight %d", name, o.Weight)
	}
	return fmt.Sprintf("%s %s", name, o.State)
}
