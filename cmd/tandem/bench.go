package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/loadtest"
	"github.com/tandem-rpc/tandem/registry"
)

// benchFlags are the flags of tandem bench.
type benchFlags struct {
	request     callFlags // what a call is like: only some of its flags
	rate        float64
	stages      string
	duration    time.Duration
	load        loadtest.Load
	closed      bool
	connections int
	thresholds  []string
	reports     []string
	compare     string
	quiet       bool
}

// maxConnections is the limit of client.Connections.
const maxConnections = 64

func newBench(sh *shell) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags] TARGET METHOD [JSON]",
		Short: "load test of a method",
		Long: "Calls begin at a rate, whether earlier ones have ended or not, and latencies count from when a call\n" +
			"should have begun. JSON and TARGET are those of tandem call. An interrupt ends it and prints what there is.",
		Example: `tandem bench --rate 500 --threshold 'p99<20ms' tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'`,
		Args:    wantArgs(2, 3),
	}
	p := outputFlag(sh, cmd)
	cmd.ValidArgsFunction = complete(false, true, contextTargets, f.request.access.methodNames)
	f.add(cmd.Flags())
	f.request.access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set := cmd.Flags()
		t, err := f.test(set)
		if err != nil {
			return usagef("%v", err)
		}
		text := ""
		if len(args) > 2 {
			text = args[2]
		}
		return t.run(cmd.Context(), sh, p, [3]string{args[0], args[1], text})
	}
	return cmd
}

func (f *benchFlags) add(set *pflag.FlagSet) {
	set.Float64Var(&f.rate, "rate", 100, "calls a second, all together")
	set.DurationVar(&f.duration, "duration", 10*time.Second, "how long calls are counted")
	set.DurationVar(&f.load.Warmup, "warmup", time.Second, "how long calls are sent before that")
	set.StringVar(&f.stages, "stages", "", "`list` such as 100:10s,500:1m for --rate and --duration")
	set.BoolVar(&f.closed, "closed", false, loadtest.ClosedLoopNote)
	set.IntVarP(&f.load.Callers, "callers", "c", 0, "of a closed loop; each calls when its last call has ended")
	set.IntVar(&f.load.MaxInFlight, "max-in-flight", 10_000, "further calls are not sent, and are errors")
	set.IntVar(&f.connections, "connections", 1, "connections to each instance, at most 64")
	set.DurationVar(&f.request.timeout, "timeout", 5*time.Second, "time for each call")
	set.BoolVarP(&f.request.several, "several", "n", false, "JSON is an array of the method's several arguments")
	set.StringArrayVarP(&f.request.metadata, "metadata", "H", nil, "`key=value` to send along; may be repeated")
	set.StringArrayVar(&f.thresholds, "threshold", nil, "`condition`: 'p99<20ms', 'errors<0.1%', 'rate>900', …")
	set.StringArrayVar(&f.reports, "report", nil, "`file` to write: .html, .svg or .json; may be repeated")
	set.StringVar(&f.compare, "compare", "", "`file` with an older result in JSON, to print ratios")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
}

// loadTest is a load test that the flags describe.
type loadTest struct {
	*benchFlags
	limits []loadtest.Threshold
	old    *loadtest.Result // to compare with; nil for none
}

// test returns the test that the flags describe.
func (f *benchFlags) test(set *pflag.FlagSet) (*loadTest, error) {
	t := &loadTest{benchFlags: f}
	if err := f.setLoad(set); err != nil {
		return nil, err
	}
	if f.connections < 1 || f.connections > maxConnections {
		return nil, fmt.Errorf("--connections %d: want 1 to %d", f.connections, maxConnections)
	}
	if f.request.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: want more than 0", f.request.timeout)
	}
	for _, text := range f.thresholds {
		for condition := range strings.SplitSeq(text, ",") {
			limit, err := loadtest.ParseThreshold(condition)
			if err != nil {
				return nil, fmt.Errorf("--threshold %w", err)
			}
			t.limits = append(t.limits, limit)
		}
	}
	for _, file := range f.reports {
		if err := loadtest.CheckReport(file); err != nil {
			return nil, fmt.Errorf("--report %w", err)
		}
	}
	if f.compare != "" {
		old, err := loadtest.Read(f.compare)
		if err != nil {
			return nil, fmt.Errorf("--compare: %w", err)
		}
		t.old = old
	}
	return t, nil
}

// setLoad sets the load that the flags describe.
func (f *benchFlags) setLoad(set *pflag.FlagSet) (err error) {
	given := func(names ...string) (string, bool) {
		i := slices.IndexFunc(names, set.Changed)
		if i < 0 {
			return "", false
		}
		return "--" + names[i], true
	}
	f.load.Stages = []loadtest.Stage{{Rate: f.rate, Duration: f.duration}}
	if f.closed {
		if name, is := given("rate", "stages", "max-in-flight"); is {
			return fmt.Errorf("%s is for an open loop, not for --closed", name)
		}
		if f.load.Callers < 1 {
			return errors.New("--closed wants --callers, the number of callers")
		}
		f.load.Stages[0].Rate = 0
		return f.load.Check()
	}
	if name, is := given("callers"); is {
		return fmt.Errorf("%s is for a closed loop: add --closed, or use --rate", name)
	}
	if f.stages != "" {
		if name, is := given("rate", "duration"); is {
			return fmt.Errorf("%s and --stages exclude each other", name)
		}
		if f.load.Stages, err = loadtest.ParseStages(f.stages); err != nil {
			return fmt.Errorf("--stages: %w", err)
		}
	}
	return f.load.Check()
}

// run makes the test at a target, of a method, with a JSON text.
func (t *loadTest) run(ctx context.Context, sh *shell, p *listing.Printer, what [3]string) error {
	m, err := t.open(ctx, sh, what)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { _ = m.client.Close() }() // its error changes nothing here
	if _, err := m.call(ctx); isHopeless(err) {
		return interrupted(ctx, fmt.Errorf("no load was sent, as the first call failed: %w", err))
	}
	res := t.measure(ctx, sh, m)
	res.Target, res.Method = registry.Redact(m.target), m.method
	res.Bytes.Request, res.Load.Connections, res.Load.Timeout = m.messages.size(m.args), t.connections, t.request.timeout.String()
	if t.old != nil {
		res.Compare(t.old)
	}
	crossed := res.Judge(t.limits)
	failed := loadtest.Print(p, res)
	for _, file := range t.reports {
		failed = errors.Join(failed, res.Write(file))
	}
	return errors.Join(failed, verdict(res, crossed))
}

// measure sends the load and shows its progress.
func (t *loadTest) measure(ctx context.Context, sh *shell, m *measured) *loadtest.Result {
	run := loadtest.Run{Load: t.load, Call: m.call}
	if t.quiet {
		return run.Do(ctx)
	}
	live := isTerminal(sh.err)
	screen := &loadtest.Screen{Out: sh.err, Load: &run.Load, Live: live, Color: live && hasColors(&shell{out: sh.err})}
	fmt.Fprintln(sh.err, listing.Printable(fmt.Sprintf("%s at %s: %v", m.method, registry.Redact(m.target), &run.Load)))
	run.Show = screen.Show
	defer screen.Clear()
	return run.Do(ctx)
}

// verdict returns the error of a test that was interrupted, that crossed thresholds, or of which
// no call succeeded.
func verdict(res *loadtest.Result, crossed []loadtest.Outcome) error {
	var texts []string
	for _, o := range crossed {
		texts = append(texts, fmt.Sprintf("threshold %s: it is %s", o.Threshold, o.Value))
	}
	switch {
	case res.Interrupted:
		return errInterrupted
	case len(texts) > 0:
		return thresholdError{strings.Join(texts, "\n")}
	case res.Calls.OK == 0:
		return errNoSuccess
	}
	return nil
}

// thresholdError is the error of thresholds that were crossed.
type thresholdError struct{ text string }

func (e thresholdError) Error() string { return e.text }

var errNoSuccess = errors.New("no call succeeded")

// measured is what a load test calls.
type measured struct {
	client         *client.Client
	target, method string
	args           any
	messages       messages
	options        []tandem.CallOption
}

// open connects to a target, and prepares the calls of a method with a JSON text.
func (t *loadTest) open(ctx context.Context, sh *shell, what [3]string) (*measured, error) {
	input, err := openInput(sh.in, what[2])
	if err != nil {
		return nil, err
	}
	defer func() { _ = input.Close() }() // it was only read
	at, err := t.request.access.place(ctx, what[0])
	if err != nil {
		return nil, err
	}
	m := &measured{target: at.target, method: what[1]}
	if m.messages, err = at.messages(ctx, m.method); err != nil {
		return nil, err
	}
	if m.messages.streams() {
		return nil, usagef("%s is a stream; only unary methods are measured", m.method)
	}
	if m.options, err = t.request.options(false); err != nil {
		return nil, err
	}
	if m.args, err = callArgs(input, t.request.several, m.messages); err != nil {
		return nil, err
	}
	// All calls are sent, also to a server that refuses many.
	dial := append(m.messages.dial(), client.WithConnections(client.Connections{PerInstance: t.connections}), client.WithThrottle(nil))
	m.client, err = at.dial(dial...)
	return m, err
}

// call makes one call.
func (m *measured) call(ctx context.Context) (size int, err error) {
	reply := m.messages.reply()
	if err := m.client.Call(ctx, m.method, m.args, reply, m.options...); err != nil {
		return 0, err
	}
	return m.messages.size(reply), nil
}

// isHopeless reports whether the error of a first call means that others fail as well.
func isHopeless(err error) bool {
	if err == nil {
		return false
	}
	switch tandem.CodeOf(err) {
	case tandem.Canceled, tandem.InvalidArgument, tandem.Unimplemented, tandem.Unavailable, tandem.Unauthenticated, tandem.PermissionDenied:
		return true
	}
	return false
}
