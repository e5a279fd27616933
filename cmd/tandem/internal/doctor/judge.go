package doctor

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
)

// Limits are the thresholds of the checks.
type Limits struct {
	RegistryWarning, RegistryCritical time.Duration // until the registry has answered
	PingWarning, PingCritical         time.Duration // of a connection and a ping together
	CertWarning, CertCritical         time.Duration // until a certificate expires
	DownWarning, DownCritical         float64       // percent of the instances that can't be called
	Least                             int           // instances that get calls
	Versions                          int           // versions at a time
	Skew                              time.Duration // how far a clock may be ahead
	Stale                             time.Duration // age of a load report; 0 for any
}

// Document is a document of a registry, or a file.
type Document struct {
	Name    string
	Text    []byte // nil if there is none
	Err     error  // why it can't be read
	Reports []policy.Applied
}

// Facts are what is known of a target.
type Facts struct {
	Now       time.Time
	ListErr   error
	ListTook  time.Duration
	Instances []tandem.Instance
	Overrides *Document // nil if the registry keeps no documents
	Policies  []Document
	Probes    map[string][]*Probed // by ID of the instance; those that were not probed are missing
	Late      bool                 // the time was over before all instances that should be were probed
	Client    *x509.Certificate    // the client's own; nil for none
}

// Judge returns what is found, in the order in which it should be read.
func Judge(f *Facts, l *Limits) []Finding {
	j := &judge{facts: f, limits: l}
	if !j.registry() {
		return j.found
	}
	overrides := j.overrides()
	for i := range f.Policies {
		j.policy(&f.Policies[i])
	}
	j.list()
	j.clocks(overrides)
	j.certificate("tls.client", "", f.Client)
	j.endpoints(overrides)
	return j.found
}

// judge collects findings.
type judge struct {
	facts  *Facts
	limits *Limits
	found  []Finding
}

func (j *judge) add(f *Finding) {
	if f.Measure != nil && f.Severity == OK {
		f.Severity = f.Measure.severity()
	}
	if f.Severity == OK {
		f.Hint = ""
	}
	j.found = append(j.found, *f)
}

// seconds is a measure of a time; thresholds of 0 are none.
func seconds(d, warning, critical time.Duration, least bool) *Measure {
	m := &Measure{Value: d.Seconds(), Unit: Seconds, Least: least}
	if warning > 0 {
		m.Warning = new(warning.Seconds())
	}
	if critical > 0 {
		m.Critical = new(critical.Seconds())
	}
	return m
}

// registry reports whether the registry has answered.
func (j *judge) registry() bool {
	f, l := j.facts, j.limits
	if f.ListErr != nil {
		j.add(&Finding{ID: "registry.answer", Severity: Critical, Text: f.ListErr.Error(), Hint: "is the registry up, and the target right? Clients that run keep their last list"})
		return false
	}
	j.add(&Finding{
		ID: "registry.answer", Text: "the list came in " + brief(f.ListTook), Measure: seconds(f.ListTook, l.RegistryWarning, l.RegistryCritical, false),
		Hint: "the registry is slow: new clients wait for it",
	})
	return true
}

// overrides judges what operators have set, and returns it.
func (j *judge) overrides() *override.Overrides {
	f, set := j.facts, new(override.Overrides)
	if d := f.Overrides; d != nil && (d.Text != nil || d.Err != nil) {
		var err error
		if set, err = override.Parse(d.Text); err != nil {
			set = new(override.Overrides)
		}
		if err = cmp.Or(d.Err, err); err != nil {
			hint := "clients go by what they read before; tandem instance restore TARGET REVISION replaces it"
			j.add(&Finding{ID: "overrides.valid", Severity: Critical, Subject: d.Name, Text: err.Error(), Hint: hint})
		} else {
			j.add(&Finding{ID: "overrides.valid", Subject: d.Name, Text: fmt.Sprintf("revision %d sets %d overrides", set.Change.Revision, len(set.Set))})
			j.rollout("overrides.rollout", d, override.VersionOf(d.Text))
		}
	}
	effect := set.Apply(f.Instances, f.Now)
	n, called := len(f.Instances), len(effect.Enabled)
	hint := "tandem registry ls TARGET shows what is set, and by whom"
	if n < j.limits.Least {
		hint = "start servers, or see why they do not register"
	}
	least := float64(j.limits.Least)
	j.add(&Finding{
		ID: "instances.called", Text: fmt.Sprintf("%d of %d listed instances get calls", called, n), Hint: hint,
		Measure: &Measure{Value: float64(called), Critical: &least, Least: true},
	})
	if n > 0 && called > 0 && called*2 < n {
		text := fmt.Sprintf("%d of %d instances are withheld by operators", n-called, n)
		j.add(&Finding{ID: "overrides.withheld", Severity: Warning, Text: text, Hint: "tandem instance clear removes what is no longer needed"})
	}
	return set
}

// rollout judges which clients follow a document.
func (j *judge) rollout(id string, d *Document, version string) {
	if len(d.Reports) == 0 {
		return
	}
	r := policy.RolloutOf(version, d.Reports)
	found := Finding{ID: id, Subject: d.Name, Text: r.String(), Hint: "clients that refuse a document keep the one before; correct it or update them"}
	if len(r.Refused) > 0 {
		found.Severity = Warning
	}
	j.add(&found)
}

func (j *judge) policy(d *Document) {
	var err error
	if policy.IsServer(d.Text) {
		_, err = policy.ParseServer(d.Text)
	} else {
		_, err = policy.Parse(d.Text)
	}
	if err = cmp.Or(d.Err, err); err != nil {
		j.add(&Finding{ID: "policy.valid", Severity: Critical, Subject: d.Name, Text: err.Error(), Hint: "clients go by what they read before; tandem policy restore TARGET REVISION replaces it"})
		return
	}
	version := policy.VersionOf(d.Text)
	j.add(&Finding{ID: "policy.valid", Subject: d.Name, Text: "version " + version})
	j.rollout("policy.rollout", d, version)
}

// list judges what is listed: addresses and versions.
func (j *judge) list() {
	owner, versions := map[string]string{}, map[string]int{}
	for i := range j.facts.Instances {
		in := &j.facts.Instances[i]
		versions[in.Version]++
		for _, e := range in.Endpoints {
			key := e.String() + " " + e.Protocol
			if other, taken := owner[key]; taken && other != in.ID {
				j.add(&Finding{
					ID: "instances.address", Severity: Warning, Subject: in.ID, Text: fmt.Sprintf("%s is listed for %s, too", e, other),
					Hint: "one of them is left over from an earlier start, or runs behind the same address",
				})
			}
			owner[key] = in.ID
		}
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		parts = append(parts, fmt.Sprintf("%d with %s", versions[v], cmp.Or(v, "none")))
	}
	if len(parts) == 0 {
		return
	}
	most := float64(j.limits.Versions)
	j.add(&Finding{
		ID: "versions", Text: strings.Join(parts, ", "), Hint: "is a deployment unfinished?",
		Measure: &Measure{Value: float64(len(parts)), Warning: &most},
	})
}

// clocks judges times that are in the future, and reports that are old.
func (j *judge) clocks(o *override.Overrides) {
	f, l, bad := j.facts, j.limits, 0
	future := func(subject, what string, at time.Time) {
		if ahead := at.Sub(f.Now); ahead > l.Skew {
			bad++
			j.add(&Finding{ID: "clocks", Severity: Warning, Subject: subject, Text: fmt.Sprintf("%s %s in the future", what, brief(ahead)), Hint: "set the clock of that host, or of this one, by NTP"})
		}
	}
	for i := range f.Instances {
		in := &f.Instances[i]
		future(in.ID, "it started", in.Started)
		if in.Load == nil {
			continue
		}
		future(in.ID, "its load was reported", in.Load.At)
		if age := f.Now.Sub(in.Load.At); l.Stale > 0 && age > l.Stale {
			j.add(&Finding{
				ID: "load.age", Severity: Warning, Subject: in.ID, Text: "its load was last reported " + brief(age) + " ago",
				Hint: "the server has ended without notice, hangs, or can't write to the registry",
			})
		}
	}
	for i := range o.Set {
		future(o.Set[i].Instance, "an override by "+cmp.Or(o.Set[i].By, "an unknown author")+" was set", o.Set[i].At)
	}
	if bad == 0 {
		j.add(&Finding{ID: "clocks", Text: "no time is in the future"})
	}
}

// certificate judges when a certificate expires; nil is none.
func (j *judge) certificate(id, subject string, c *x509.Certificate) {
	if c == nil {
		return
	}
	left := c.NotAfter.Sub(j.facts.Now)
	text := "expires in " + brief(left)
	if left <= 0 {
		text = "has expired " + brief(-left) + " ago"
	}
	found := Finding{
		ID: id, Subject: subject, Text: fmt.Sprintf("the certificate of %s %s, at %s", cmp.Or(c.Subject.CommonName, "no name"), text, c.NotAfter.UTC().Format(time.RFC3339)),
		Hint: "renew it", Measure: seconds(left, j.limits.CertWarning, j.limits.CertCritical, true),
	}
	if c.NotBefore.After(j.facts.Now.Add(j.limits.Skew)) {
		found.Severity, found.Hint = Critical, "is the clock of this host right?"
		found.Text = "the certificate is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	j.add(&found)
}

// first returns the certificate of a chain that expires first.
func first(chain []*x509.Certificate) *x509.Certificate {
	if len(chain) == 0 {
		return nil
	}
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// endpoints judges what probes have found.
func (j *judge) endpoints(o *override.Overrides) {
	f := j.facts
	withheld := o.Apply(f.Instances, f.Now).Withheld
	asked, down := 0, 0
	for i := range f.Instances {
		in := &f.Instances[i]
		probes, probed := f.Probes[in.ID]
		if !probed {
			continue
		}
		by, isWithheld := withheld[in.ID]
		failed, refuses := 0, false
		for _, p := range probes {
			j.endpoint(in.ID, p, isWithheld, string(by.State))
			if p.Err != nil {
				failed++
			}
			refuses = refuses || p.refuses()
		}
		if isWithheld {
			continue
		}
		asked++
		if refuses || failed == len(probes) {
			down++
		}
	}
	if rest := len(f.Instances) - len(f.Probes); rest > 0 || f.Late {
		left := Finding{ID: "endpoints.left", Text: fmt.Sprintf("%d of %d instances were not connected to", rest, len(f.Instances))}
		if f.Late {
			left.Severity, left.Hint = Unknown, "--total and --parallel raise what can be done"
			left.Text = "the time was over; " + left.Text
		}
		j.add(&left)
	}
	if asked == 0 {
		return
	}
	share := 100 * float64(down) / float64(asked) //nolint:mnd // percent
	j.add(&Finding{
		ID: "instances.down", Text: fmt.Sprintf("%d of %d instances can't be called", down, asked), Hint: "all their endpoints fail, or they take no calls; see the findings of their endpoints",
		Measure: &Measure{Value: share, Unit: Percent, Warning: new(j.limits.DownWarning), Critical: new(j.limits.DownCritical)},
	})
}

// refuses reports whether the server says that it takes no calls.
func (p *Probed) refuses() bool {
	return p.Err == nil && p.Health != introspect.NoHealth && p.Health != introspect.Serving
}

// endpoint judges one endpoint.
func (j *judge) endpoint(id string, p *Probed, withheld bool, state string) {
	subject := p.Endpoint.String()
	if id != subject {
		subject = id + " " + subject
	}
	if p.Endpoint.Protocol != "" {
		subject += " " + p.Endpoint.Protocol
	}
	failed := Warning // how bad all of them together are says instances.down
	if withheld {
		failed = OK
	}
	l := j.limits
	switch {
	case p.Skipped != "":
		j.add(&Finding{ID: "endpoint.connect", Subject: subject, Text: p.Skipped})
		return
	case p.Err != nil:
		text := p.Err.Error()
		if withheld {
			text += "; it is " + state + ", so it gets no calls"
		}
		j.add(&Finding{ID: "endpoint.connect", Severity: failed, Subject: subject, Text: text, Hint: hintOf(p.Err)})
		j.certificate("tls.expiry", subject, first(p.Chain))
		return
	}
	took := p.Connect + p.Ping
	text := "connected in " + brief(p.Connect)
	if p.Ping > 0 {
		text += ", ping in " + brief(p.Ping)
	}
	j.add(&Finding{ID: "endpoint.connect", Subject: subject, Text: text, Measure: seconds(took, l.PingWarning, l.PingCritical, false), Hint: "the network or the server is slow"})
	j.certificate("tls.expiry", subject, first(p.Chain))
	j.health(subject, p, failed)
}

// health judges what a server says of its health.
func (j *judge) health(subject string, p *Probed, failed Severity) {
	switch {
	case p.HealthOf != nil:
		j.add(&Finding{ID: "health", Severity: failed, Subject: subject, Text: "it does not say: " + p.HealthOf.Error(), Hint: "does the service of health checks want a token?"})
	case p.Health == introspect.NoHealth:
		j.add(&Finding{ID: "health", Subject: subject, Text: "it has no health service"})
	case p.Health == introspect.Serving:
		j.add(&Finding{ID: "health", Subject: subject, Text: "serving"})
	default:
		j.add(&Finding{ID: "health", Severity: failed, Subject: subject, Text: string(p.Health), Hint: "the server drains, or a dependency of it has failed"})
	}
}

// hintOf returns what may help against an error of a connection.
func hintOf(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch text := err.Error(); {
	case errors.As(err, &unknown):
		return "--tls-ca names the authority"
	case errors.As(err, &host):
		return "--tls-name names the host of the certificate"
	case strings.Contains(text, "speaks TLS"):
		return "--tls or --tls-ca"
	case strings.Contains(text, "refused"):
		return "no process listens there: the server has ended, or the address is wrong"
	case strings.Contains(text, "timeout"), strings.Contains(text, "deadline"):
		return "a firewall, a wrong address, or a server that hangs"
	}
	return ""
}

// brief returns a duration that is easy to read.
func brief(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String() //nolint:mnd // two decimals
	}
	return d.Round(10 * time.Microsecond).String() //nolint:mnd // two decimals
}
