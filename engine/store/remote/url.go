package remote

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// URL is kind://HOST:PORT,.../NAME and parameters.
type URL struct {
	Servers []string
	Name    string
	User    *url.Userinfo
	query   url.Values
}

// ParseURL reads the URL of a database on servers. kind is its scheme; errors call a server what,
// and do not have the password.
func ParseURL(kind, what, s string) (*URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		if e, ok := err.(*url.Error); ok { //nolint:errorlint // it is that of Parse
			err = e.Err
		}
		return nil, fmt.Errorf("%w: each address is HOST:PORT", err)
	}
	if u.Opaque != "" { // Redacted leaves it as it is
		u.Opaque = "…"
	}
	if u.Scheme != kind || u.Host == "" {
		return nil, fmt.Errorf("%q is not %s://HOST:PORT,.../NAME", u.Redacted(), kind)
	}
	servers := strings.Split(u.Host, ",")
	for _, addr := range servers {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return nil, fmt.Errorf("address %q of a %s is not HOST:PORT", addr, what)
		}
	}
	return &URL{servers, strings.TrimPrefix(u.Path, "/"), u.User, u.Query()}, nil
}

// Set sets what the parameters of the URL name: a *string, *int, *bool, which is on or off, or
// *time.Duration, which is not negative. The parameters cert and key are given together.
func (u *URL) Set(parameters map[string]any) (err error) {
	for name, values := range u.query {
		value := values[len(values)-1]
		switch to := parameters[name].(type) {
		case *string:
			*to = value
		case *int:
			if *to, err = strconv.Atoi(value); err != nil {
				err = fmt.Errorf("%q is not a number", value)
			}
		case *bool:
			if *to = value == "on"; !*to && value != "off" {
				err = fmt.Errorf("%q is neither on nor off", value)
			}
		case *time.Duration:
			if *to, err = time.ParseDuration(value); err == nil && *to < 0 {
				err = fmt.Errorf("%v is negative", *to)
			}
		default:
			return fmt.Errorf("parameter %q is unknown: want one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		}
		if err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	if u.query.Has("cert") != u.query.Has("key") {
		return errors.New("cert and key are given together")
	}
	return nil
}
