package console

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The guard of all requests. A page of a foreign site that a person has open could otherwise ask
// this server, which trusts the machine it runs on:
//
//   - under a name that the site has made lead to 127.0.0.1: the Host header has that name, and is
//     refused;
//   - across origins: the browser sends Origin or Sec-Fetch-Site, and no cookie from another site,
//     since it is SameSite=Strict; refused are requests that a page of another origin has made;
//   - by guessing: the token has 130 random bits and is compared in constant time.
//
// The token leaves the address with the first answer, so that it is in no history or Referer.

// policy allows the files of this package, and nothing from elsewhere. With trusted types no script
// can make HTML of a text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !c.knownHost(r.Host) {
		refuse(w, http.StatusForbidden, "The console does not answer under this name. Open the "+
			"address that was printed when it was started.")
		return
	}
	if !ownOrigin(r) {
		refuse(w, http.StatusForbidden, "The request comes from a page of another site.")
		return
	}
	given := r.URL.Query().Get("token")
	if given != "" && c.isToken(given) && r.Method == http.MethodGet &&
		!strings.HasPrefix(r.URL.Path, "/api/") {
		c.welcome(w, r)
		return
	}
	if !c.mayEnter(r, given) {
		h.Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "The console needs its token. Open the address that "+
			"was printed when it was started: it ends in ?token=…")
		return
	}
	c.mux.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// welcome keeps the token in a cookie and leads to the same page without it.
func (c *Console) welcome(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: c.cookie(), Value: url.QueryEscape(c.o.Token),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	q := r.URL.Query()
	q.Del("token")
	to := "./" + r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if text := q.Encode(); text != "" {
		to += "?" + text
	}
	// Why not http.Redirect: it makes the path absolute, and the console may be below another.
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// cookie returns a name of its own for each token: consoles at other ports share the cookies.
func (c *Console) cookie() string {
	sum := sha256.Sum256([]byte("cookie " + c.o.Token))
	return "kstone-" + hex.EncodeToString(sum[:6])
}

// isToken compares a text with the token, in a time that does not depend on them.
func (c *Console) isToken(text string) bool {
	got, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(c.o.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// mayEnter reports whether the request has the token, in a cookie, as a bearer token or given in
// its address.
func (c *Console) mayEnter(r *http.Request, given string) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return c.isToken(bearer)
	}
	if cookie, err := r.Cookie(c.cookie()); err == nil {
		token, err := url.QueryUnescape(cookie.Value) // a cookie cannot hold all characters
		return err == nil && c.isToken(token)
	}
	return given != "" && c.isToken(given)
}

// knownHost reports whether a Host header names a loopback address or one of Options.Hosts.
func (c *Console) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if slices.ContainsFunc(append([]string{"localhost"}, c.o.Hosts...), func(name string) bool {
		return strings.EqualFold(name, host)
	}) {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// ownOrigin reports whether no page of another origin has made the request. One may lead to a page
// of the console, as any link does.
func ownOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// contextWithin returns the context of a request, which ends after d, too.
func contextWithin(r *http.Request, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(r.Context(), d,
		fmt.Errorf("stopped after %s, the limit of the console", d))
}
