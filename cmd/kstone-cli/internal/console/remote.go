package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/console"
)

const (
	// maxAnswerBytes bounds what is read of a console, and answerTime how long it may take.
	maxAnswerBytes = 4 << 20
	answerTime     = 5 * time.Second
)

// consoleAddress returns the address that an argument is, or false if it names a database.
func consoleAddress(arg string) (*url.URL, bool) {
	if !strings.HasPrefix(arg, "http://") && !strings.HasPrefix(arg, "https://") {
		return nil, false
	}
	u, err := url.Parse(arg)
	if err != nil {
		u = &url.URL{} // without a token, which is refused
	}
	return u, true
}

// fromConsole samples through a console.
func fromConsole(u *url.URL) (sampler, error) {
	token := u.Query().Get("token")
	if token == "" || u.Host == "" {
		return nil, cli.Usage("top: the address has no token").
			WithHint("give it as the console printed it: http://127.0.0.1:8017/?token=…")
	}
	base := *u
	base.RawQuery, base.Fragment = "", ""
	base.Path = u.Path[:strings.LastIndexByte(u.Path, '/')+1] + "api/live"
	// Why no redirects: the token goes to the address that was given, and to no other.
	client := &http.Client{Timeout: answerTime,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	return func(ctx context.Context, since uint64) (*console.Sample, error) {
		at := base
		at.RawQuery = fmt.Sprintf("since=%d", since)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		var of *url.Error
		if errors.As(err, &of) {
			return nil, cli.Advise(fmt.Errorf("console at %s: %w", u.Host, of.Err),
				"the process that serves it has ended, or the address is another one")
		}
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
		if err != nil {
			return nil, err
		}
		s := &console.Sample{}
		switch {
		case answer.StatusCode == http.StatusUnauthorized:
			return nil, fmt.Errorf("console at %s: the token is not that of the console", u.Host)
		case answer.StatusCode != http.StatusOK:
			return nil, fmt.Errorf("console at %s: %s", u.Host, answer.Status)
		}
		if err := json.Unmarshal(body, s); err != nil {
			return nil, fmt.Errorf("%s is not a console: %w", u.Host, err)
		}
		return s, nil
	}, nil
}
