package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
)

const (
	maxLogins  = 1000
	maxPerUser = 20 // a header that a user may set tells his logins apart
	refusedFor = time.Hour
)

// login is a session of a user: of the one who used the token, or of one that the Authorizer accepts.
type login struct {
	id        string // for the page; no secret
	user      User
	address   string
	forwarded string
	since     time.Time
	seen      time.Time
	until     time.Time // zero with an Authorizer, which decides for each request

	ctx context.Context //nolint:containedctx // of what the login has begun
	end context.CancelFunc
}

// logins are those who use the console, and those who may not for a time.
type logins struct {
	mu      sync.Mutex
	all     map[string]*login  // by the value of the cookie, or by userKey with an Authorizer
	refused map[string]Refusal // by name
}

// begin lets the holder of the token in, and returns the value of the cookie.
func (s *logins) begin(ctx context.Context, r *http.Request, u User) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	secret, now := rand.Text(), time.Now()
	s.addLocked(ctx, secret, r, u, now).until = now.Add(cookieLife)
	return secret
}

// note records a request of a user that the Authorizer accepts. It returns an error if an administrator
// has refused the user.
func (s *logins) note(ctx context.Context, r *http.Request, u User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if f, ok := s.refused[u.Name]; ok && now.Before(f.Until) {
		return tandem.Errorf(tandem.Unauthenticated, "%s has ended your session and refuses you until %s: %s", f.By, f.Until.Format(time.DateTime), f.Why)
	}
	l := s.all[userKey(r, u)]
	if l == nil || now.Sub(l.seen) > cookieLife {
		l = s.addLocked(ctx, userKey(r, u), r, u, now)
	}
	l.user, l.seen = u, now
	return nil
}

// userKey tells users of an Authorizer apart, by name and address.
func userKey(r *http.Request, u User) string {
	address, forwarded := addressOf(r)
	return strings.Join([]string{u.Name, address, forwarded}, "\n")
}

func (s *logins) addLocked(ctx context.Context, key string, r *http.Request, u User, now time.Time) *login {
	if s.all == nil {
		s.all, s.refused = map[string]*login{}, map[string]Refusal{}
	}
	if old := s.all[key]; old != nil {
		old.end()
	}
	s.makeRoomLocked(maxPerUser, func(l *login) bool { return l.user.Name == u.Name })
	s.makeRoomLocked(maxLogins, func(*login) bool { return true })
	l := &login{id: rand.Text(), user: u, since: now, seen: now}
	l.address, l.forwarded = addressOf(r)
	l.ctx, l.end = context.WithCancel(ctx)
	s.all[key] = l
	return l
}

// makeRoomLocked ends the login seen the longest time ago of those that match, if there are as many
// as there may be.
func (s *logins) makeRoomLocked(most int, match func(*login) bool) {
	n, oldest := 0, ""
	for key, l := range s.all {
		if match(l) {
			n++
			if oldest == "" || l.seen.Before(s.all[oldest].seen) {
				oldest = key
			}
		}
	}
	if n >= most {
		s.removeLocked(oldest)
	}
}

func (s *logins) removeLocked(key string) {
	if l := s.all[key]; l != nil {
		l.end()
		delete(s.all, key)
	}
}

// addressOf returns the address of the peer, and the client address that a proxy gives in
// X-Forwarded-For, if any.
func addressOf(r *http.Request) (address, forwarded string) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	all := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	forwarded = strings.TrimSpace(all[len(all)-1]) // the nearest proxy's
	return address, forwarded[:min(len(forwarded), 64)]
}

// of returns the login with a key; nil if there is none, or no more.
func (s *logins) of(key string, now time.Time) *login {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.all[key]
	if l == nil {
		return nil
	}
	if !l.until.IsZero() && now.After(l.until) {
		s.removeLocked(key)
		return nil
	}
	l.seen = now
	return l
}

// rows returns the logins and the refusals that last, the latest first.
func (s *logins) rows(own *login, now time.Time) (rows []SessionRow, refused []Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, refused = []SessionRow{}, []Refusal{}
	for _, l := range s.all {
		if now.Sub(l.seen) < cookieLife {
			rows = append(rows, l.row(own))
		}
	}
	for _, f := range s.refused {
		if now.Before(f.Until) {
			refused = append(refused, f)
		}
	}
	slices.SortFunc(rows, func(a, b SessionRow) int { return cmp.Or(b.Seen.Compare(a.Seen), strings.Compare(a.ID, b.ID)) })
	slices.SortFunc(refused, func(a, b Refusal) int { return b.At.Compare(a.At) })
	return rows, refused
}

func (l *login) row(own *login) SessionRow {
	return SessionRow{
		ID: l.id, Name: l.user.Name, Role: l.user.Role.String(), Since: l.since, Seen: l.seen, Until: l.until,
		Address: l.address, Forwarded: l.forwarded, Own: l == own,
	}
}

// endOf ends the logins that match, and returns how many there were.
func (s *logins) endOf(match func(*login) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, l := range s.all {
		if match(l) {
			s.removeLocked(key)
			n++
		}
	}
	return n
}

type loginKey struct{}

func withLogin(ctx context.Context, l *login) context.Context {
	return context.WithValue(ctx, loginKey{}, l)
}

// ownLogin returns the login that a request belongs to; nil if there is none.
func ownLogin(ctx context.Context) *login {
	l, _ := ctx.Value(loginKey{}).(*login)
	return l
}

// access says who the caller is, and what which role allows.
func (c *Console) access(ctx context.Context, u User, _ *AccessRequest) (*Access, error) {
	out := &Access{By: byToken, LogoutURL: c.cfg.LogoutURL, Actions: c.actions(), Lists: c.listRoles()}
	for r := admin.Viewer; r <= admin.Administrator; r++ {
		out.Roles = append(out.Roles, r.String())
	}
	own := ownLogin(ctx)
	if c.cfg.Authorizer != nil {
		out.By = byAuthorizer
	}
	rows, refused := c.logins.rows(own, time.Now())
	for i := range rows {
		if rows[i].Own {
			out.Own = &rows[i]
		}
	}
	if u.Role >= admin.Administrator {
		out.Sessions, out.Refused = rows, refused
	}
	return out, nil
}

// Ways to get in.
const (
	byToken      = "token"
	byAuthorizer = "authorizer"
)

// actions returns what each role allows, from the tables that decide it.
func (c *Console) actions() (all []Action) {
	for name, m := range c.methods() {
		if name != "Ask" { // its role is that of what it passes on
			all = append(all, Action{Name: name, Role: max(m.need, admin.Viewer).String(), Preview: m.preview})
		}
	}
	for name, need := range passed() {
		if _, own := c.methods()[name]; !own {
			all = append(all, Action{Name: name, Role: need.String(), Instance: true})
		}
	}
	all = append(all, Action{Name: "Tap", Role: tapRole(false).String(), Instance: true}, Action{Name: "TapPayload", Role: tapRole(true).String(), Instance: true})
	slices.SortFunc(all, func(a, b Action) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// listRoles returns which role the instances of each list give the console, as far as they have
// been asked.
func (c *Console) listRoles() []ListRoles {
	out := []ListRoles{}
	for _, l := range c.lists() {
		row := ListRoles{List: l.name, Roles: map[string]int{}}
		for _, in := range l.rows() {
			s := c.figures.get(figureKey{l.name, in.ID})
			switch {
			case !answers(&in.Instance):
				row.Without++
			case s == nil:
				row.Unknown++
			case tandem.CodeOf(s.err) == tandem.PermissionDenied || tandem.CodeOf(s.err) == tandem.Unauthenticated:
				row.Refused++
				row.Error = short(s.err)
			case s.err != nil:
				row.Silent++
			default:
				row.Roles[s.info.Role]++
			}
		}
		out = append(out, row)
	}
	return out
}

// logout ends the caller's own login.
func (c *Console) logout(ctx context.Context, _ User, _ *LogoutRequest) (*LogoutAnswer, error) {
	if c.cfg.Authorizer != nil {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "the console's Authorizer decides who is logged in: log out where you logged in")
	}
	own := ownLogin(ctx)
	c.logins.endOf(func(l *login) bool { return l == own })
	return &LogoutAnswer{}, nil
}

// refuseUser ends the sessions of a user, and refuses him for a time, or says what that would end.
func (c *Console) refuseUser(ctx context.Context, u User, req *RefuseUserRequest) (*RefusedUser, error) {
	own := ownLogin(ctx)
	switch {
	case c.cfg.Authorizer == nil:
		return nil, tandem.Errorf(tandem.FailedPrecondition, "the holder of the token is the only user")
	case req.Name == "":
		return nil, tandem.Errorf(tandem.InvalidArgument, "the Authorizer gives this user no name, so others would be refused too")
	case own != nil && own.user.Name == req.Name:
		return nil, tandem.Errorf(tandem.FailedPrecondition, "this is your own session: log out instead")
	case !req.DryRun && strings.TrimSpace(req.Why) == "":
		return nil, tandem.Errorf(tandem.InvalidArgument, "a change needs a reason: why")
	}
	now := time.Now()
	out := &RefusedUser{Refusal: Refusal{Name: req.Name, By: u.Name, Why: req.Why[:min(len(req.Why), maxReason)], At: now, Until: now.Add(refusedFor)}}
	if req.DryRun {
		rows, _ := c.logins.rows(own, now)
		for i := range rows {
			if rows[i].Name == req.Name {
				out.Ended++
			}
		}
		return out, nil
	}
	if !c.logins.refuse(out.Refusal) {
		return nil, tandem.Errorf(tandem.ResourceExhausted, "%d users are refused, which is the limit", maxLogins)
	}
	out.Ended = c.logins.endOf(func(l *login) bool { return l.user.Name == req.Name })
	return out, nil
}

// maxReason is how much of a reason is kept, in bytes.
const maxReason = 500

func (s *logins) refuse(f Refusal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.refused, func(_ string, f Refusal) bool { return time.Now().After(f.Until) })
	if len(s.refused) >= maxLogins {
		return false
	}
	s.refused[f.Name] = f
	return true
}

// admitUser lets a user in again who is refused.
func (c *Console) admitUser(_ context.Context, _ User, req *AdmitUserRequest) (*AdmittedUser, error) {
	c.logins.mu.Lock()
	_, refused := c.logins.refused[req.Name]
	delete(c.logins.refused, req.Name)
	c.logins.mu.Unlock()
	if !refused {
		return nil, tandem.Errorf(tandem.NotFound, "%q is not refused", req.Name)
	}
	return &AdmittedUser{}, nil
}
