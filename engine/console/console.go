package console

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/overview"
)

// Options of a console. Nil means the defaults.
type Options struct {
	// Name of the database in titles; "" is that of its directory.
	Name string
	// Version of the program, in the footer.
	Version string
	// Write allows statements that change the database.
	Write bool
	// Token authorises requests; "" makes a random one. At least 16 characters.
	Token string
	// Hosts are names, without ports, that requests may name beside loopback addresses.
	Hosts []string
	// QueryTime is how long a statement may take; 0 is 30 seconds.
	QueryTime time.Duration
	// MaxRows is how many rows of a statement are shown; 0 is 1000.
	MaxRows int
	// FormatPK and FormatSK return keys of items for people; nil is text, or hexadecimal.
	FormatPK, FormatSK func(key []byte) string
	// ReadPK returns the partition key that a text denotes; nil takes the text itself.
	ReadPK func(text string) ([]byte, error)
	// Clock is the time; nil is time.Now.
	Clock func() time.Time
}

const (
	minToken         = 16
	defaultQueryTime = 30 * time.Second
	defaultRows      = 1000
)

// Console is a handler of HTTP requests. It may be used concurrently, and below any path, with
// http.StripPrefix.
type Console struct {
	db  *table.DB
	e   *engine.DB
	o   Options
	mux *http.ServeMux
	// running has an element for every statement or count that is under way.
	running chan struct{}
}

// maxRunning is how many statements and counts run at a time.
const maxRunning = 8

// New returns a console of a database of this process. The database stays the caller's; after its
// Close, requests are answered with an error.
func New(db *table.DB, o *Options) (*Console, error) {
	c := &Console{db: db, e: local.Engine(db), running: make(chan struct{}, maxRunning)}
	if o != nil {
		c.o = *o
	}
	if c.e == nil {
		return nil, errors.New("console: the tables are in a store on another machine")
	}
	if c.o.Token == "" {
		c.o.Token = rand.Text()
	}
	if len(c.o.Token) < minToken {
		return nil, fmt.Errorf("console: a token of %d characters; at least %d are needed",
			len(c.o.Token), minToken)
	}
	if c.o.QueryTime < 0 || c.o.MaxRows < 0 {
		return nil, errors.New("console: QueryTime or MaxRows is negative")
	}
	c.o.QueryTime = cmp.Or(c.o.QueryTime, defaultQueryTime)
	c.o.MaxRows = cmp.Or(c.o.MaxRows, defaultRows)
	if c.o.Clock == nil {
		c.o.Clock = time.Now
	}
	if c.o.Name == "" {
		dir := strings.TrimRight(c.e.Dir(), `/\`)
		c.o.Name = dir[strings.LastIndexAny(dir, `/\`)+1:]
	}
	if c.o.FormatPK == nil {
		c.o.FormatPK = overview.KeyText
	}
	if c.o.FormatSK == nil {
		c.o.FormatSK = overview.KeyText
	}
	if c.o.ReadPK == nil {
		c.o.ReadPK = readKey
	}
	c.routes()
	return c, nil
}

// Token returns what requests need, as ?token= in the address or as a bearer token.
func (c *Console) Token() string { return c.o.Token }

func (c *Console) routes() {
	c.mux = http.NewServeMux()
	c.mux.HandleFunc("GET /{$}", c.overview)
	c.mux.HandleFunc("GET /query", c.page("query", nil))
	c.mux.HandleFunc("POST /api/query", call(c, c.query))
	c.mux.HandleFunc("POST /api/complete", call(c, c.complete))
	c.mux.HandleFunc("GET /browse", c.page("browse", c.browsePage))
	c.mux.HandleFunc("POST /api/rows", call(c, c.rows))
	c.mux.HandleFunc("POST /api/items", call(c, c.items))
	c.mux.HandleFunc("GET /metrics", c.page("metrics", c.metricsPage))
	c.mux.HandleFunc("GET /api/live", c.live)
	c.mux.HandleFunc("GET /advice", c.page("advice", c.advicePage))
	c.mux.HandleFunc("GET /static/{name}", c.static)
}

// begin waits until fewer than maxRunning statements run, and bounds the time of this one.
func (c *Console) begin(r *http.Request) (*http.Request, func(), error) {
	select {
	case c.running <- struct{}{}:
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	ctx, cancel := contextWithin(r, c.o.QueryTime)
	return r.WithContext(ctx), func() { cancel(); <-c.running }, nil
}
