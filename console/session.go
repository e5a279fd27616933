package console

import (
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/admin"
)

// cookieLife is how long the one-time token lets a browser in.
const cookieLife = 12 * time.Hour

var (
	errWrongHost = errors.New("this console has another name: see Config.Hosts")
	errNoSession = errors.New("open the address that the console printed when it started; its token works once")
)

// Handler returns the console as a handler, for servers of the caller's own. Config.Hosts must
// have the names by which they are addressed.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/{name}", c.serveAPI)
	mux.HandleFunc("POST /api/Tap", c.serveTap)
	mux.HandleFunc("POST /api/Stream", c.serveStream)
	mux.HandleFunc("GET /api/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
	})
	mux.HandleFunc("GET /{$}", c.enter)
	mux.Handle("GET /", c.pages)
	return c.guard(http.NewCrossOriginProtection().Handler(mux))
}

// guard refuses requests for other hosts, which a page of another site may make after it has given
// its own name the console's address, and forbids the page everything but its own files.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "+
			"base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if !c.isOwnHost(r.Host) {
			http.Error(w, errWrongHost.Error(), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Console) allowHost(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts = append(c.hosts, host)
}

func (c *Console) isOwnHost(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if name == "localhost" || slices.Contains(c.hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && ip.IsLoopback()
}

func isLoopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return a.Network() == "unix" || err == nil && at.Addr().Unmap().IsLoopback()
}

// enter exchanges the one-time token for a cookie, or serves the page. HEAD, which programs send to
// look at an address before they open it, leaves the token as it is.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	given := r.URL.Query().Get("token")
	if given == "" || r.Method == http.MethodHead {
		c.pages.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	valid := c.cfg.Authorizer == nil && !c.used && subtle.ConstantTimeCompare([]byte(given), []byte(c.token)) == 1
	c.used = c.used || valid
	c.mu.Unlock()
	if !valid {
		c.auditLogin(r, errNoSession)
		http.Error(w, errNoSession.Error(), http.StatusForbidden)
		return
	}
	c.auditLogin(r, nil)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where there is TLS: browsers keep no secure cookie of plain http
		Name: c.cookie, Value: c.logins.begin(c.ctx, r, c.holder()), Path: "/", MaxAge: int(cookieLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "./", http.StatusSeeOther)
}

// holder returns the user that the holder of the token is.
func (c *Console) holder() User {
	if c.cfg.Writer != "" {
		return User{c.cfg.Writer, admin.Operator}
	}
	return User{"", admin.Developer}
}

// user returns who sends a request.
func (c *Console) user(r *http.Request) (User, error) {
	if c.cfg.Authorizer != nil {
		u, err := c.cfg.Authorizer(r)
		if err != nil || u.Role == 0 {
			return u, err
		}
		return u, c.logins.note(c.ctx, r, u)
	}
	if l := c.loginOf(r, User{}); l != nil {
		return l.user, nil
	}
	return User{}, errNoSession
}

// loginOf returns the login that a request belongs to; nil if there is none.
func (c *Console) loginOf(r *http.Request, u User) *login {
	if c.cfg.Authorizer != nil {
		return c.logins.of(userKey(r, u), time.Now())
	}
	cookie, err := r.Cookie(c.cookie)
	if err != nil {
		return nil
	}
	return c.logins.of(cookie.Value, time.Now())
}
