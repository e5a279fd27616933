package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/doctor"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// checkFlags are the flags of tandem check.
type checkFlags struct {
	access   accessFlags
	format   doctor.Format
	limits   doctor.Limits
	policies []string
	most     int           // instances to connect to
	parallel int           // connections at a time
	timeout  time.Duration // for each endpoint
	total    time.Duration // for everything
}

// checkError is how tandem check ends, unless all is well.
type checkError struct{ code int }

func (e checkError) Error() string { return fmt.Sprintf("the check ended with %d", e.code) }

// uncheckedError is an error by which nothing could be checked.
type uncheckedError struct{ error }

func (e uncheckedError) Unwrap() error { return e.error }

func newCheck(sh *shell) *cobra.Command {
	f := &checkFlags{format: doctor.Text, limits: doctor.Limits{
		RegistryWarning: time.Second, RegistryCritical: 5 * time.Second,
		PingWarning: 500 * time.Millisecond, PingCritical: 2 * time.Second,
		CertWarning: 21 * day, CertCritical: 7 * day, DownCritical: 50,
	}}
	cmd := &cobra.Command{
		Use:   "check [flags] TARGET",
		Short: "look for what is wrong: registry, endpoints, certificates, health, clocks, overrides, policies",
		Long: "The exit codes are those of Nagios plugins: 0 ok, 1 warning, 2 critical, 3 unknown, also for a\n" +
			"command line that is wrong. Pairs of thresholds are WARNING,CRITICAL; days are written as 21d.",
		Example: "tandem check --format nagios --policy etcd://h1:2379/shop/policies/orders etcd://h1:2379/shop/Cart",
		Args:    func(cmd *cobra.Command, args []string) error { return unchecked(wantArgs(1, 1)(cmd, args)) },
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return unchecked(flagError(cmd, err)) })
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	f.add(cmd.Flags())
	f.access.add(cmd)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(doctor.Formats(), cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), sh, args[0]) }
	return cmd
}

// unchecked makes an error end the command with the code for unknown.
func unchecked(err error) error {
	if err == nil {
		return nil
	}
	return uncheckedError{err}
}

func (f *checkFlags) add(set *pflag.FlagSet) {
	l := &f.limits
	set.VarP(&f.format, "format", "f", "how to print it")
	set.StringArrayVar(&f.policies, "policy", nil, "check this policy too: a `file`, or a document of a registry; may be repeated")
	set.IntVar(&f.most, "most", 100, "most instances to connect to; 0 for none")
	set.IntVar(&f.parallel, "parallel", 16, "connections at a time")
	set.DurationVar(&f.timeout, "timeout", 3*time.Second, "time for each endpoint")
	set.DurationVar(&f.total, "total", time.Minute, "time for everything")
	set.IntVar(&l.Least, "least", 1, "critical: fewer instances than this get calls")
	percentLimits(set, "down", "share of the instances that can't be called, above it is bad", &l.DownWarning, &l.DownCritical)
	timeLimits(set, "registry", "time in which the registry answers", &l.RegistryWarning, &l.RegistryCritical)
	timeLimits(set, "ping", "time in which an endpoint connects and answers", &l.PingWarning, &l.PingCritical)
	timeLimits(set, "cert", "time that is left until a certificate expires", &l.CertWarning, &l.CertCritical)
	set.IntVar(&l.Versions, "versions", 1, "warning: more versions than this run")
	set.DurationVar(&l.Skew, "skew", 5*time.Second, "warning: a time is further in the future")
	set.DurationVar(&l.Stale, "stale", 10*time.Minute, "warning: a reported load is older; 0 for never")
}

func (f *checkFlags) run(ctx context.Context, sh *shell, arg string) error {
	if f.parallel < 1 || f.timeout <= 0 || f.total <= 0 {
		return unchecked(usagef("--parallel, --timeout and --total must be above 0"))
	}
	at, err := f.access.place(ctx, arg)
	if err != nil {
		return unchecked(err)
	}
	h, err := holdingsOf(at)
	if err != nil {
		return unchecked(err)
	}
	if c, ok := h.resolver.(interface{ Close() error }); ok {
		defer func() { _ = c.Close() }() // an error of closing changes nothing here
	}
	within, cancel := context.WithTimeout(ctx, f.total)
	defer cancel()
	facts := f.facts(within, h)
	if ctx.Err() != nil {
		return errInterrupted
	}
	r := doctor.NewReport(registry.Redact(at.target), facts.Now, doctor.Judge(facts, &f.limits))
	if err := r.Write(sh.out, f.format, hasColors(sh)); err != nil {
		return unchecked(err)
	}
	if r.Code != exitOK {
		return checkError{r.Code}
	}
	return nil
}

// facts collects what is known of a target.
func (f *checkFlags) facts(ctx context.Context, h *holdings) *doctor.Facts {
	facts := &doctor.Facts{}
	listCtx, cancel := context.WithTimeout(ctx, listTimeout)
	began := time.Now()
	facts.Instances, facts.ListErr = h.list(listCtx)
	cancel()
	facts.ListTook, facts.Now = time.Since(began), time.Now()
	for _, where := range f.policies {
		facts.Policies = append(facts.Policies, checkedPolicy(ctx, where))
	}
	if facts.ListErr != nil {
		return facts
	}
	if h.documents != nil {
		facts.Overrides = &doctor.Document{Name: h.overrides}
		if d, err := h.read(ctx, h.overrides); err != nil {
			facts.Overrides.Err = err
		} else if d != nil {
			facts.Overrides.Text, facts.Overrides.Reports = []byte(d.text), d.Reports
		}
	}
	if config := h.place.tls; config != nil && len(config.Certificates) > 0 {
		facts.Client = config.Certificates[0].Leaf
	}
	facts.Probes, facts.Late = f.probe(ctx, facts.Instances, introspect.Access{TLS: h.place.tls, Token: h.place.token})
	return facts
}

// probe connects to the endpoints of instances. late says that ctx ended before all had answered or
// failed by themselves; those that had not are not said to be down.
func (f *checkFlags) probe(ctx context.Context, list []tandem.Instance, access introspect.Access) (probes map[string][]*doctor.Probed, late bool) {
	probes = make(map[string][]*doctor.Probed)
	slots := make(chan struct{}, f.parallel)
	var running sync.WaitGroup
	for i := range list[:min(len(list), max(f.most, 0))] {
		if late = ctx.Err() != nil; late {
			break
		}
		in := &list[i]
		of := make([]*doctor.Probed, len(in.Endpoints))
		probes[in.ID] = of
		for n, e := range in.Endpoints {
			slots <- struct{}{} // each of them ends by its timeout
			running.Go(func() {
				defer func() { <-slots }()
				within, cancel := context.WithTimeout(ctx, f.timeout)
				defer cancel()
				of[n] = doctor.Probe(within, e, access)
				if ctx.Err() != nil && (of[n].Err != nil || of[n].HealthOf != nil) {
					of[n] = &doctor.Probed{Endpoint: e, Skipped: "the time was over"}
				}
			})
		}
	}
	running.Wait()
	return probes, late || ctx.Err() != nil
}

// checkedPolicy reads a policy in a file or in a registry, with the reports of clients.
func checkedPolicy(ctx context.Context, arg string) doctor.Document {
	d := doctor.Document{Name: registry.Redact(arg)}
	where, err := targetOf(arg)
	if err != nil {
		d.Err = err
		return d
	}
	src, closeIt, err := policySource(where)
	if err != nil {
		d.Err = err
		return d
	}
	defer func() { _ = closeIt() }() // an error of closing changes nothing here
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	if d.Text, d.Err = currentPolicy(ctx, src); d.Err == nil {
		d.Reports, d.Err = src.Applied(ctx)
	}
	if d.Err == nil && !strings.Contains(where, "://") && isYAML(where) {
		d.Err = errors.New("clients read policies in JSON; tandem policy put makes JSON of YAML")
	}
	return d
}

// currentPolicy returns the text of a policy as clients read it now.
func currentPolicy(ctx context.Context, src policy.Reports) (text []byte, err error) {
	from, ok := src.(policy.Source)
	if !ok {
		return nil, errors.New("this policy can't be read")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := false
	ended := from.Watch(ctx, func(t []byte, failed error) {
		if !seen {
			seen, text, err = true, slices.Clone(t), failed
			cancel()
		}
	})
	if !seen {
		return nil, ended
	}
	return text, err
}
