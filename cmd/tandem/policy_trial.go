package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// trialFlags are the flags of tandem policy test.
type trialFlags struct {
	access   accessFlags
	authz    authzFlags
	route    tandem.Route
	tags     []string
	metadata []string
	hashKey  string
	pin      string
	wait     time.Duration
	self     self
	samples  string
	against  string
}

func newPolicyTest(sh *shell) *cobra.Command {
	var f trialFlags
	cmd := &cobra.Command{
		Use:   "test [flags] POLICY TARGET METHOD…",
		Short: "say where calls would go under a policy, or if rules allow a call, and why",
		Long: "POLICY is a file (JSON, or YAML by its name; - is standard input), a document of a registry, or none.\n" +
			"It connects to the instances, as a client does, so that those which can't be reached are known. What\n" +
			"depends on earlier calls, such as latencies and breakers, is as in a new client.\n\n" +
			"With --samples in place of METHOD it says what share of such calls would go where and, with\n" +
			"--against, what share would move. A line: {\"method\": \"Cart.Add\", \"metadata\": {\"user\": \"ann\"},\n" +
			"\"count\": 20}; the other fields are hashKey, version, group, tags, caller and zone. With --authz it\n" +
			"says if rules let --caller call --method, with --claim PATH=VALUE, --tenant, --issuer; else exit code 17.",
		Example: "tandem policy test --tag lane=blue policy.yaml etcd://h1:2379/shop/Cart Cart.Add",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		f.authz.caller = f.self.Caller
		if f.samples != "" && f.authz.file == "" {
			return wantArgs(2, 2)(cmd, args)
		}
		return f.authz.args(cmd, args)
	}
	p := outputFlag(sh, cmd)
	none := func(context.Context, []string) completions { return nil }
	methods := func(ctx context.Context, before []string) completions { return f.access.methodNames(ctx, before[1:]) }
	cmd.ValidArgsFunction = complete(true, true, none, contextTargets, methods)
	set := cmd.Flags()
	set.StringVar(&f.route.Version, "version", "", "the calls want instances of this version")
	set.StringVar(&f.route.Group, "group", "", "the calls want instances of this group")
	set.StringArrayVar(&f.tags, "tag", nil, "the calls want this tag, `name=value`; may be repeated")
	set.BoolVar(&f.route.Force, "force-tags", false, "the calls fail rather than go to instances without the tags")
	set.StringArrayVarP(&f.metadata, "metadata", "H", nil, "`key=value` that the calls send; may be repeated")
	set.StringVar(&f.hashKey, "hash-key", "", "key for balancers that hash")
	set.StringVar(&f.pin, "instance", "", "the calls want the instance with this `ID`")
	set.DurationVar(&f.wait, "wait", 3*time.Second, "how long to wait until all instances are connected")
	set.StringVar(&f.self.Caller, "caller", "", "the `service` or person that makes the calls")
	set.StringVar(&f.self.Zone, "zone", "", "the zone that the calls come from, for routes")
	set.StringVar(&f.samples, "samples", "", "a `file` of calls, a line of JSON each; - is standard input")
	set.StringVar(&f.against, "against", "", "the `policy` now, to compare the calls of --samples with")
	f.authz.add(set)
	f.access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.authz.file != "" {
			return f.authz.run(sh, p, f.metadata)
		}
		run := f.run
		if f.samples != "" {
			run = f.runSamples
		} else if f.against != "" {
			return usagef("--against: only with --samples")
		}
		return interrupted(cmd.Context(), run(cmd.Context(), sh, p, args))
	}
	return cmd
}

// options returns the options of the calls.
func (f *trialFlags) options() ([]tandem.CallOption, error) {
	calls := callFlags{metadata: f.metadata}
	options, err := calls.options(true)
	if err != nil {
		return nil, err
	}
	if len(f.tags) > 0 {
		if f.route.Tags = parseLabels(strings.Join(f.tags, ",")); f.route.Tags == nil {
			return nil, usagef("--tag: want name=value, got %q", f.tags)
		}
	}
	if f.route.String() != new(tandem.Route).String() {
		options = append(options, client.Route(f.route))
	}
	if f.hashKey != "" {
		options = append(options, client.HashKey(f.hashKey))
	}
	if f.pin != "" {
		options = append(options, client.Instance(f.pin))
	}
	return options, nil
}

// triedPolicy is what tandem policy test prints. Its fields are documented in docs/reference/cli.md.
type triedPolicy struct {
	Target   string                       `json:"target"`
	Policy   string                       `json:"policy"` // where it is from
	Version  string                       `json:"version,omitempty"`
	Route    string                       `json:"route"`
	Withheld map[string]override.Override `json:"withheld,omitempty"` // by ID: instances that operators have taken out
	Methods  []triedMethod                `json:"methods"`
}

// triedMethod is where calls of a method would go.
type triedMethod struct {
	Method      string              `json:"method"`
	Rules       policy.Method       `json:"rules"` // what the policy says of it
	Goes        []candidate         `json:"goes"`  // to one of these; empty if the call would fail
	Explanation *client.Explanation `json:"explanation"`
}

// candidate is an instance that the balancer chooses from.
type candidate struct {
	Instance string `json:"instance"`
	Weight   int    `json:"weight"`
}

func (f *trialFlags) run(ctx context.Context, sh *shell, p *listing.Printer, args []string) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	pol, version, err := readAnyPolicy(ctx, sh, args[0])
	if err != nil {
		return err
	}
	at, err := f.access.place(ctx, args[1])
	if err != nil {
		return err
	}
	list, effect, err := at.effect(ctx)
	if err != nil {
		return err
	}
	result := &triedPolicy{
		Target: registry.Redact(at.target), Policy: registry.Redact(args[0]), Version: version, Route: f.route.String(), Withheld: effect.Withheld,
	}
	c, err := f.client(at, effect.Enabled, pol, version, f.self)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // its error changes nothing here
	if err := f.connect(ctx, c, args[2]); err != nil {
		return err
	}
	for _, method := range args[2:] {
		e := c.Describe(method, options...)
		e.Target = result.Target
		result.Methods = append(result.Methods, triedMethod{method, pol.For(method), candidates(e), e})
	}
	return p.Print(&listing.List{Notes: result.lines(len(list)), Value: result})
}

// client returns a client of a list with a policy; version is "" for none.
func (f *trialFlags) client(at *place, list []tandem.Instance, pol *policy.Policy, version string, from self) (*client.Client, error) {
	dial, err := at.options()
	if err != nil {
		return nil, err
	}
	dial = append(dial, client.WithResolver("listed", fixedList(list)))
	if version != "" {
		dial = append(dial, client.WithPolicy(pol, client.Self{Caller: from.Caller, Zone: from.Zone}))
	}
	return client.Dial("listed://instances", dial...)
}

// readAnyPolicy returns the policy in a file, in a document of a registry, or none.
func readAnyPolicy(ctx context.Context, sh *shell, arg string) (p *policy.Policy, version string, err error) {
	var text []byte
	switch {
	case arg == "none":
		return new(policy.Policy), "", nil
	case !strings.Contains(arg, "://") && !strings.HasPrefix(arg, "@"):
		text, p, err = parsePolicy(sh, arg)
	default:
		d := checkedPolicy(ctx, arg)
		if text, err = d.Text, d.Err; err == nil {
			p, err = policy.Parse(text)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if err != nil {
		return nil, "", err
	}
	return p, policy.VersionOf(text), nil
}

// effect returns the list of a place, and what overrides make of it. They are read here, and not by
// the client, because that would report to the registry that it follows them.
func (p *place) effect(ctx context.Context) ([]tandem.Instance, *override.Effect, error) {
	h, err := holdingsOf(p)
	if err != nil {
		return nil, nil, err
	}
	if c, ok := h.resolver.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }() // an error of closing changes nothing here
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := h.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	set := new(override.Overrides)
	if h.documents != nil {
		d, err := h.read(ctx, h.overrides)
		if err != nil {
			return nil, nil, err
		}
		if d != nil {
			if set, err = override.Parse([]byte(d.text)); err != nil {
				return nil, nil, err
			}
		}
	}
	effect := set.Apply(list, time.Now())
	return list, &effect, nil
}

// fixedList is the resolver of a list that does not change.
type fixedList []tandem.Instance

// Watch delivers the list.
func (l fixedList) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: l, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}

// connect waits until all instances are connected, or the time for that is over.
func (f *trialFlags) connect(ctx context.Context, c *client.Client, method string) error {
	const every = 20 * time.Millisecond
	look := time.NewTicker(every)
	defer look.Stop()
	for end := time.Now().Add(f.wait); time.Now().Before(end); {
		last := c.Describe(method).Attempts
		if len(last) > 0 && len(last[0].Instances) > 0 && !slices.ContainsFunc(last[0].Instances, func(in client.InstanceState) bool { return in.Unusable != "" }) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// candidates returns the instances that the balancer's last steps have kept and that can be called.
// There are several last steps if it first chooses a zone.
func candidates(e *client.Explanation) []candidate {
	list := []candidate{}
	if len(e.Attempts) == 0 || len(e.Attempts[0].Steps) == 0 {
		return list
	}
	a := &e.Attempts[0]
	var kept []string
	routed := a.Route != nil && len(a.Route.Chances) > 1 // then each subset has steps of its own
	for _, step := range slices.Backward(a.Steps) {
		if last := a.Steps[len(a.Steps)-1].Policy; step.Policy != last && routed {
			continue
		} else if step.Policy != last {
			break
		}
		kept = append(kept, step.Kept...)
	}
	for i := range a.Instances {
		if in := &a.Instances[i]; in.Unusable == "" && slices.Contains(kept, in.ID) {
			list = append(list, candidate{in.ID, in.Weight})
		}
	}
	return list
}

// lines returns the result as text. listed is the length of the list.
func (t *triedPolicy) lines(listed int) []string {
	version := ""
	if t.Version != "" {
		version = ", version " + t.Version
	}
	lines := []string{
		fmt.Sprintf("policy %s%s at %s", t.Policy, version, t.Target),
		fmt.Sprintf("%d instances are listed, %d withheld by operators; calls go %s", listed, len(t.Withheld), t.Route),
	}
	for _, id := range slices.Sorted(maps.Keys(t.Withheld)) {
		lines = append(lines, "  "+id+": "+new(t.Withheld[id]).String())
	}
	for i := range t.Methods {
		m := &t.Methods[i]
		lines = append(lines, m.Method+": "+jsonText(m.Rules))
		for _, g := range m.Goes {
			lines = append(lines, fmt.Sprintf("  to %s, weight %d", g.Instance, g.Weight))
		}
		if len(m.Goes) == 0 {
			lines = append(lines, "  fails: no instance is left")
		}
		lines = append(lines, strings.Split(strings.TrimSpace(m.Explanation.String()), "\n")[1:]...)
	}
	return lines
}
