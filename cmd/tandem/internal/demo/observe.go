package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tandem-rpc/tandem/telemetry"
	"github.com/tandem-rpc/tandem/transport"
)

// FindPrometheus returns the path of the program, or an error that says how to install it.
func FindPrometheus() (string, error) {
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return "", fmt.Errorf("prometheus is not installed (%w): apt-get install prometheus (Debian, Ubuntu), "+
			"brew install prometheus (macOS), or put the program of https://prometheus.io/download into a folder of PATH", err)
	}
	return path, nil
}

// observer is a Prometheus that scrapes the demo's servers and its client. The methods of a nil
// observer do nothing.
type observer struct {
	dir   string
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // the process ends when it is closed
	log   tail
	ended chan struct{} // closed when the process has ended

	mu      sync.Mutex
	scraped map[string]string // addresses of metrics, by the name of the server or client
	closers []func()
}

// Times of Prometheus.
const (
	scrapeEvery    = time.Second
	observerStarts = 15 * time.Second
	observerEnds   = 10 * time.Second
)

// startObserver starts Prometheus with files in dir, and waits until it answers. See
// [Config.Prometheus] for the command.
func startObserver(ctx context.Context, command func(args ...string) *exec.Cmd, dir string) (*observer, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	o := &observer{dir: dir, url: "http://" + address, ended: make(chan struct{}), scraped: map[string]string{}}
	rules, err := fs.ReadFile(telemetry.Files(), "alerts.yaml")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("global: {scrape_interval: %v, evaluation_interval: %v}\nrule_files: [alerts.yaml]\n"+
		"scrape_configs:\n- job_name: demo\n  file_sd_configs: [{files: [targets.json], refresh_interval: %v}]\n", scrapeEvery, scrapeEvery, scrapeEvery)
	for name, text := range map[string][]byte{"alerts.yaml": rules, "prometheus.yaml": []byte(config), targetsFile: []byte("[]")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	o.cmd = command("--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "prometheus"),
		"--web.listen-address", address, "--enable-feature", "exemplar-storage")
	o.cmd.Stdout, o.cmd.Stderr = &o.log, &o.log
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(o.ended)
		_ = o.cmd.Wait() // it is stopped, or ready finds that it has ended
	}()
	if err := o.ready(ctx); err != nil {
		o.stop()
		return nil, fmt.Errorf("prometheus: %w; it said: %s", err, o.log.text())
	}
	return o, nil
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(ctx context.Context) (string, error) {
	ln, err := transport.TCP().Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// ready waits until Prometheus answers.
func (o *observer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, observerStarts)
	defer cancel()
	for {
		err := o.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-o.ended:
			return errors.New("it has ended")
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(scrapeEvery / 10): //nolint:mnd // often enough for people
		}
	}
}

func (o *observer) ask(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url+"/-/ready", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

const targetsFile = "targets.json"

// scrape makes Prometheus scrape a server or client at the address; "" ends that.
func (o *observer) scrape(name, address string) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.scraped[name] = address; address == "" {
		delete(o.scraped, name)
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for name, address := range o.scraped {
		groups = append(groups, group{[]string{address}, map[string]string{"instance": name}})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	path := filepath.Join(o.dir, targetsFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path) // so that Prometheus never reads half of it
}

// expose makes Prometheus scrape collectors of this process.
func (o *observer) expose(ctx context.Context, name string, collectors ...prometheus.Collector) error {
	address, end, err := ServeMetrics(ctx, collectors...)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.closers = append(o.closers, end)
	o.mu.Unlock()
	return o.scrape(name, address)
}

// ServeMetrics serves collectors for Prometheus at an address of this machine, until end is called.
func ServeMetrics(ctx context.Context, collectors ...prometheus.Collector) (address string, end func(), err error) {
	all := prometheus.NewRegistry()
	for _, c := range collectors {
		if err := all.Register(c); err != nil {
			return "", nil, err
		}
	}
	ln, err := transport.TCP().Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{
		Handler: promhttp.HandlerFor(all, promhttp.HandlerOpts{EnableOpenMetrics: true}), ReadHeaderTimeout: time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // it ends when it is closed
	}()
	return ln.Addr().String(), func() {
		_ = srv.Close() // scrapes that run are of no use any more
		<-done
	}, nil
}

// stop ends Prometheus.
func (o *observer) stop() {
	if o == nil {
		return
	}
	_ = o.stdin.Close() // it may be closed already
	select {
	case <-o.ended:
	case <-time.After(observerEnds):
		_ = o.cmd.Process.Kill()
		<-o.ended
	}
	for _, end := range o.closers {
		end()
	}
}

// sights are expressions to look at, and what they show.
var sights = [][2]string{ //nolint:gochecknoglobals // never changed
	{"calls a second, by server", "sum by (instance) (rate(rpc_server_call_duration_seconds_count[5s]))"},
	{"p99 at the client", "histogram_quantile(0.99, sum by (le) (rate(rpc_client_call_duration_seconds_bucket[5s])))"},
	{"attempts a call", "sum(rate(rpc_client_call_attempts_total[5s])) / sum(rate(rpc_client_call_duration_seconds_count[5s]))"},
	{"instances, by state", "tandem_client_instances"},
	{"connections, by server", "tandem_server_connections"},
}

// guide says what to look at.
func (o *observer) guide() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Prometheus is at %s until the demo ends (--duration 10m is longer); look at\n", o.url)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) //nolint:mnd // two blanks
	for _, s := range sights {
		query := url.Values{"g0.expr": {s[1]}, "g0.tab": {"0"}, "g0.range_input": {"1m"}}
		fmt.Fprintf(w, "  %s\t%s/graph?%s\n", s[0], o.url, query.Encode())
	}
	fmt.Fprintf(w, "  alerts, such as of the server that is killed\t%s/alerts\n", o.url)
	_ = w.Flush() // to memory
	return b.String()
}
