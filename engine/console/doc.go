// Package console shows a database in a browser: what it holds, its files on disk, live metrics,
// tables and items, queries with their plans, and advice about indexes.
//
//	c, err := console.New(tables, nil)
//	…
//	mux.Handle("/db/", http.StripPrefix("/db", c))
//	fmt.Println("http://localhost:8080/db/?token=" + c.Token())
//
// # Access
//
// Every request needs the token, which the first one has in its address and others in a cookie. It
// must name a loopback host, or one of Options.Hosts, so that a request under a foreign name that
// resolves to this machine is refused; and it must come from a page of the console itself.
// Statements change nothing unless Options.Write is set.
//
// The pages load nothing from elsewhere, and no script that is not a file of this package. What a
// database contains is shown as text.
//
// The package depends on the standard library only.
package console
