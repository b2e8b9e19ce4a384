package remote_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/store/remote"
)

// A URL that is refused is in the error without its password.
func TestParseURL(t *testing.T) {
	u, err := remote.ParseURL("etcd", "member", "etcd://ann:secret@a:1,b:2/shop?tls=on")
	ok(t, err)
	var tls bool
	ok(t, u.Set(map[string]any{"tls": &tls}))
	if fmt.Sprint(u.Servers, " ", u.Name, " ", u.User, tls) != "[a:1 b:2] shop ann:secret true" {
		t.Errorf("%+v", u)
	}
	for url, want := range map[string]string{
		"etcd://ann:secret@a:1%zz/shop": "HOST:PORT",
		"etcd:ann:secret@a":             "etcd://HOST:PORT,.../NAME",
		"etcd:///shop":                  "etcd://HOST:PORT,.../NAME",
		"tikv://ann:secret@a:1/shop":    "etcd://HOST:PORT,.../NAME",
	} {
		_, err := remote.ParseURL("etcd", "member", url)
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
