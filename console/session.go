package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/admin"
)

const (
	cookieName = "tandem-console"
	cookieLife = 12 * time.Hour
)

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

// enter exchanges the one-time token for a cookie, or serves the page.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	given := r.URL.Query().Get("token")
	if given == "" {
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
		Name: cookieName, Value: c.sign(time.Now().Add(cookieLife)), Path: "/", MaxAge: int(cookieLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "./", http.StatusSeeOther)
}

// sign returns the value of a cookie that is valid until then.
func (c *Console) sign(until time.Time) string {
	end := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte(end))
	return end + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// user returns who sends a request.
func (c *Console) user(r *http.Request) (User, error) {
	if c.cfg.Authorizer != nil {
		return c.cfg.Authorizer(r)
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return User{}, errNoSession
	}
	end, _, _ := strings.Cut(cookie.Value, ".")
	seconds, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return User{}, errNoSession
	}
	until := time.Unix(seconds, 0)
	if subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(c.sign(until))) != 1 || time.Now().After(until) {
		return User{}, errNoSession
	}
	if c.cfg.Writer != "" {
		return User{c.cfg.Writer, admin.Operator}, nil
	}
	return User{"", admin.Developer}, nil
}
